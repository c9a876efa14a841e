/* SQL that the page answers by itself: DuckDB groups and sorts the cells of its estimate, and the page adds their errors. */

import { startEngine } from "./engine.js";
import { dayText } from "./questions.js";
import { readStatement, written } from "./statement.js";

const MAX_COUNTED_ROWS = 10000;
let started = null;

/** Return the result of a statement as the server gives it: columns, rows, and how many there are. */
export async function runHere(cube, text, withErrors) {
  const asked = readStatement(text, cube);
  started ??= startEngine(cube.facts).catch((error) => {
    started = null; // the next statement tries again
    throw error;
  });
  const engine = await started;
  const columns = await engine.query(await prepared(engine, cube, asked));
  const total = columns[0]?.length ?? 0;
  const rows = Array.from({ length: Math.min(total, MAX_COUNTED_ROWS) }, (_, row) => lineOf(cube, asked, columns, row, withErrors));
  return { columns: namesOf(asked, cube, withErrors), rows, total };
}

/** End the engine with whatever it is running. */
export async function stopHere() {
  const running = started;
  started = null;
  (await running)?.end();
}

/** Give the engine the cells that a statement names, and return the statement for them. */
async function prepared(engine, cube, { items, keys, question, having, order, limit, summed }) {
  const axes = [...new Set([...keys, ...summed])].sort((a, b) => a - b);
  await engine.query("DROP TABLE IF EXISTS cells");
  await engine.insert("cells", ...cellsOf(cube, axes, question));
  for (const axis of axes) {
    for (const [name, column] of Object.entries(columnsOfAxis(cube.facts.attributes[axis], cube.edges[axis]))) {
      await engine.query(`DROP TABLE IF EXISTS ${name}${axis}`);
      await engine.insert(`${name}${axis}`, Float64Array.from(column, (_, cell) => cell), column);
    }
  }
  const number = (name) => `CASE WHEN isnan(${name}.y) THEN NULL ELSE ${name}.y END`;
  let stride = 1;
  const places = new Map([...axes].reverse().map((axis) => {
    const place = `(cells.x::BIGINT // ${stride}) % ${cube.shape[axis]}`;
    stride *= cube.shape[axis];
    return [axis, place];
  }));
  const inner = axes.map((axis) => `, (${places.get(axis)}) AS p${axis}, ${number(`key${axis}`)} AS k${axis}, ${number(`value${axis}`)} AS n${axis}`);
  const joins = axes.map((axis) => ["key", "value"].map((name) => ` JOIN ${name}${axis} ON ${name}${axis}.x = (${places.get(axis)})`).join(""));
  const shown = items.map((item, k) => `CAST(${item.summed ? written(item.body, { cube, items: [], keys: [] }) : `k${item.axis}`} AS DOUBLE) AS c${k}`);
  const hidden = keys.map((axis) => `, CAST(min(p${axis}) AS DOUBLE)`);
  const by = order || keys.map((axis) => `k${axis}`).join(", "); // the same order each time, as in Python
  return (
    `SELECT ${shown.join(", ")}${hidden.join("")} FROM (SELECT cells.y AS w${inner.join("")} FROM cells${joins.join("")} WHERE cells.x >= 0)` +
    (keys.length ? ` GROUP BY ${keys.map((axis) => `k${axis}`).join(", ")}` : "") +
    (having ? ` HAVING ${having}` : "") +
    (by ? ` ORDER BY ${by}` : "") +
    (limit ? ` LIMIT ${limit}` : "")
  );
}

/** Return where the cells of some axes lie, and their counts, of those that have any. */
function cellsOf({ tables, shape }, axes, question) {
  const weights = question.map((along) => along.weights);
  const values = axes.length ? tables.over(weights, axes) : Float64Array.of(tables.over(weights, [0]).reduce((sum, count, cell) => sum + count * weights[0][cell], 0));
  const [x, y] = [[], []];
  values.forEach((value, place) => {
    let [rest, weight, some] = [place, 1, true];
    for (const axis of [...axes].reverse()) {
      const cell = rest % shape[axis];
      weight *= weights[axis][cell];
      some &&= weights[axis][cell] > 0 || Boolean(question[axis].parts?.[cell]);
      rest = (rest - cell) / shape[axis];
    }
    if (value === 0 || !some) return;
    x.push(place);
    y.push(value * weight);
  });
  return [Float64Array.from(x), Float64Array.from(y)];
}

/** Return what cells are sorted and grouped by, and the number that each is in a sum; NaN where there is none. */
function columnsOfAxis({ bins, own, scale, ordered, texts, step }, edges) {
  const key = new Float64Array(bins + own.length).fill(NaN);
  const value = key.slice();
  const byText = scale === "position" && !ordered;
  const ranks = byText ? [...texts.keys()].sort((a, b) => compared(texts[a], texts[b])) : [...Array(bins).keys()];
  ranks.forEach((cell, rank) => (key[cell] = rank));
  if (scale === "number") for (let bin = 0; bin < bins; bin++) value[bin] = (edges[bin] + edges[bin + 1] - step) / 2;
  return { key, value };
}

/** Compare texts as DuckDB does: by code points. */
function compared(one, other) {
  const [a, b] = [[...one], [...other]];
  for (let k = 0; k < Math.min(a.length, b.length); k++) if (a[k] !== b[k]) return a[k].codePointAt(0) - b[k].codePointAt(0);
  return a.length - b.length;
}

const ERRORS = ["stderr", "nonuniformity", "low", "high"];

function namesOf({ items }, { facts }, withErrors) {
  return items.flatMap((item) => {
    const number = item.summed || isExactNumber(facts.attributes[item.axis]);
    const more = withErrors && item.isCount ? ERRORS.map((name) => ({ name: `${item.name}_${name}`, number: true })) : [];
    return [{ name: item.name, number }, ...more];
  });
}

const isExactNumber = ({ scale, labels }) => scale === "number" && labels === null;

function lineOf(cube, { items, keys, question }, columns, row, withErrors) {
  const places = new Map(keys.map((axis, k) => [axis, columns[items.length + k][row]]));
  return items.flatMap((item, k) => {
    if (!item.summed) return [labelOf(cube, item.axis, places.get(item.axis))];
    const value = columns[k][row];
    if (!withErrors || !item.isCount) return [value];
    const answer = cube.answer(question.map((along, axis) => (places.has(axis) ? ofGroup(along, cube.facts.attributes[axis], places.get(axis)) : along)), value);
    return [value, ...ERRORS.map((name) => (Number.isNaN(answer[name]) ? "unknown" : answer[name]))];
  });
}

/** Return what a group takes of an axis: the cell of its key, or all cells without a value. */
function ofGroup({ weights, parts }, { bins }, place) {
  const isIn = (cell) => (place < bins ? cell === place : cell >= bins);
  const marked = parts?.map((part, cell) => (isIn(cell) ? part : 0));
  return { weights: weights.map((weight, cell) => (isIn(cell) ? weight : 0)), parts: marked?.includes(1) ? marked : null, asked: true };
}

/** Return the value that a group is known by: a number, a day, a text, the name of a wide bin, or none. */
function labelOf({ facts, edges }, axis, place) {
  const { bins, scale, texts, labels } = facts.attributes[axis];
  if (place >= bins) return null;
  if (scale === "position") return texts[place];
  if (labels) return labels[place];
  return scale === "day" ? dayText(edges[axis][place]) : edges[axis][place];
}
