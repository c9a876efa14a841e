/* The map of two attributes, and beside it the noisy counts it was estimated from. */

import { drawnChosen, narrowed, overDrawnPair, questionOf } from "./shown.js";
import { besides, byId, likely, made, rows } from "./drawing.js";
import { heatMap, scaleStrip } from "./heatmap.js";
import { saveButtons } from "./saving.js";
import { cellsOf } from "./cards.js";

export const MAX_MARKED = 20000;

/** Make the map of two attributes, and beside it the noisy counts it was estimated from. */
export function mapsOf(page) {
  const choose = (one, other) => chooseSquares(page, one, other);
  const estimate = heatMap("Estimate", choose, (square) => saySquare(page, square));
  const noisy = heatMap(
    page.cube.facts.made.boxes ? "Noisy counts of boxes, spread evenly" : "Noisy counts of cells",
    choose,
    (square) => saySquare(page, square),
  );
  byId("maps").append(estimate.element, noisy.element);
  const picks = [byId("across"), byId("up")];
  picks.forEach((pick, k) => {
    pick.append(...page.cube.facts.attributes.map((a, axis) => made("option", { value: axis }, a.shown)));
    pick.onchange = () => pickAxis(page, k, Number(pick.value));
  });
  for (const [id, key] of [
    ["outlines-on", "outlines"],
    ["noisy-on", "noisy"],
  ]) {
    byId(id).onchange = () => {
      page.view[key] = byId(id).checked;
      page.lay();
    };
  }
  byId("noisy-on").parentElement.hidden = !page.cube.hasNoisy;
  byId("outlines-on").parentElement.hidden = page.cube.facts.outlines.length === 0;
  const table = () => tableOfMap(page, estimate);
  estimate.element.append(
    saveButtons([page.cube.facts.name, "map"], table, () => ({
      element: estimate.svg,
      squares: estimate.rectangles(),
    })),
  );
  return [estimate, noisy];
}

/** Show in the fields which map is shown. */
export function nameMap({ view }) {
  [byId("across").value, byId("up").value] = [view.across, view.up];
  [byId("outlines-on").checked, byId("noisy-on").checked] = [view.outlines, view.noisy];
}

/** Show the map that the server told: of each drawn bin across the values up, and their answers if they are known. */
export function showToldMap(page, question, values, answers = []) {
  const [map] = page.maps;
  const picture = pictureWith(page, question, Float64Array.from(values));
  map.show(picture);
  map.lines(outlinesShown(page));
  answers.forEach((answer, place) => map.tell(place, answer));
  map.lay();
  showScale(page, picture.top);
}

/** Show the noisy counts that the server told beside the map, on its scale; without any they are not shown. */
export function showToldNoisy(page, question, values) {
  const noisy = page.maps[1];
  noisy.element.hidden = !values;
  if (!values) return;
  noisy.show({ ...pictureWith(page, question, Float64Array.from(values)), top: page.top });
  noisy.lines(outlinesShown(page));
  page.maps.forEach((map) => map.lay());
}

function outlinesShown({ cube, view }) {
  return view.outlines ? cube.outlines(view.across, view.up) : null;
}

/** Show both maps, and return the jobs that work out which squares may as well be none. */
export function showMaps(page, question, weights) {
  if (page.maps.length === 0) return [];
  const { cube, view, maps } = page;
  const [estimate, noisy] = maps;
  nameMap(page);
  const picture = pictureOf(page, question, weights, cube.tables);
  estimate.show(picture);
  const outlines = outlinesShown(page);
  estimate.lines(outlines);
  noisy.element.hidden = !view.noisy || !cube.hasNoisy;
  if (!noisy.element.hidden) {
    noisy.show({ ...pictureOf(page, question, weights, cube.noisyTables()), top: picture.top });
    noisy.lines(outlines);
    noisy.lay();
  }
  showScale(page, picture.top);
  if (picture.values.length > MAX_MARKED) return [];
  const jobs = Array.from(
    picture.values,
    (value, place) => () => estimate.tell(place, answerOfSquare(page, question, place, value)),
  );
  return [...jobs, () => estimate.mark()];
}

function showScale(page, top) {
  if (page.top === top) return;
  page.scale?.remove();
  [page.top, page.scale] = [top, scaleStrip(top)];
  byId("maps").after(page.scale);
}

function pickAxis(page, which, axis) {
  const { view } = page;
  const [here, there] = which === 0 ? ["across", "up"] : ["up", "across"];
  if (view[there] === axis) view[there] = view[here];
  view[here] = axis;
  page.lay();
}

function pictureOf(page, question, weights, tables) {
  const { cube, view } = page;
  const { attributes } = cube.facts;
  const { across, up } = view;
  const [first, second] = [Math.min(across, up), Math.max(across, up)];
  const table = tables.over(weights, [first, second]);
  let values = overDrawnPair(table, attributes[first].drawn, attributes[second].drawn, cube.shape[second]);
  if (across > up)
    values = turned(values, attributes[first].drawn.labels.length, attributes[second].drawn.labels.length);
  return pictureWith(page, question, values);
}

function pictureWith({ cube, view }, question, values) {
  const { attributes } = cube.facts;
  const { across, up } = view;
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
  const place = column * up.drawn.starts.length + line;
  const answer = cube.answer
    ? answerOfSquare(page, questionOf(cube, view.chosen), place)
    : page.maps[0].answers()[place];
  if (!answer) return;
  byId("map-said").textContent =
    `${across.shown} ${across.drawn.labels[column]}, ${up.shown} ${up.drawn.labels[line]}: ` +
    `${rows(answer.value)} rows, ${likely(answer)}${besides(answer)}`;
  Object.assign(byId("map-said").dataset, { value: answer.value, low: answer.low, high: answer.high });
}

function chooseSquares(page, one, other) {
  [page.view.across, page.view.up].forEach((axis, k) => {
    const { drawn: bins } = page.cube.facts.attributes[axis];
    const taken =
      one && bins.starts.map((_, bin) => bin >= Math.min(one[k], other[k]) && bin <= Math.max(one[k], other[k]));
    page.view.chosen[axis] = taken && cellsOf(page.cube.shape[axis], bins, taken);
  });
  page.show();
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
