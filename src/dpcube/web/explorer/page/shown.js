/* What is shown: a cube, what is chosen of each attribute, and the questions that follow.

   Of each attribute is chosen nothing (null: every row counts), some {cells: [true, ...]} or a range {from, to}. */

import { estimateOf } from "./estimates.js";
import { answering } from "./answers.js";
import { keptTables, spreadOverCells } from "./marginals.js";
import { takesAll, takesCells, takesRange } from "./weights.js";

/** Return a cube that can be asked; one that is not held here has no `answer`: the server has it (`remote.js`). */
export function cubeOf(contents) {
  const { facts, arrays } = contents;
  const edges = facts.attributes.map((_, k) => arrays[`edges${k}`]);
  const outlines = outlinesOf(facts, arrays);
  if (facts.model.kind === "served") return { facts, edges, shape: facts.shape, outlines, hasNoisy: facts.model.noisy };
  const estimate = estimateOf(facts, arrays);
  let noisy;
  return {
    facts,
    edges,
    shape: facts.shape,
    tables: keptTables(estimate.cells, facts.shape),
    answer: answering(contents, estimate),
    outlines,
    hasNoisy: Boolean(arrays.boxCounts || arrays.noisyCells),
    noisyTables: () => (noisy ??= keptTables(noisyCellsOf(facts, arrays), facts.shape)),
  };
}

function noisyCellsOf({ shape }, { boxCounts, boxLower, boxUpper, noisyCells }) {
  return noisyCells ?? spreadOverCells(shape, boxLower, boxUpper, boxCounts, null);
}

/** Return a function of two axes that gives lines between bins, by strength, as rows [x0, y0, x1, y1]. */
function outlinesOf(facts, arrays) {
  const found = new Map();
  let at = 0;
  for (const { axes, lines, boxes } of facts.outlines) {
    const byStrength = lines.map((count) => arrays.outlines.subarray(at, (at += 4 * count)));
    found.set(axes.join(), { lines: byStrength, boxes });
  }
  return (across, up) => {
    const [here, there] = [[across, up].join(), [up, across].join()];
    if (!found.has(here) && found.has(there)) {
      const turned = found.get(there);
      found.set(here, { ...turned, lines: turned.lines.map(turnedLines) });
    }
    return found.get(here);
  };
}

function turnedLines(lines) {
  return lines.map((_, k) => lines[k ^ 1]);
}

/** Return the question of what is chosen. */
export function questionOf({ facts, edges, shape }, chosen) {
  return chosen.map((of, k) => {
    if (of === null) return takesAll(shape[k]);
    return of.cells ? takesCells(of.cells) : takesRange(facts.attributes[k], edges[k], of.from, of.to);
  });
}

/** Return a question with an axis narrowed to the cells from `start` up to `stop`, whatever was chosen of it. */
export function narrowed(question, axis, start, stop) {
  const cells = question[axis].weights.map((_, cell) => (cell >= start && cell < stop ? 1 : 0));
  return question.map((along, k) => (k === axis ? takesCells(cells) : along));
}

/** Return runs [first, last] of chosen cells. */
export function runsOf(cells) {
  const runs = [];
  cells.forEach((taken, cell) => {
    if (!taken) return;
    if (cell > 0 && cells[cell - 1]) runs.at(-1)[1] = cell;
    else runs.push([cell, cell]);
  });
  return runs;
}

/** Return the sums of a table's cells over the drawn bins of one axis. */
export function overDrawn(values, { starts, stops }) {
  return Float64Array.from(starts, (start, bar) => {
    let sum = 0;
    for (let cell = start; cell < stops[bar]; cell++) sum += values[cell];
    return sum;
  });
}

/** Return a table over two axes, first and second, as sums over drawn bins: a row for each drawn bin of the first. */
export function overDrawnPair(values, first, second, width) {
  const rows = second.starts.length;
  const table = new Float64Array(first.starts.length * rows);
  for (let one = 0; one < first.starts.length; one++) {
    for (let cell = first.starts[one]; cell < first.stops[one]; cell++) {
      for (let other = 0; other < rows; other++) {
        let sum = 0;
        for (let k = second.starts[other]; k < second.stops[other]; k++) sum += values[cell * width + k];
        table[one * rows + other] += sum;
      }
    }
  }
  return table;
}

/** Say which drawn bins hold a chosen cell; null if nothing is chosen of the attribute. */
export function drawnChosen(question, axis, { starts, stops }) {
  const { weights, parts, asked } = question[axis];
  if (!asked) return null;
  return starts.map((start, bar) => {
    for (let cell = start; cell < stops[bar]; cell++) if (weights[cell] > 0 || parts?.[cell]) return true;
    return false;
  });
}

/** Whether a count may as well be none: its interval reaches down to no row at all. */
export function isDoubtful({ low }) {
  return low <= 0;
}
