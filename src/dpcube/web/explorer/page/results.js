/* The result of a statement: a table, and bars of one of its columns of numbers.

   A column `x` with errors has `x_low` and `x_high` beside it: they are its whiskers. */

import { byId, cutShort, drawn, hatch, made, rows, setAll } from "./drawing.js";
import { saveButtons } from "./saving.js";

const [MAX_BARS, MAX_LINES] = [60, 500];
const [LINE, WIDEST, NUMBERS] = [24, 640, 90];
const OF_ERRORS = /_(stderr|nonuniformity|low|high)$/;

/** Return the elements that show a result {columns, rows, total}. */
export function resultOf(name, { columns, rows: lines, total }) {
  const drawing = made("div");
  const measures = columns.flatMap(({ number, name: of }, at) => (number && !OF_ERRORS.test(of) ? [at] : []));
  const labels = columns.flatMap(({ number, name: of }, at) => (!number || (measures.length > 1 && at < measures.at(-1) && !OF_ERRORS.test(of)) ? [at] : []));
  let shown = measures.at(-1);
  const draw = () => drawing.replaceChildren(...(shown === undefined ? [] : [barsOf(columns, lines, labels.filter((at) => at !== shown), shown)]));
  draw();
  const pick = made("select", { onchange: () => ((shown = Number(pick.value)), draw()) });
  pick.append(...measures.map((at) => made("option", { value: at, selected: at === shown }, columns[at].name)));
  const said =
    total > lines.length
      ? `${total.toLocaleString("en-US")} rows, of which the first ${lines.length.toLocaleString("en-US")} are shown; use LIMIT, or dpcube sql.`
      : `${total.toLocaleString("en-US")} row${total === 1 ? "" : "s"}.`;
  const table = () => [columns.map((column) => column.name), lines.map((line) => line.map((cell) => cell ?? ""))];
  return made(
    "div",
    { className: "card" },
    made("p", { className: "small" }, said),
    ...(measures.length > 1 ? [made("label", { className: "small" }, "Bars of ", pick)] : []),
    drawing,
    tableOf(columns, lines),
    saveButtons([name, "sql"], table, () => ({ element: drawing.querySelector("svg") }), { picture: shown !== undefined }),
  );
}

function tableOf(columns, lines) {
  const head = columns.map(({ name, number }) => made("th", { scope: "col", className: number ? "number" : "" }, name));
  const body = lines.slice(0, MAX_LINES).map((line) =>
    made("tr", {}, ...line.map((cell, at) => made("td", { className: columns[at].number ? "number" : "" }, cellText(cell)))),
  );
  const table = made("table", { className: "result" }, made("thead", {}, made("tr", {}, ...head)), made("tbody", {}, ...body));
  const more = lines.length > MAX_LINES ? [made("p", { className: "small" }, `The first ${MAX_LINES} are shown; all are in the CSV.`)] : [];
  return made("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Result" }, table, ...more);
}

function cellText(cell) {
  if (cell === null) return "–";
  return typeof cell === "number" ? cell.toLocaleString("en-US", { maximumSignificantDigits: 7 }) : String(cell);
}

/** Draw one column of numbers as bars, with whiskers if the result has the ends of its intervals. */
function barsOf(columns, lines, labels, measure) {
  const at = (suffix) => columns.findIndex(({ name }) => name === columns[measure].name + suffix);
  const [low, high] = [at("_low"), at("_high")];
  const taken = lines.slice(0, MAX_BARS).filter((line) => typeof line[measure] === "number");
  const width = Math.max(Math.min(byId("sql").clientWidth - 40, WIDEST), 240);
  const names = 0.32 * width;
  const svg = drawn("svg", { class: "bars result", role: "img", "aria-label": `Bars of ${columns[measure].name}; the table has the numbers` });
  const fill = hatch(svg, "hatch-sql");
  const ends = taken.flatMap((line) => [line[measure], line[low], line[high]].filter((end) => typeof end === "number"));
  const [bottom, top] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const x = (value) => names + 8 + ((value - bottom) / (top - bottom || 1)) * (width - names - NUMBERS - 16);
  taken.forEach((line, number) => {
    const y = number * LINE;
    const words = labels.map((place) => cellText(line[place])).join(", ");
    const doubtful = line[low] <= 0 && line[low] !== null;
    const [from, to] = [x(0), x(line[measure])];
    svg.append(
      drawn("text", { x: names, y: y + 16, "text-anchor": "end", class: "name" }, cutShort(words, Math.floor(names / 7.6))),
      drawn("rect", { x: Math.min(from, to), y: y + 4, width: Math.abs(to - from), height: LINE - 8, class: "body", ...(doubtful ? { fill } : {}) }),
      drawn("text", { x: width - 4, y: y + 16, "text-anchor": "end", class: "count" }, numberText(line[measure])),
    );
    if (doubtful) svg.lastChild.previousSibling.style.fill = fill;
    if (typeof line[low] === "number" && typeof line[high] === "number")
      svg.append(drawn("path", { class: "whisker", d: `M${x(line[low])} ${y + 8}v8M${x(line[high])} ${y + 8}v8M${x(line[low])} ${y + 12}H${x(line[high])}` }));
  });
  const height = Math.max(taken.length, 1) * LINE + 4;
  setAll(svg, { width, height, viewBox: `0 0 ${width} ${height}` });
  const more = lines.length > MAX_BARS ? [made("p", { className: "small" }, `Bars of the first ${MAX_BARS} rows.`)] : [];
  return made("div", { className: "drawing" }, svg, ...more);
}

function numberText(number) {
  return Math.abs(number) >= 10 ? rows(number) : String(Number(number.toPrecision(3)));
}
