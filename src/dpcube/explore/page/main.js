/* The page: contents are unpacked, charts made, and whatever is chosen is shown everywhere. */

import { loadContents } from "./source.js";
import { everyMarginal, tableOver } from "./marginals.js";
import { conditionOnCells, conditionOnRange, dayOrdinal, dayText, pythonText, shellWord, sqlOnCells, sqlOnRange } from "./questions.js";
import { cubeOf, drawnChosen, isDoubtful, narrowed, overDrawn, overDrawnPair, questionOf, runsOf } from "./shown.js";
import { inPieces, likely, made, rows } from "./drawing.js";
import { barChart } from "./bars.js";
import { heatMap, scaleStrip } from "./heatmap.js";
import { showChips, showHeadline } from "./headline.js";
import { copyable, saveButtons } from "./saving.js";
import { hashOf, isRangeOf, viewOf } from "./state.js";

const LONGEST_QUESTION = 10000;
const MOST_MARKED = 20000;
const byId = (id) => document.getElementById(id);

async function start() {
  const cube = cubeOf(await loadContents());
  const page = { cube, view: viewOf(location.hash, cube), stop: () => {} };
  tellOfCube(cube);
  page.charts = cube.facts.attributes.map((attribute, axis) => attributeCard(page, attribute, axis));
  page.maps = cube.shape.length > 1 ? mapsOf(page) : [];
  byId("map").hidden = page.maps.length === 0;
  themeSwitch(page);
  byId("loading").remove();
  byId("page").hidden = false;
  layAll(page);
  window.addEventListener("resize", () => fitAll(page));
  readyForPrint(page);
  window.addEventListener("hashchange", ({ newURL }) => {
    page.view = viewOf(new URL(newURL).hash, cube);
    showAll(page);
  });
}

function layAll(page) {
  showAll(page);
  fitAll(page);
}

/** Fit all that is shown to the width there is. */
function fitAll(page) {
  page.charts.forEach((chart) => chart.lay());
  page.maps.forEach((map) => map.lay());
}

/** Paper is light and narrow, whatever the screen is. */
function readyForPrint(page) {
  const root = document.documentElement;
  let theme;
  window.addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    root.classList.add("printing");
    fitAll(page);
  });
  window.addEventListener("afterprint", () => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    root.classList.remove("printing");
    fitAll(page);
  });
}

/** Show what is chosen: counts at once, their intervals as soon as they are worked out. */
function showAll(page) {
  const begun = performance.now();
  page.stop();
  const { cube, view } = page;
  const question = questionOf(cube, view.chosen);
  const weights = question.map((along) => along.weights);
  const marginals = everyMarginal(cube.cells, cube.shape, weights);
  const value = marginals[0].reduce((sum, count, cell) => sum + count * weights[0][cell], 0);
  const jobs = page.charts.flatMap((chart, axis) => chart.update(question, marginals[axis], axis));
  jobs.push(...showMaps(page, question, weights));
  const told = cube.facts.attributes.map((attribute, axis) => wordsOf(cube, attribute, axis, view.chosen[axis]));
  showHeadline(cube.answer(question, value), told.filter(Boolean), cube.facts);
  showChips(told.flatMap((words, axis) => (words ? [{ words, axis }] : [])), (axis) => clear(page, axis));
  showCommands(cube, view.chosen);
  page.hash = hashOf(view);
  clearTimeout(page.saving);
  page.saving = setTimeout(() => history.replaceState(null, "", page.hash), 200); // browsers limit how often
  delete document.body.dataset.told;
  performance.measure("shown", { start: begun });
  jobs.push(() => {
    document.body.dataset.told = "yes";
    performance.measure("told", { start: begun });
  });
  page.stop = inPieces(jobs);
}

function clear(page, axis) {
  page.view.chosen = page.view.chosen.map((of, k) => (axis === null || k === axis ? null : of));
  showAll(page);
}

/** Choose drawn bins of an attribute: these alone, or turned about in those that were chosen `before`. */
function chooseBars(page, axis, bars, before) {
  const { drawn: bins } = page.cube.facts.attributes[axis];
  let taken = bars;
  if (bars && before) taken = before.map((was, bar) => (bars[bar] ? !was : was));
  page.view.chosen[axis] = taken && cellsOf(page.cube.shape[axis], bins, taken);
  showAll(page);
}

