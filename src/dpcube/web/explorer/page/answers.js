/* Answers: a number and how far to trust it, as `release/answer.py` makes them of the parts of an error.

   A question is a list with one {weights, parts} for each axis. Where it cuts bins of which nothing is known inside, it
   is asked three times: as it is, with the cut bins left out, and with all of them. */

import { axesOf } from "./estimates.js";
import { weightedSum } from "./marginals.js";
import { cutShares } from "./weights.js";

/** Return a function of questions that gives {value, stderr, nonuniformity, low, high, reach}. */
export function answering({ facts, arrays }, estimate) {
  const cube = { facts, estimate, edges: facts.attributes.map((_, k) => arrays[`edges${k}`]), sure: arrays.quantiles };
  return (question, known) => answered(cube, question, known);
}

function answered(cube, question, known) {
  const as = spreadAnswer(
    cube,
    question.map(({ weights }) => weights),
    known,
  );
  const ends = endsOf(as);
  const cut = question.map(({ parts }) => parts);
  const takesSome = question.every(({ weights }, k) => weights.some((w) => w !== 0) || cut[k]?.includes(1));
  if (!cut.some(Boolean) || !takesSome) return { ...as, ...ends, reach: 0 };
  const [least, most] = [0, 1].map((end) =>
    spreadAnswer(
      cube,
      question.map(({ weights }, k) => withEnd(weights, cut[k], end)),
    ),
  );
  return {
    ...as,
    low: Math.min(endsOf(least).low, Math.max(as.value, 0)),
    high: Math.max(endsOf(most).high, as.value),
    reach: Math.max(most.value - as.value, as.value - least.value),
  };
}

function withEnd(weights, cut, end) {
  return cut ? weights.map((weight, cell) => (cut[cell] ? end : weight)) : weights;
}

/** Return the answer that takes rows to fall evenly into the bins that are cut; `known` is its value, if it is. */
function spreadAnswer({ facts, estimate, edges, sure }, weights, known) {
  const valueOf = (of) => weightedSum(estimate.cells, facts.shape, of);
  const value = known ?? valueOf(weights);
  const { noise, nonuniformity: square, number } = estimate.errors(axesOf(estimate, weights));
  const nonuniformity = Math.sqrt(square + evenSquares(facts, edges, weights, value, valueOf));
  const stderr = Math.sqrt(noise);
  const deviations = number > 0 && nonuniformity === 0 ? sure[number - 1] : facts.deviations;
  return { value, stderr, nonuniformity, deviations };
}

function endsOf({ value, stderr, nonuniformity, deviations }) {
  const error = Math.hypot(stderr, nonuniformity);
  const half = error === 0 ? 0 : deviations * error;
  return { low: Math.max(value - half, 0), high: Math.max(value + half, error > 0 ? 1 : 0), half };
}

/** Return what bins that are declared even add to a squared error where they are cut: rows by chance, and slopes. */
function evenSquares({ attributes }, edges, weights, value, valueOf) {
  const cut = attributes.map((a, k) => (a.even ? cutShares(a, edges[k], weights[k]) : null));
  if (!cut.some((marks) => marks?.includes(1))) return 0;
  const squared = weights.map((along, k) => (cut[k]?.includes(1) ? along.map((w) => w * w) : along));
  let squares = Math.max(value - valueOf(squared), 0);
  cut.forEach((marks, axis) => {
    if (!marks?.includes(1) || attributes[axis].bins < 2) return;
    const bySlopes = slopesOf(weights[axis], marks, attributes[axis].bins).map(
      (slope) => valueOf(weights.map((along, k) => (k === axis ? slope : along))) ** 2,
    );
    squares += Math.max(...bySlopes);
  });
  return squares;
}

/** Return the two weights whose answers tell what slopes inside bins add: `slopes_where_even` in Python. */
function slopesOf(weights, marks, bins) {
  let number = 0;
  const off = weights.map((w, cell) => (marks[cell] ? (w * (1 - w)) / 4 : 0));
  const signed = off.map((size, cell) => ((number += marks[cell]) % 2 ? size : -size));
  return [off, signed].map((one) => differences(one, bins));
}

function differences(off, bins) {
  const made = new Float64Array(off.length);
  for (let bin = 1; bin < bins; bin++) {
    made[bin] += off[bin - 1];
    made[bin - 1] -= off[bin];
  }
  made[1] += off[0];
  made[0] -= 2 * off[0];
  made[bins - 2] -= off[bins - 1];
  made[bins - 1] += 2 * off[bins - 1];
  return made;
}
