/* Estimates: contents enter; what gives a question's value and the parts of its error leaves.

   Each kind does what its class in Python does: `tree` the posterior of a tree, `balanced` one that was moved to noisy
   tables, `boxes` totals of boxes and details of cells. Of any other kind the errors are not known here: NaN.
   Parts are {noise, nonuniformity, number}: a variance, an expected square, and of how many equal noises the error is the sum
   and of nothing else (0 if it is not known to be). */

import { laidOut } from "./weights.js";
import { spreadOverCells, weightedSum } from "./marginals.js";
import { boundsOfCuts, walkedLeaves, walkedSplits } from "./walks.js";

const REACHED = 0.75;

/** Return {cells, measures, errors}: every cell, and a function of the axes of a question, laid out by the measures. */
export function estimateOf(facts, arrays) {
  const { model, shape } = facts;
  if (model.kind === "boxes") return boxesEstimate(shape, arrays);
  if (model.kind === "cells") {
    return { cells: arrays.cells, measures: null, errors: () => ({ noise: NaN, nonuniformity: NaN, number: 0 }) };
  }
  const measures = axisMeasures(shape, arrays.measure);
  const { end, cutAxis, cutPlace, totals, variances, apart } = arrays;
  const bounds = boundsOfCuts(shape, end, cutAxis, cutPlace);
  const { columns, biases, bias, oddBias, odd, largestNoise, unordered, covered } = model;
  const judged = { biases, bias, oddBias, odd, largestNoise, unordered, covered };
  const nodes = { ...bounds, end, cutAxis, cutPlace, totals, variances, apart };
  const tree = { ...nodes, ...judged, columns, ofTotal: arrays.ofTotal[0] };
  if (model.kind === "balanced") {
    return { cells: arrays.cells, measures, errors: (axes) => pooledErrors(model, arrays, shape, tree, axes) };
  }
  const leaves = leavesOf(end);
  const cells = spreadOverCells(
    shape,
    rowsOf(bounds.lower, leaves, shape.length),
    rowsOf(bounds.upper, leaves, shape.length),
    leaves.map((leaf) => arrays.totals[leaf]),
    measures,
  );
  return { cells, measures, errors: (axes) => treeErrors(tree, axes) };
}

function axisMeasures(shape, measure) {
  let at = 0;
  return shape.map((cells) => measure.subarray(at, (at += cells + 1)));
}

function leavesOf(end) {
  const leaves = [];
  for (let node = 0; node < end.length; node++) if (end[node] === node + 1) leaves.push(node);
  return leaves;
}

function rowsOf(numbers, chosen, width) {
  const rows = new Int32Array(chosen.length * width);
  chosen.forEach((row, k) => rows.set(numbers.subarray(row * width, (row + 1) * width), k * width));
  return rows;
}

/** Return the errors of a posterior; `own` is the squared error that it states without any bias. */
function treeErrors(tree, axes) {
  const { noise, nonuniformity, hidden, apart } = walkedSplits(tree, axes);
  const own = noise + nonuniformity;
  const added = tree.biases === null ? noise : noiseWithBias(tree, axes, apart, own) - nonuniformity;
  return { noise: added, nonuniformity: nonuniformity + hidden, number: 0, own };
}

/** Return the squared error that a posterior states, raised, and with what its answer may be off for good: `Biases.added`. */
function noiseWithBias(tree, axes, apart, own) {
  const { least, raised, beyond, of_total: ofTotal, periods } = tree.biases;
  const vary = axes.filter(({ weights }) => weights.some((weight) => weight !== weights[0])).length;
  const by = Math.min(vary, raised.length - 1);
  const stated = raised[by] * own;
  if (vary === 0 && !ofTotal) return stated;
  const alike = periods ? cellsTaken(axes[0].weights) : 1;
  return stated + biasSquare(apart, stated, tree, least * largestWeight(axes) ** 2, beyond[by], alike);
}

/** Return how many cells weights take, if they take them alike. */
function cellsTaken(weights) {
  const sum = weights.reduce((whole, weight) => whole + Math.abs(weight), 0);
  return sum > 0 ? sum ** 2 / weights.reduce((whole, weight) => whole + weight ** 2, 0) : 1;
}

/** Return the expected square of the bias of an answer: `errors/biases.py` says why. */
function biasSquare(apart, own, { bias, oddBias, odd, largestNoise }, least, beyond, alike) {
  const expected = own > 0 ? Math.max(own, least) : 0;
  if (apart.length === 0 || expected === 0) return bias * alike * expected;
  let noise = 0;
  for (let probe = 1; probe < apart.length; probe++) noise += apart[probe] ** 2 / (apart.length - 1);
  const between = Math.sqrt(expected * Math.min(noise, largestNoise * expected));
  const seen = [bias, oddBias].map((scale) => scale * alike * expected + beyond * between + noise);
  const squares = seen.map((both) => ((both - noise) / both) * noise + (((both - noise) / both) * apart[0]) ** 2);
  const surprise = apart[0] ** 2 * (1 / seen[0] - 1 / seen[1]) - Math.log(seen[1] / seen[0]);
  const isOdd = 1 / (1 + ((1 - odd) / odd) * Math.exp(-surprise / 2));
  return (1 - isOdd) * squares[0] + isOdd * squares[1];
}

