/* Questions as weights: how much of each cell of an axis a question takes, and which cells it takes in part.

   A question is one weight for each cell of each axis; a cell of the cube counts by the product. `parts` marks the bins
   of which a range takes a part only: its share is the weight, and nothing is known of the rows inside. */

/** Return the weights of an axis that is not asked of: every cell counts 1. */
export function takesAll(cells) {
  return { weights: new Float64Array(cells).fill(1), parts: null, asked: false };
}

/** Return the weights of chosen cells, an array of true and false. */
export function takesCells(chosen) {
  return { weights: Float64Array.from(chosen, Number), parts: null, asked: true };
}

/** Return the weights of the values from `low` to `high`, both included, in the coordinate of an attribute. */
export function takesRange(attribute, edges, low, high) {
  const { bins, step } = attribute;
  const cells = bins + attribute.own.length;
  const [weights, parts] = [new Float64Array(cells), new Uint8Array(cells)];
  const stop = step > 0 ? high + step : nextDouble(high);
  const until = step > 0 ? stop : high;
  for (let bin = 0; bin < bins; bin++) {
    const [start, end] = [edges[bin], edges[bin + 1]];
    const covered = clipped(end, low, until) - clipped(start, low, until);
    weights[bin] = Math.min(covered / (end - start), 1);
    const last = step === 0 && bin === bins - 1 ? nextDouble(end) : end;
    const whole = start >= low && last <= stop;
    parts[bin] = start < stop && last > low && !whole ? 1 : 0;
    if (attribute.even && !isSingle(attribute, edges, bin, low, stop)) parts[bin] = 0;
  }
  return { weights, parts: parts.includes(1) ? parts : null, asked: true };
}

/** Return whether a range picks a single real number out of an even bin, or leaves out the first or the last one. */
function isSingle({ bins, step }, edges, bin, low, stop) {
  if (step > 0) return false;
  if (stop === nextDouble(low)) return true;
  return (bin === 0 && low === nextDouble(edges[0])) || (bin === bins - 1 && stop === edges[bins]);
}

function clipped(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

/** Return the double after a finite number. */
function nextDouble(number) {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, number === 0 ? 0 : number);
  bits.setBigInt64(0, bits.getBigInt64(0) + (number >= 0 ? 1n : -1n));
  return bits.getFloat64(0);
}

/** Tell which shares are neither none nor all, by more than rounding may have made of them. */
export function cutShares(attribute, edges, weights) {
  const { bins, step } = attribute;
  let largest = 0;
  for (const edge of edges) largest = Math.max(largest, Math.abs(edge));
  const spacing = step === 0 ? 4 * (nextDouble(largest) - largest) : 0;
  return Uint8Array.from(weights, (share, bin) => {
    const hair = bin < bins ? spacing / (edges[bin + 1] - edges[bin]) : 0;
    return share > hair && share < 1 - hair ? 1 : 0;
  });
}

/** Lay the weights of an axis out for walks: the next cell of another weight, and sums of measure times weights.

    `measure` says how the total of a box is spread along the axis; null is evenly. */
export function laidOut(weights, measure) {
  const cells = weights.length;
  const until = new Int32Array(cells + 1).fill(cells);
  const [whole, sums, squares] = [0, 1, 2].map(() => new Float64Array(cells + 1));
  for (let cell = cells - 2; cell >= 0; cell--) {
    until[cell] = weights[cell] === weights[cell + 1] ? until[cell + 1] : cell + 1;
  }
  let [sum, square] = [0, 0];
  for (let cell = 0; cell < cells; cell++) {
    const [weight, size] = [weights[cell], measure ? measure[cell + 1] - measure[cell] : 1];
    whole[cell + 1] = whole[cell] + size;
    sums[cell + 1] = sums[cell] + weight * size;
    squares[cell + 1] = squares[cell] + weight * weight * size;
    sum += weight;
    square += weight * weight;
  }
  return { weights, until, whole, sums, squares, sum, square };
}
