/* Sums over cells: a cube and weights along its axes enter; tables over one or two axes leave.

   An axis is taken out by adding up its cells times their weights. A cube of n cells is gone through about twice for
   all of its tables over one axis: half of the axes are taken out at a time. */

/** Return the table over the axes in `kept` of a cube, other axes taken out with their weights. */
export function tableOver(cells, shape, weights, kept) {
  let table = { values: cells, shape: [...shape], axes: shape.map((_, axis) => axis) };
  const gone = table.axes.filter((axis) => !kept.includes(axis)).sort((a, b) => shape[b] - shape[a]);
  for (const axis of gone) table = takenOut(table, axis, weights[axis]);
  return table.values;
}

/** Return for every axis the table over it alone, all others taken out with their weights. */
export function everyMarginal(cells, shape, weights) {
  const found = [];
  halved({ values: cells, shape: [...shape], axes: shape.map((_, axis) => axis) }, weights, found);
  return found;
}

function halved(table, weights, found) {
  if (table.axes.length === 1) {
    found[table.axes[0]] = table.values;
    return;
  }
  const middle = table.axes.length >> 1;
  for (const gone of [table.axes.slice(0, middle), table.axes.slice(middle)]) {
    let left = table;
    for (const axis of [...gone].sort(
      (a, b) => table.shape[table.axes.indexOf(b)] - table.shape[table.axes.indexOf(a)],
    )) {
      left = takenOut(left, axis, weights[axis]);
    }
    halved(left, weights, found);
  }
}

/** Return a table without one of its axes, whose cells are added up by their weights. */
function takenOut({ values, shape, axes }, axis, weights) {
  const place = axes.indexOf(axis);
  const [before, after] = [product(shape.slice(0, place)), product(shape.slice(place + 1))];
  const left = new Float64Array(before * after);
  const size = shape[place];
  for (let row = 0; row < before; row++) {
    addUp(values, left, weights, size, row * size * after, row * after, after);
  }
  const without = (list) => list.filter((_, k) => k !== place);
  return { values: left, shape: without(shape), axes: without(axes) };
}

function addUp(values, left, weights, size, from, to, after) {
  if (after === 1) {
    let sum = 0;
    for (let cell = 0; cell < size; cell++) sum += weights[cell] * values[from + cell];
    left[to] = sum;
    return;
  }
  for (let cell = 0; cell < size; cell++) {
    const weight = weights[cell];
    if (weight === 0) continue;
    const start = from + cell * after;
    for (let k = 0; k < after; k++) left[to + k] += weight * values[start + k];
  }
}

/** Return the sum of a cube's cells times the weights along every axis. */
export function weightedSum(cells, shape, weights) {
  const table = tableOver(cells, shape, weights, [shape.length - 1]);
  const last = weights[shape.length - 1];
  return table.reduce((sum, value, cell) => sum + value * last[cell], 0);
}

function product(numbers) {
  return numbers.reduce((whole, number) => whole * number, 1);
}

/** Return every cell of a cube whose boxes have totals, spread by prefix sums along each axis (null is evenly). */
export function spreadOverCells(shape, lower, upper, totals, measures) {
  const cells = new Float64Array(product(shape));
  const dims = shape.length;
  const index = new Int32Array(dims);
  for (let box = 0; box < totals.length; box++) {
    const at = box * dims;
    const shares = shape.map((_, axis) => sharesOf(measures?.[axis], lower[at + axis], upper[at + axis]));
    index.fill(0);
    for (let left = product(shares.map((share) => share.length)); left > 0; left--) {
      let [place, share] = [0, totals[box]];
      for (let axis = 0; axis < dims; axis++) {
        place = place * shape[axis] + lower[at + axis] + index[axis];
        share *= shares[axis][index[axis]];
      }
      cells[place] += share;
      for (let axis = dims - 1; axis >= 0 && ++index[axis] === shares[axis].length; axis--) index[axis] = 0;
    }
  }
  return cells;
}

function sharesOf(measure, low, high) {
  const shares = new Float64Array(high - low);
  for (let k = 0; k < shares.length; k++) {
    shares[k] = measure
      ? (measure[low + k + 1] - measure[low + k]) / (measure[high] - measure[low])
      : 1 / shares.length;
  }
  return shares;
}
