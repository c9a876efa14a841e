/* The card of an attribute: its chart, fields for a range, a table, and what can be saved. */

import { dayOrdinal, dayText } from "./questions.js";
import { drawnChosen, isDoubtful, narrowed, overDrawn } from "./shown.js";
import { byId, likely, made, rows } from "./drawing.js";
import { barChart } from "./bars.js";
import { saveButtons } from "./saving.js";
import { isRangeOf } from "./state.js";

/** Make the card of an attribute: its chart, fields for a range, a table and what can be saved. */
export function attributeCard(page, attribute, axis) {
  const chart = barChart(attribute, axis, (bars, before) => chooseBars(page, axis, bars, before));
  const header = ["bin", "count", "low", "high", "noise", "nonuniformity"];
  const table = () => [
    [attribute.name, ...header.slice(1)],
    chart
      .table()
      .map(({ label, value, low, high, stderr, nonuniformity }) => [
        label,
        value,
        ...[low, high, stderr, nonuniformity].map((n) => n ?? NaN),
      ]),
  ];
  const shown = made("table");
  const details = made(
    "details",
    { ontoggle: () => fillTable(shown, chart, details.open) },
    made("summary", {}, "Table"),
    shown,
  );
  const fields = attribute.scale === "position" ? null : rangeFields(page, attribute, axis);
  const card = made(
    "article",
    { className: attribute.ordered ? "card" : "card tall" },
    made("h3", {}, attribute.shown),
    chart.list,
    chart.said,
    ...(fields ? [fields.element] : []),
    made(
      "div",
      { className: "tools" },
      details,
      saveButtons([page.cube.facts.name, attribute.shown], table, () => ({ element: chart.svg })),
    ),
  );
  byId("charts").append(card);
  return {
    lay: chart.lay,
    update: (question, marginal) => {
      fields?.show(page.view.chosen[axis]);
      return updateChart(page, chart, question, marginal, axis, () => fillTable(shown, chart, details.open));
    },
    choose: (question) => {
      fields?.show(page.view.chosen[axis]);
      chart.choose(drawnChosen(question, axis, attribute.drawn));
    },
    values: (question, values) => chart.show(Float64Array.from(values), drawnChosen(question, axis, attribute.drawn)),
    told: (question, answers) => {
      chart.show(
        answers.map(({ value }) => value),
        drawnChosen(question, axis, attribute.drawn),
      );
      answers.forEach((answer, bar) => chart.tell(bar, answer));
      fillTable(shown, chart, details.open);
    },
  };
}

/** Choose drawn bins of an attribute: these alone, or turned about in those that were chosen `before`. */
function chooseBars(page, axis, bars, before) {
  const { drawn: bins } = page.cube.facts.attributes[axis];
  let taken = bars;
  if (bars && before) taken = before.map((was, bar) => (bars[bar] ? !was : was));
  page.view.chosen[axis] = taken && cellsOf(page.cube.shape[axis], bins, taken);
  page.show();
}

export function cellsOf(size, { starts, stops }, taken) {
  const cells = new Array(size).fill(false);
  taken.forEach((is, bar) => is && cells.fill(true, starts[bar], stops[bar]));
  return cells.includes(true) && cells.includes(false) ? { cells } : null;
}

/** Show the values of a chart, and return the jobs that work its intervals out. */
function updateChart({ cube }, chart, question, marginal, axis, done) {
  const { drawn: bins } = cube.facts.attributes[axis];
  const values = overDrawn(marginal, bins);
  chart.show(values, drawnChosen(question, axis, bins));
  const jobs = bins.starts.map((start, bar) => () => {
    chart.tell(bar, cube.answer(narrowed(question, axis, start, bins.stops[bar]), values[bar]));
  });
  return [...jobs, done];
}

function fillTable(table, chart, isOpen) {
  if (!isOpen) return;
  const line = (tag, ...cells) =>
    made("tr", {}, ...cells.map((cell) => made(tag, tag === "th" ? { scope: "col" } : {}, cell)));
  const body = chart
    .table()
    .map((bar) =>
      line(
        "td",
        bar.label,
        rows(bar.value),
        bar.low === undefined ? "" : likely(bar) + (isDoubtful(bar) ? " (may be none)" : ""),
      ),
    );
  table.replaceChildren(made("thead", {}, line("th", "", "rows", "how sure")), made("tbody", {}, ...body));
}

/** Return two fields for the ends of a range, both included. */
function rangeFields(page, attribute, axis) {
  const isDay = attribute.scale === "day";
  const edges = page.cube.edges[axis];
  const [first, last] = [edges[0], edges[edges.length - 1] - attribute.step];
  const written = (end) => (isDay ? dayText(end) : String(end));
  const read = (text, otherwise) => (text.trim() === "" ? otherwise : isDay ? dayOrdinal(text) : Number(text));
  const field = (label, end) =>
    made("input", {
      type: isDay ? "date" : "text",
      inputMode: isDay ? "" : "decimal",
      placeholder: written(end),
      "aria-label": `${attribute.shown} ${label}`,
    });
  const [from, to] = [field("from", first), field("to", last)];
  const said = made("span", { className: "refused", role: "status" });
  const changed = () => {
    const ends = [read(from.value, first), read(to.value, last)];
    const empty = from.value.trim() === "" && to.value.trim() === "";
    const fits = isRangeOf(attribute, edges, ...ends);
    said.textContent =
      empty || fits
        ? ""
        : `There is nothing so: ${written(first)} to ${written(last)}${attribute.step === 1 && !isDay ? ", whole numbers" : ""}.`;
    if (!empty && !fits) return;
    page.view.chosen[axis] = empty ? null : { from: ends[0], to: ends[1] };
    page.show();
  };
  from.onchange = to.onchange = changed;
  return {
    element: made("div", { className: "range" }, made("label", {}, "from ", from), made("label", {}, "to ", to), said),
    show: (chosen) => {
      if ([from, to].includes(document.activeElement)) return;
      [from.value, to.value] = chosen?.from === undefined ? ["", ""] : [written(chosen.from), written(chosen.to)];
    },
  };
}
