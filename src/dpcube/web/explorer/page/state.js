/* What is shown as a part of the page's address, so that a view can be linked to: after #, in JSON.

   An address may come from anywhere: what does not fit this cube is passed over. */

import { runsOf } from "./shown.js";

/** Return what is chosen by the numbers of attributes: runs of cells [first, last], or a range {from, to}. */
export function askedOf(chosen) {
  const asked = {};
  chosen.forEach((of, axis) => {
    if (of) asked[axis] = of.cells ? runsOf(of.cells) : { from: of.from, to: of.to };
  });
  return asked;
}

/** Return the part of an address that says what is shown. */
export function hashOf({ chosen, across, up, outlines, noisy }) {
  const asked = askedOf(chosen);
  return `#${encodeURIComponent(JSON.stringify({ asked, across, up, outlines, noisy }))}`;
}

/** Return what an address says is to be shown, as far as it fits. */
export function viewOf(hash, { facts, shape, edges }) {
  const view = {
    chosen: shape.map(() => null),
    across: 0,
    up: Math.min(1, shape.length - 1),
    outlines: true,
    noisy: false,
  };
  let said;
  try {
    said = JSON.parse(decodeURIComponent(hash.slice(1)));
  } catch {
    return view;
  }
  if (typeof said !== "object" || said === null) return view;
  for (const key of ["across", "up"]) if (Number.isInteger(said[key]) && said[key] in shape) view[key] = said[key];
  for (const key of ["outlines", "noisy"]) if (typeof said[key] === "boolean") view[key] = said[key];
  shape.forEach(
    (cells, axis) => (view.chosen[axis] = chosenOf(said.asked?.[axis], facts.attributes[axis], cells, edges[axis])),
  );
  return view;
}

function chosenOf(said, attribute, cells, edges) {
  if (Array.isArray(said)) {
    const taken = new Array(cells).fill(false);
    for (const run of said) {
      if (!Array.isArray(run) || !run.every(Number.isInteger)) return null;
      for (let cell = Math.max(run[0], 0); cell <= Math.min(run[1], cells - 1); cell++) taken[cell] = true;
    }
    return taken.includes(true) && taken.includes(false) ? { cells: taken } : null;
  }
  const { from, to } = said ?? {};
  return isRangeOf(attribute, edges, from, to) ? { from, to } : null;
}

/** Whether there are values of an attribute from one number to another, both included. */
export function isRangeOf({ scale, step }, edges, from, to) {
  const whole = step === 0 || (Number.isInteger(from) && Number.isInteger(to));
  const finite = Number.isFinite(from) && Number.isFinite(to);
  return (
    scale !== "position" && whole && finite && from <= to && to >= edges[0] && from <= edges[edges.length - 1] - step
  );
}