function cellsOf(size, { starts, stops }, taken) {
  const cells = new Array(size).fill(false);
  taken.forEach((is, bar) => is && cells.fill(true, starts[bar], stops[bar]));
  return cells.includes(true) && cells.includes(false) ? { cells } : null;
}

/** Make the card of an attribute: its chart, fields for a range, a table and what can be saved. */
function attributeCard(page, attribute, axis) {
  const chart = barChart(attribute, axis, (bars, before) => chooseBars(page, axis, bars, before));
  const header = ["bin", "count", "low", "high", "noise", "within"];
  const table = () => [
    [attribute.name, ...header.slice(1)],
    chart.table().map(({ label, value, low, high, stderr, within }) => [label, value, ...[low, high, stderr, within].map((n) => n ?? NaN)]),
  ];
  const shown = made("table");
  const details = made("details", { ontoggle: () => fillTable(shown, chart, details.open) }, made("summary", {}, "Table"), shown);
  const fields = attribute.scale === "position" ? null : rangeFields(page, attribute, axis);
  const card = made(
    "article",
    { className: attribute.ordered ? "card" : "card tall" },
    made("h3", {}, attribute.shown),
    chart.list,
    chart.said,
    ...(fields ? [fields.element] : []),
    made("div", { className: "tools" }, details, saveButtons([page.cube.facts.name, attribute.shown], table, () => ({ element: chart.svg }))),
  );
  byId("charts").append(card);
  return {
    lay: chart.lay,
    update: (question, marginal) => {
      fields?.show(page.view.chosen[axis]);
      return updateChart(page, chart, question, marginal, axis, () => fillTable(shown, chart, details.open));
    },
  };
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
  const line = (tag, ...cells) => made("tr", {}, ...cells.map((cell) => made(tag, tag === "th" ? { scope: "col" } : {}, cell)));
  const body = chart.table().map((bar) => line("td", bar.label, rows(bar.value), bar.low === undefined ? "" : likely(bar) + (isDoubtful(bar) ? " (may be none)" : "")));
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
    made("input", { type: isDay ? "date" : "text", inputMode: isDay ? "" : "decimal", placeholder: written(end), "aria-label": `${attribute.shown} ${label}` });
  const [from, to] = [field("from", first), field("to", last)];
  const said = made("span", { className: "refused", role: "status" });
  const changed = () => {
    const ends = [read(from.value, first), read(to.value, last)];
    const empty = from.value.trim() === "" && to.value.trim() === "";
    const fits = isRangeOf(attribute, edges, ...ends);
    said.textContent = empty || fits ? "" : `There is nothing so: ${written(first)} to ${written(last)}${attribute.step === 1 && !isDay ? ", whole numbers" : ""}.`;
    if (!empty && !fits) return;
    page.view.chosen[axis] = empty ? null : { from: ends[0], to: ends[1] };
    showAll(page);
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

/** Make the map of two attributes, and beside it the noisy counts it was estimated from. */
function mapsOf(page) {
  const choose = (one, other) => chooseSquares(page, one, other);
  const estimate = heatMap("Estimate", choose, (square) => saySquare(page, square));
  const noisy = heatMap(page.cube.facts.made.boxes ? "Noisy counts of boxes, spread evenly" : "Noisy counts of cells", choose, (square) => saySquare(page, square));
  byId("maps").append(estimate.element, noisy.element);
  const picks = [byId("across"), byId("up")];
  picks.forEach((pick, k) => {
    pick.append(...page.cube.facts.attributes.map((a, axis) => made("option", { value: axis }, a.shown)));
    pick.onchange = () => pickAxis(page, k, Number(pick.value));
  });
  for (const [id, key] of [["outlines-on", "outlines"], ["noisy-on", "noisy"]]) {
    byId(id).onchange = () => {
      page.view[key] = byId(id).checked;
      layAll(page);
    };
  }
  byId("noisy-on").parentElement.hidden = !page.cube.hasNoisy;
  byId("outlines-on").parentElement.hidden = page.cube.facts.outlines.length === 0;
  const table = () => tableOfMap(page, estimate);
  estimate.element.append(saveButtons([page.cube.facts.name, "map"], table, () => ({ element: estimate.svg, squares: estimate.rectangles() })));
  return [estimate, noisy];
}

function pickAxis(page, which, axis) {
  const { view } = page;
  const [here, there] = which === 0 ? ["across", "up"] : ["up", "across"];
  if (view[there] === axis) view[there] = view[here];
  view[here] = axis;
  layAll(page);
}

/** Show both maps, and return the jobs that work out which squares may as well be none. */
function showMaps(page, question, weights) {
  if (page.maps.length === 0) return [];
  const { cube, view, maps } = page;
  const [estimate, noisy] = maps;
  [byId("across").value, byId("up").value] = [view.across, view.up];
  [byId("outlines-on").checked, byId("noisy-on").checked] = [view.outlines, view.noisy];
  const picture = pictureOf(page, question, weights, cube.cells);
  estimate.show(picture);
  const outlines = view.outlines ? cube.outlines(view.across, view.up) : null;
  estimate.lines(outlines);
  noisy.element.hidden = !view.noisy || !cube.hasNoisy;
  if (!noisy.element.hidden) {
    noisy.show({ ...pictureOf(page, question, weights, cube.noisyCells()), top: picture.top });
    noisy.lines(outlines);
    noisy.lay();
  }
  page.scale?.remove();
  page.scale = scaleStrip(picture.top);
  byId("maps").after(page.scale);
  if (picture.values.length > MOST_MARKED) return [];
  const jobs = Array.from(picture.values, (value, place) => () => estimate.tell(place, answerOfSquare(page, question, place, value)));
  return [...jobs, () => estimate.mark()];
}

function pictureOf({ cube, view }, question, weights, cells) {
  const { attributes } = cube.facts;
  const { across, up } = view;
  const [first, second] = [Math.min(across, up), Math.max(across, up)];
  const table = tableOver(cells, cube.shape, weights, [first, second]);
  let values = overDrawnPair(table, attributes[first].drawn, attributes[second].drawn, cube.shape[second]);
  if (across > up) values = turned(values, attributes[first].drawn.labels.length, attributes[second].drawn.labels.length);
  return {
    across: attributes[across].drawn,
    up: attributes[up].drawn,
    names: [attributes[across].shown, attributes[up].shown],
    values,
    top: values.reduce((a, b) => Math.max(a, b), 1),
    chosenAcross: drawnChosen(question, across, attributes[across].drawn),
    chosenUp: drawnChosen(question, up, attributes[up].drawn),
  };
}

function turned(values, first, second) {
  return values.map((_, place) => values[(place % first) * second + Math.floor(place / first)]);
}

function answerOfSquare({ cube, view }, question, place, value) {
  const [across, up] = [view.across, view.up].map((axis) => cube.facts.attributes[axis].drawn);
  const [column, line] = [Math.floor(place / up.starts.length), place % up.starts.length];
  const inColumn = narrowed(question, view.across, across.starts[column], across.stops[column]);
  return cube.answer(narrowed(inColumn, view.up, up.starts[line], up.stops[line]), value);
}

function saySquare(page, [column, line]) {
  const { cube, view } = page;
  const [across, up] = [view.across, view.up].map((axis) => cube.facts.attributes[axis]);
  const answer = answerOfSquare(page, questionOf(cube, view.chosen), column * up.drawn.starts.length + line);
  const doubt = isDoubtful(answer) ? "; may be none at all" : "";
  byId("map-said").textContent = `${across.shown} ${across.drawn.labels[column]}, ${up.shown} ${up.drawn.labels[line]}: ${rows(answer.value)} rows, ${likely(answer)}${doubt}`;
  Object.assign(byId("map-said").dataset, { value: answer.value, low: answer.low, high: answer.high });
}

function chooseSquares(page, one, other) {
  [page.view.across, page.view.up].forEach((axis, k) => {
    const { drawn: bins } = page.cube.facts.attributes[axis];
    const taken = one && bins.starts.map((_, bin) => bin >= Math.min(one[k], other[k]) && bin <= Math.max(one[k], other[k]));
    page.view.chosen[axis] = taken && cellsOf(page.cube.shape[axis], bins, taken);
  });
  showAll(page);
}

function tableOfMap({ cube, view }, map) {
  const [across, up] = [view.across, view.up].map((axis) => cube.facts.attributes[axis]);
  const lines = up.drawn.labels.length;
  const body = map.values().map((value, place) => {
    const { low = NaN, high = NaN } = map.answers()[place] ?? {};
    return [across.drawn.labels[Math.floor(place / lines)], up.drawn.labels[place % lines], value, low, high];
  });
  return [[across.name, up.name, "count", "low", "high"], body];
}

/** Say what is chosen of an attribute in words; nothing if nothing is. */
function wordsOf(cube, attribute, axis, chosen) {
  if (!chosen) return "";
  if (!chosen.cells) {
    const [from, to] = [chosen.from, chosen.to].map((end) => (attribute.scale === "day" ? dayText(end) : String(end)));
    return `${attribute.shown} is from ${from} to ${to}`;
  }
  const { labels, starts, stops } = attribute.drawn;
  const taken = labels.map((_, bar) => chosen.cells.slice(starts[bar], stops[bar]).includes(true));
  const runs = runsOf(taken).map(([first, last]) => (first === last || !attribute.ordered ? labels.slice(first, last + 1).join(" or ") : `${labels[first]} to ${labels[last]}`));
  return `${attribute.shown} is ${runs.length > 6 ? `one of ${taken.filter(Boolean).length} values` : runs.join(" or ")}`;
}

/** Show the question as a command, in Python and in SQL. */
function showCommands({ facts, edges }, chosen) {
  const conditions = (onCells, onRange) =>
    facts.attributes
      .flatMap((attribute, axis) => {
        const of = chosen[axis];
        if (!of) return [];
        return [of.cells ? onCells(attribute, edges[axis], runsOf(of.cells), facts.keywords) : onRange(attribute, of.from, of.to, facts.keywords)];
      })
      .join(" and ");
  const [question, where] = [conditions(conditionOnCells, conditionOnRange), conditions(sqlOnCells, sqlOnRange)];
  const sql = `SELECT count(*) FROM cube${where ? ` WHERE ${where}` : ""}`;
  const sure = facts.confidence === 0.95 ? "" : ` --confidence ${facts.confidence}`;
  const options = `${facts.estimate ? ` --estimate ${shellWord(facts.estimate)}` : ""}${sure}`;
  const keywords = [facts.estimate && `estimate=${pythonText(facts.estimate)}`, sure && `confidence=${facts.confidence}`];
  const inside = [question && pythonText(question), ...keywords].filter(Boolean).join(", ");
  byId("commands").replaceChildren(
    ...(question.length > LONGEST_QUESTION
      ? [made("p", {}, "This question is too long to be written; choose fewer runs of bars.")]
      : [
          copyable("In a terminal", `dpcube count ${facts.file}${question ? ` ${shellWord(question)}` : ""}${options}`),
          copyable("In Python", `dpcube.open(${pythonText(facts.path)}).count(${inside})`),
          copyable("In SQL", `dpcube sql ${facts.file} ${shellWord(sql)} --error${options}`),
        ]),
  );
}

/** Tell what the cube is, whom it protects, and how to read the page. */
function tellOfCube({ facts }) {
  const { made: by, attributes, shape } = facts;
  const cells = shape.reduce((whole, extent) => whole * extent, 1).toLocaleString("en-US");
  byId("title").textContent = facts.name;
  byId("lead").textContent = `A private cube over ${attributes.length} attributes. Every count here is an estimate with its error; no row of the table is in this page.`;
  byId("legend").textContent = "Bars: estimated rows. Whiskers: where the true count likely lies. Hatched: so few that there may be none at all.";
  byId("stamp").hidden = by.private;
  byId("stamp").textContent = "NOT PRIVATE: made with noise from a seed, for experiments.";
  const odds = Math.exp(Math.min(by.epsilon, 50));
  byId("told").append(
    made("p", {}, `${cells} cells were published with epsilon ${Number(by.epsilon.toPrecision(6))}, which protects ${by.protects}: whatever anybody concludes from this page is at most ${Number(odds.toPrecision(3)).toLocaleString("en-US")} times as likely as it would be without ${by.protects}. Asking costs nothing more.`),
    made("p", {}, `“Likely between a and b” holds the true count ${Number((100 * facts.confidence).toPrecision(4))} times in 100. Its error has up to three parts: noise that was added for privacy; rows of a box of cells that were counted as one, and are taken to lie evenly in it; and where a range cuts a bin, any of that bin's rows.`),
    made("p", { className: "small" }, `Strategy ${by.strategy}${by.boxes ? `, ${by.boxes.toLocaleString("en-US")} boxes` : ""}; made by ${by.library}${by.period ? `; covers ${by.period}` : ""}. Release ${by.digest}.`),
  );
}

function themeSwitch(page) {
  const button = byId("theme");
  const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const named = () => (button.textContent = isDark() ? "Light" : "Dark");
  button.onclick = () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    named();
    fitAll(page);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (named(), fitAll(page)));
  named();
}

start();
