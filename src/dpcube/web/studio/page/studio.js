// The curator's page. Names of columns are untrusted: they are only inserted as text.
"use strict";

const given = document.querySelector('meta[name="key"]').content;
if (given) sessionStorage.setItem("key", given); // for this origin alone; survives a reload
const key = sessionStorage.getItem("key") || "";
history.replaceState(null, "", "/"); // the token is used; hide it

const at = (id) => document.getElementById(id);
const make = (tag, settings = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), settings);
  made.append(...children);
  return made;
};
const BOUNDS = { integer: ["min", "max", "width"], float: ["min", "max", "width"], date: ["start", "end"], category: [] };
const HINTS = { start: "YYYY-MM-DD", end: "YYYY-MM-DD" };
const ASKED = { "": "the default", mixed: "all kinds", ranges: "ranges", prefixes: "up to a value", short: "short ranges", groups: "single values" };
const ENDS = { null: ["drop", "cell"], unknown: ["drop", "cell"], outside: ["drop", "clip", "cell"] };
let columns = [];

const call = async (action, request) => {
  const answer = await fetch(`/do/${action}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Dpcube-Key": key },
    body: JSON.stringify(request),
  });
  const reply = await answer.json();
  if (!answer.ok) throw new Error(reply.error);
  return reply;
};
const fault = (words) => {
  at("fault").textContent = words;
  at("fault").hidden = !words;
};
const attempt = async (button, act) => {
  fault("");
  if (button) button.disabled = true;
  try {
    await act();
  } catch (error) {
    fault(error.message);
  } finally {
    if (button) button.disabled = false;
  }
};

const chosen = () => columns.filter((column) => column.take.checked);
const form = () => ({
  attributes: chosen().map((column) => column.declared()),
  queries: chosen().map((column) => column.asked.value),
  signed_public_by: at("signed").value,
  unit: at("unit").value,
  max_rows: at("max-rows").value,
  rows: at("rows").value,
  epsilon: at("epsilon").value,
  domain_file: at("domain-file").value,
  output: at("output").value,
  total: at("total").value,
  purpose: at("purpose").value,
});

const field = (words, input) => make("label", {}, `${words} `, input);
const choice = (values, value) => {
  const made = make("select");
  for (const [name, shown] of Object.entries(values)) made.append(make("option", { value: name, textContent: shown }));
  made.value = value;
  return made;
};
const same = (names) => Object.fromEntries(names.map((name) => [name, name]));

// One column: a checkbox, its type, and the fields of that type. Other keys of a draft are preserved.
const column = ({ name, type }, number) => {
  const take = make("input", { type: "checkbox", id: `take-${number}` });
  const kind = choice(same(Object.keys(BOUNDS)), "category");
  const asked = choice(ASKED, "");
  const fields = make("div", { className: "fields", hidden: true });
  let inputs = {}, kept = {};
  const show = (declared = {}) => {
    inputs = {};
    fields.replaceChildren(field("type", kind));
    for (const bound of BOUNDS[kind.value]) {
      inputs[bound] = make("input", { size: 12, value: declared[bound] ?? "", placeholder: HINTS[bound] ?? "" });
      inputs[bound].dataset.key = bound;
      fields.append(field(bound, inputs[bound]));
    }
    if (kind.value === "category") {
      inputs.values = make("textarea", { value: (declared.values ?? []).join("\n") });
      inputs.values.dataset.key = "values";
      fields.append(field("values, one a line", inputs.values));
    }
    if (kind.value === "date") {
      inputs.every = choice(same(["day", "week", "month", "quarter", "year"]), declared.every ?? "month");
      fields.append(field("every", inputs.every));
    }
    for (const [end, values] of Object.entries(ENDS)) {
      if (end === "outside" && kind.value === "category") continue;
      inputs[end] = choice(same(values), declared[end] ?? "drop");
      fields.append(field(end, inputs[end]));
    }
    fields.append(field("typical queries", asked));
  };
  const fill = (declared) => {
    kind.value = declared.type;
    kept = declared;
    show(declared);
  };
  const declared = () => {
    const made = kept.type === kind.value ? { ...kept } : {};
    Object.assign(made, { name, type: kind.value });
    for (const [id, input] of Object.entries(inputs)) {
      made[id] = id === "values" ? input.value.split("\n").map((v) => v.trim()).filter(Boolean) : input.value.trim();
      if (ENDS[id] && made[id] === "drop") delete made[id];
    }
    return made;
  };
  kind.addEventListener("change", () => show());
  take.addEventListener("change", () => { fields.hidden = !take.checked; });
  show();
  const box = make("div", { className: "column" },
    make("label", {}, take, " ", make("span", { className: "name", textContent: name }), " ",
      make("span", { className: "held", textContent: type })), fields);
  return { name, take, asked, fill, declared, box };
};

const table = (name, header, rows) => {
  const body = make("tbody");
  for (const row of rows) {
    const line = make("tr");
    for (const cell of row) line.append(make("td", { textContent: cell }));
    body.append(line);
  }
  const head = make("tr");
  for (const name of header) head.append(make("th", { scope: "col", textContent: name }));
  return make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: name }, make("table", {}, make("thead", {}, head), body));
};

const QUESTIONS = { ranges: "a range", cells: "one cell", marginals: "one value of an attribute", total: "all rows" };
let waiting = 0, before = {}, shown = {};
const changed = () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => attempt(null, predict), 600);
};
const predict = async () => {
  if (!chosen().length) {
    at("size").textContent = "";
    at("plan").replaceChildren();
    return;
  }
  const asked = form();
  let size;
  try {
    size = await call("size", asked);
  } catch (error) { // an incomplete form is not an error yet
    at("size").textContent = `Not complete: ${error.message}`;
    at("plan").replaceChildren();
    return;
  }
  at("size").textContent = `${size.shape.join(" × ")} = ${size.cells.toLocaleString("en")} cells`;
  if (!asked.rows.trim() || !asked.epsilon.trim()) return;
  at("planning").textContent = "predicting …";
  try {
    const told = await call("plan", asked);
    if (told.superseded) return;
    before = shown;
    shown = Object.fromEntries(told.predictions.map((p) => [p.question, p.error]));
    const rows = told.predictions.map((p) => [QUESTIONS[p.question] ?? p.question, p.answer, `± ${p.error}`,
      before[p.question] ? `± ${before[p.question]}` : "", `${p.low} to ${p.high}`, p.stands_out ? "yes" : "no: below the noise"]);
    at("plan").replaceChildren(
      table("predicted errors", ["question", "typical answer", "typical error, rows", "before your last change", "range over kinds of tables", "stands out"], rows),
      ...told.refusals.map((words) => make("p", { className: "faint", textContent: `This release would be refused: ${words}` })));
    at("planning").textContent = "";
  } catch (error) {
    at("planning").textContent = "";
    throw error;
  }
};

const look = async () => {
  const told = await call("look", { columns: chosen().map((column) => column.name) });
  for (const declared of told.attributes) columns.find((column) => column.name === declared.name)?.fill(declared);
  at("sign-line").hidden = !told.looked;
  changed();
};
const checkRows = async () => {
  const told = await call("check", form());
  at("looks").replaceChildren(
    table("which rows would count", ["attribute", ...told.ends], told.looks.map((row) => [row.attribute, ...told.ends.map((end) => row[end])])),
    make("p", { textContent: `Rows counted by all attributes together: ${told.counted}.${told.kept ? ` Kept after the limit of rows per unit: ${told.kept}.` : ""}` }));
};
const save = async () => {
  const told = await call("save", form());
  at("saved").textContent = `wrote ${told.domain_file}`;
};

let ticket = "";
const prepare = async () => {
  const told = await call("prepare", form());
  ticket = told.ticket;
  const facts = [["table", at("table").textContent], ["cells", told.cells.toLocaleString("en")], ["epsilon", told.epsilon],
    ["protects", told.protects], ["ledger", told.ledger], ["budget left now, and after", `${told.left}, and ${told.left_after}`],
    ["file", told.output]];
  at("summary").replaceChildren(table("what would be released", ["item", "value"], facts),
    make("p", {}, "The same on the command line: ", make("code", { textContent: told.command })));
  at("typed").value = "";
  at("confirm").showModal();
};
const spend = async () => {
  at("confirm").close();
  at("done").textContent = "releasing …";
  try {
    const told = await call("release", { ticket, typed_epsilon: at("typed").value });
    at("done").textContent = `Wrote ${told.release} with epsilon ${told.epsilon}, digest ${told.digest}. The ledger was charged.`;
  } catch (error) {
    at("done").textContent = "";
    throw error;
  }
};

const start = async () => {
  const told = await call("table", {});
  at("table").textContent = told.table;
  at("sign-line").hidden = !told.looked;
  columns = told.columns.map(column);
  for (const declared of told.attributes) columns.find((made) => made.name === declared.name)?.fill(declared);
  at("columns").replaceChildren(...columns.map((made) => made.box));
  for (const { name } of told.columns) at("unit").append(make("option", { value: name, textContent: `all rows of one ${name}` }));
  document.body.dataset.ready = "yes";
};

at("allow-look").addEventListener("change", () => { at("look").disabled = !at("allow-look").checked; });
at("unit").addEventListener("change", () => { at("max-rows-line").hidden = !at("unit").value; });
for (const [id, act] of Object.entries({ look, check: checkRows, save, prepare, spend })) {
  at(id).addEventListener("click", () => attempt(at(id), act));
}
at("cancel").addEventListener("click", () => at("confirm").close());
at("columns").addEventListener("input", changed);
for (const id of ["rows", "epsilon", "unit", "max-rows", "signed"]) at(id).addEventListener("input", changed);
attempt(null, start);