function largestWeight(axes) {
  return axes.reduce((whole, { weights }) => whole * weights.reduce((a, b) => Math.max(a, Math.abs(b)), 0), 1);
}

/** Return a tree's errors, moved in part to those of noisy tables: `pooled_errors` in Python. */
function pooledErrors({ precisions, factors, ofTree }, arrays, shape, tree, axes) {
  const { noise, nonuniformity, own: stated } = treeErrors(tree, axes);
  const asked = axes.flatMap(({ sum, square }, axis) => (sum !== shape[axis] || square !== shape[axis] ? [axis] : []));
  const ofTables = tablesVariance(precisions, shape, axes, asked);
  const own = stated * (numberOf(factors, asked) ?? 1);
  const known = Number.isFinite(ofTables) && own > 0;
  const moved = known ? own / (own + ofTables) : 0;
  const left = (1 - moved) ** 2;
  const fromTree = Math.max(noise, own - nonuniformity);
  const ofMoved = known ? moved ** 2 * ofTables : 0;
  const same = numberOf(ofTree.map((of) => [of, true]), asked) === true;
  const together = same ? 2 * Math.sqrt(ofMoved * left * (noise + nonuniformity)) : 0;
  const pooled = { noise: left * fromTree + ofMoved + together, nonuniformity: left * nonuniformity, number: 0 };
  const squares = asked.length === 1 ? arrays[`values${asked[0]}`] : undefined;
  const { weights, sum, square } = axes[asked[0]] ?? {};
  if (!squares || sum !== 1 || square !== 1) return pooled;
  return { ...pooled, noise: squares[weights.indexOf(1)], nonuniformity: 0 };
}

function numberOf(pairs, axes) {
  return pairs.find(([of]) => of.length === axes.length && of.every((axis, k) => axis === axes[k]))?.[1];
}

/** Return the variance of least squares for a question of some axes; infinite if they are no table. */
function tablesVariance(precisions, shape, axes, asked) {
  if (numberOf(precisions, asked) === undefined) return Infinity;
  let variance = 0;
  for (let subset = 0; subset < 2 ** asked.length; subset++) {
    const chosen = asked.filter((_, k) => (subset >> k) & 1);
    let term = 1 / numberOf(precisions, chosen);
    for (const axis of asked) {
      const { sum, square } = axes[axis];
      term *= chosen.includes(axis) ? square - sum ** 2 / shape[axis] : (sum / shape[axis]) ** 2;
    }
    variance += term;
  }
  return variance;
}

/** Return the estimate by totals of boxes and details of cells: `models/boxes.py`. */
function boxesEstimate(shape, arrays) {
  const { end, lower, upper, below, detail, deviation, ratio, quantiles } = arrays;
  const cellVariance = arrays.cellVariance[0];
  let cells = detail;
  if (end) {
    const leaves = leavesOf(end);
    const bounds = [lower, upper].map((of) => rowsOf(of, leaves, shape.length));
    const totals = leaves.map((leaf) => below[3 * leaf]);
    cells = spreadOverCells(shape, ...bounds, totals, null);
    detail?.forEach((value, k) => (cells[k] += value));
  }
  const errors = (axes) => {
    const noise = cellVariance * axes.reduce((whole, { square }) => whole * square, 1);
    if (!end) return { noise, nonuniformity: 0, number: quantiles ? equalWeights(axes) : 0 };
    const sums = walkedLeaves({ end, lower, upper, below }, axes, REACHED);
    let nonuniformity = detail || sums.cut === 0 ? 0 : NaN;
    if (ratio)
      nonuniformity = expectedSquare(
        ratio,
        weightedSum(
          deviation,
          shape,
          axes.map((axis) => axis.weights),
        ),
        sums,
      );
    return { noise: Math.max(noise + sums.variance, 0), nonuniformity, number: quantiles ? sums.number : 0 };
  };
  return { cells, measures: null, errors };
}

/** Return how many cells a question takes, if it takes them all with weights of one size; else 0. */
function equalWeights(axes) {
  return axes.reduce((whole, { weights }) => {
    const taken = weights.filter((weight) => weight > 0);
    const least = taken.reduce((a, b) => Math.min(a, b), Infinity);
    return least >= (1 - 1e-12) * taken.reduce((a, b) => Math.max(a, b), 0) ? whole * taken.length : 0;
  }, 1);
}

/** Return the expected squared error of spreading boxes evenly: `errors/nonuniformity.py` says why. */
function expectedSquare([cellVariance, least, low, power], guess, { cut, worst }) {
  const noise = cellVariance * Math.max(cut, 0);
  const raised = least * (Math.max(cut, 0) / low) ** power;
  const prior = Math.min(raised * noise, Math.max(worst, 0));
  const shrink = prior / Math.max(prior + noise, Number.MIN_VALUE);
  return shrink ** 2 * guess ** 2 + shrink * noise;
}

/** Return the axes of a question, laid out for an estimate. */
export function axesOf(estimate, weights) {
  return weights.map((along, axis) => laidOut(along, estimate.measures?.[axis]));
}
