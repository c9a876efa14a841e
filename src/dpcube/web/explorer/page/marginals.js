/* Sums over cells: a cube and weights along its axes enter; tables over one or two axes leave.

   An axis is taken out by adding up its cells times their weights. A cube of n cells is gone through about twice for
   all of its tables over one axis: half of the axes are taken out at a time. */

/** Return the table over the axes in `kept` of a cube, other axes taken out with their weights. */
function tableOver(cells, shape, weights, kept) {
  let table = { values: cells, shape: [...shape], axes: shape.map((_, axis) => axis) };
  const gone = table.axes.filter((axis) => !kept.includes(axis)).sort((a, b) => shape[b] - shape[a]);
  for (const axis of gone) table = takenOut(table, axis, weights[axis]);
  return table.values;
}

const MAX_KEPT = 24;

/** Return a cube's tables: `everyMarginal(weights)`, one for each axis, and `over(weights, axes)`.

    While someone drags on one chart the weights of all other axes stay: their axes are taken out first, and what was
    left is kept for the next step. Weights are compared, and must not be changed once they were handed over. */
export function keptTables(cells, shape) {
  const whole = { values: cells, shape: [...shape], axes: shape.map((_, axis) => axis) };
  const state = { kept: new Map(), before: [], moving: shape.map(() => false) };
  const prepared = (weights) => {
    const moved = shape.map((_, axis) => !isAlike(state.before[axis], weights[axis]));
    if (moved.includes(true)) Object.assign(state, { moving: moved, before: weights });
    return (gone) => [...gone].sort((a, b) => state.moving[a] - state.moving[b] || shape[b] - shape[a]);
  };
  return {
    over: (weights, axes) => {
      const order = prepared(weights);
      return withoutAxes(whole, order(whole.axes.filter((axis) => !axes.includes(axis))), weights, state.kept).values;
    },
    everyMarginal: (weights) => {
      const [order, found] = [prepared(weights), []];
      if (shape.length === 1) return [cells];
      const middle = shape.length >> 1;
      for (const gone of [whole.axes.slice(0, middle), whole.axes.slice(middle)]) {
        halved(withoutAxes(whole, order(gone), weights, state.kept), weights, found);
      }
      return found;
    },
  };
}

/** Take axes out one after another, from where the last time's weights were others on. */
function withoutAxes(whole, gone, weights, kept) {
  let table = whole;
  gone.forEach((axis, k) => {
    const key = gone.slice(0, k + 1).join();
    const last = kept.get(key);
    if (last && gone.slice(0, k + 1).every((one, place) => isAlike(last.weights[place], weights[one]))) {
      table = last.table;
      return;
    }
    table = takenOut(table, axis, weights[axis]);
    if (kept.size >= MAX_KEPT) kept.clear();
    kept.set(key, { table, weights: gone.slice(0, k + 1).map((one) => weights[one]) });
  });
  return table;
}

function isAlike(some, others) {
  return some === others || (some?.length === others.length && some.every((weight, cell) => weight === others[cell]));
}

function halved(table, weights, found) {
  if (table.axes.length === 1) {
    found[table.axes[0]] = table.values;
    return;
  }
  const middle = table.axes.length >> 1;
  for (const gone of [table.axes.slice(0, middle), table.axes.slice(middle)]) {
    halved(
      gone.reduce((left, axis) => takenOut(left, axis, weights[axis]), table),
      weights,
      found,
    );
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
