/* Two walks down a tree of boxes, in preorder without a stack: one for a posterior's splits, one for totals of leaves.

   They do what `models/errors/walks.py` does, for one question at a time. A subtree whose cells all have one weight
   is passed over. Axes are laid out by `laidOut`. */

/** Return the bounds of every box of a tree whose nodes are cut in two, the lower half first. */
export function boundsOfCuts(shape, end, cutAxis, cutPlace) {
  const dims = shape.length;
  const [lower, upper] = [new Int32Array(end.length * dims), new Int32Array(end.length * dims)];
  upper.set(shape);
  for (let node = 0; node < end.length; node++) {
    if (end[node] === node + 1) continue;
    const [left, right, at] = [node + 1, end[node + 1], node * dims];
    for (const child of [left, right]) {
      lower.set(lower.subarray(at, at + dims), child * dims);
      upper.set(upper.subarray(at, at + dims), child * dims);
    }
    upper[left * dims + cutAxis[node]] = lower[right * dims + cutAxis[node]] = cutPlace[node];
  }
  return { lower, upper };
}

/** Return the weight that all cells of a node have, or NaN if they have not one. */
function commonWeight(axes, lower, upper, at) {
  let [common, alike] = [1, true];
  for (let k = 0; k < axes.length; k++) {
    const [axis, low] = [axes[k], lower[at + k]];
    if (axis.until[low] < upper[at + k]) {
      alike = false;
      continue;
    }
    common *= axis.weights[low];
    if (common === 0) return 0;
  }
  return alike ? common : NaN;
}

/** Return the mean over a node, by the measure, of weights (`sums`) or of their squares (`squares`). */
function meanWeight(axes, lower, upper, at, power) {
  let mean = 1;
  for (let k = 0; k < axes.length; k++) {
    const [axis, low, high] = [axes[k], lower[at + k], upper[at + k]];
    const sums = axis[power];
    mean *= (sums[high] - sums[low]) / (axis.whole[high] - axis.whole[low]);
  }
  return mean;
}

/** Return the squared error, in units of a leaf's total, if one value without an order has all of its rows. */
function ofOneValue({ lower, upper, unordered, covered }, axes, at) {
  if (unordered.length === 0) return 0;
  let [part, along] = [1, 1];
  for (let k = 0; k < axes.length; k++) {
    const [{ sums, whole }, low, high] = [axes[k], lower[at + k], upper[at + k]];
    const mean = (sums[high] - sums[low]) / (whole[high] - whole[low]);
    if (unordered.includes(k)) part *= Math.min(Math.max(mean, 0), 1);
    else along *= mean;
  }
  return part > 0 ? along ** 2 * (1 - part) * Math.max(part, (1 - part) / covered) : 0;
}

/** Return by how much the mean weight below a node's cut exceeds that above it. */
function halvesApart(axes, lower, upper, at, cut, place) {
  let apart = 1;
  for (let k = 0; k < axes.length; k++) {
    const [{ sums, whole }, low, high] = [axes[k], lower[at + k], upper[at + k]];
    if (k === cut) {
      const below = (sums[place] - sums[low]) / (whole[place] - whole[low]);
      apart *= below - (sums[high] - sums[place]) / (whole[high] - whole[place]);
    } else {
      apart *= (sums[high] - sums[low]) / (whole[high] - whole[low]);
    }
  }
  return apart;
}

/** Return the variance by the total and the splits, that inside leaves, what is hidden there, and what is apart. */
export function walkedSplits(tree, axes) {
  const { end, cutAxis, cutPlace, lower, upper, totals, variances, columns, ofTotal } = tree;
  const dims = axes.length;
  const apart = new Float64Array(columns);
  const whole = meanWeight(axes, lower, upper, 0, "sums");
  let [noise, nonuniformity, hidden] = [ofTotal * whole * whole, 0, 0];
  for (let node = 0; node < end.length; ) {
    const at = node * dims;
    let mean = commonWeight(axes, lower, upper, at);
    const [alike, leaf] = [!Number.isNaN(mean), end[node] === node + 1];
    if (!alike && leaf) {
      mean = meanWeight(axes, lower, upper, at, "sums");
      const varying = Math.max(meanWeight(axes, lower, upper, at, "squares") - mean * mean, 0);
      nonuniformity += variances[node] * varying;
      hidden += Math.max(totals[node] ** 2 * ofOneValue(tree, axes, at) - variances[node] * varying, 0);
    }
    if (alike || leaf) {
      if (mean !== 0) for (let k = 0; k < columns; k++) apart[k] += mean * tree.apart[node * columns + k];
      node = end[node];
      continue;
    }
    const differing = halvesApart(axes, lower, upper, at, cutAxis[node], cutPlace[node]);
    noise += variances[node] * differing * differing;
    node++;
  }
  return { noise, nonuniformity, hidden, apart };
}

const LEAST_ALIKE = 1 - 1e-12;

/** Return sums over the leaves that one question takes: variance, cut, worst and number, as `BoxSums` has them. */
export function walkedLeaves({ end, lower, upper, below }, axes, reached) {
  const dims = axes.length;
  let [variance, cut, linear, squared, number] = [0, 0, 0, 0, 0];
  let [least, most] = [Infinity, 0];
  for (let node = 0; node < end.length; ) {
    let mean = commonWeight(axes, lower, upper, node * dims);
    if (Number.isNaN(mean) && end[node] > node + 1) {
      node++;
      continue;
    }
    const total = below[3 * node];
    if (Number.isNaN(mean)) {
      const taken = takenOfLeaf(axes, lower, upper, node * dims);
      mean = taken.mean;
      cut += taken.cut;
      linear += total * total * mean;
      squared += total * total * mean * mean;
      [least, most] = [0, Infinity];
    } else if (mean !== 0) {
      [least, most] = [Math.min(least, mean), Math.max(most, mean)];
    }
    variance += mean * mean * below[3 * node + 1];
    if (mean !== 0) number += below[3 * node + 2];
    node = end[node];
  }
  let largest = 1;
  for (const axis of axes) largest *= axis.weights.reduce((a, b) => Math.max(a, b), 0);
  const worst = largest * linear - reached * squared;
  return { variance, cut, worst, number: least < LEAST_ALIKE * most ? 0 : number };
}

/** Return the mean weight of a leaf in which weights vary, and the sum of their squares less that of their mean's. */
function takenOfLeaf(axes, lower, upper, at) {
  let [mean, cells, weights, squares] = [1, 1, 1, 1];
  for (let k = 0; k < axes.length; k++) {
    const [axis, low, high] = [axes[k], lower[at + k], upper[at + k]];
    const taken = axis.sums[high] - axis.sums[low];
    mean *= taken / (high - low);
    cells *= high - low;
    weights *= taken;
    squares *= axis.squares[high] - axis.squares[low];
  }
  return { mean, cut: Math.max(squares - (weights * weights) / cells, 0) };
}
