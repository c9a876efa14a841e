/* A map of two attributes: a canvas of counts below an SVG of axes, outlines of boxes, marks and what is chosen.

   The darker the more rows; the scale is by the root, so that small counts are seen. A stroke through a square says
   that its count may as well be none. */

import { cutShort, drawn, made, put, rows, setAll } from "./drawing.js";
import { isDoubtful } from "./shown.js";

const EDGE = { left: 84, right: 10, top: 8, bottom: 44 };
const TALLEST = 420;
const LOWEST = 220;
const SHADES = 1024;
const STRENGTHS = ["faint", "clear", "strong"];

/** Return a map: its element, `show(picture)`, `tell(place, answer)`, `lay()` and `lines(found)`. */
export function heatMap(title, onChoose, onSay) {
  const map = {
    canvas: made("canvas", { "aria-hidden": "true" }),
    svg: drawn("svg", { "aria-hidden": "true" }),
    title,
    cursor: [0, 0],
    found: null,
  };
  map.area = made(
    "div",
    { className: "map-area", tabIndex: 0, role: "group", "aria-roledescription": "map of counts" },
    map.canvas,
    map.svg,
  );
  map.element = made("figure", { className: "map" }, made("figcaption", {}, title), map.area);
  for (const layer of ["axes", "outlines", "marks", "chosen", "pointer"]) {
    map[layer] = drawn("g", { class: layer });
    map.svg.append(map[layer]);
  }
  choosingSquares(map, onChoose, onSay);
  return {
    element: map.element,
    area: map.area,
    svg: map.svg,
    show: (picture) => showMap(map, picture),
    tell: (place, answer) => (map.answers[place] = answer),
    mark: () => markDoubts(map),
    lines: (found) => {
      if (map.found === found) return;
      map.found = found;
      drawOutlines(map);
    },
    lay: () => layMap(map),
    rectangles: () => rectanglesOf(map),
    answers: () => map.answers,
    values: () => Array.from(map.picture.values),
  };
}

/** Show a picture: across and up (drawn bins), values (a row for each drawn bin across), top, and what is chosen. */
function showMap(map, picture) {
  map.picture = picture;
  map.answers = new Array(picture.values.length).fill(null);
  map.marks.replaceChildren();
  put(
    map.area,
    "aria-label",
    `${map.title}: ${picture.names[0]} across, ${picture.names[1]} up; arrows move, Enter chooses`,
  );
  if (map.width) paint(map);
}

function layMap(map) {
  if (!map.picture) return;
  const { across, up } = map.picture;
  map.width = Math.max(map.area.clientWidth, 240);
  const square = (map.width - EDGE.left - EDGE.right) / across.labels.length;
  map.inner = {
    width: map.width - EDGE.left - EDGE.right,
    height: Math.min(Math.max(square * up.labels.length, LOWEST), TALLEST),
  };
  map.height = map.inner.height + EDGE.top + EDGE.bottom;
  setAll(map.svg, { width: map.width, height: map.height, viewBox: `0 0 ${map.width} ${map.height}` });
  const sharp = window.devicePixelRatio || 1;
  Object.assign(map.canvas, {
    width: Math.round(map.inner.width * sharp),
    height: Math.round(map.inner.height * sharp),
  });
  Object.assign(map.canvas.style, {
    left: `${EDGE.left}px`,
    top: `${EDGE.top}px`,
    width: `${map.inner.width}px`,
    height: `${map.inner.height}px`,
  });
  map.area.style.height = `${map.height}px`;
  map.colours = coloursOf(map.area);
  drawAxes(map);
  drawOutlines(map);
  paint(map);
  markDoubts(map);
  map.pointer.replaceChildren();
}

function paint(map) {
  const { across, up, values, top } = map.picture;
  const [columns, lines] = [across.labels.length, up.labels.length];
  if (map.small?.width !== columns || map.small.height !== lines) map.small = new OffscreenCanvas(columns, lines);
  const image = new ImageData(columns, lines);
  const pixels = new Uint32Array(image.data.buffer);
  for (let column = 0; column < columns; column++) {
    for (let line = 0; line < lines; line++) {
      const shade = shadeOf(top, values[column * lines + line]);
      pixels[(lines - 1 - line) * columns + column] = map.colours[Math.round(shade * (SHADES - 1))];
    }
  }
  map.small.getContext("2d").putImageData(image, 0, 0);
  const context = map.canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(map.small, 0, 0, map.canvas.width, map.canvas.height);
  drawChosen(map);
}

function shadeOf(top, value) {
  return Math.sqrt(Math.min(Math.max(value, 0) / top, 1));
}

/** Return the colours of all shades as pixels; asking for styles makes a browser work them all out, so it is done once. */
function coloursOf(element) {
  const ramp = rampOf(element);
  const bytes = new Uint8ClampedArray(4 * SHADES);
  for (let shade = 0; shade < SHADES; shade++) bytes.set([...ramp(shade / (SHADES - 1)), 255], 4 * shade);
  return new Uint32Array(bytes.buffer);
}

/** Return colours from none to most, as the style says them. */
function rampOf(element) {
  const style = getComputedStyle(element);
  const [none, middle, most] = ["--none", "--middle", "--most"].map((name) => rgb(style.getPropertyValue(name)));
  return (shade) => (shade < 0.5 ? mixed(none, middle, 2 * shade) : mixed(middle, most, 2 * shade - 1));
}

function rgb(text) {
  const digits = text.trim().slice(1);
  return [0, 2, 4].map((at) => parseInt(digits.slice(at, at + 2), 16));
}

function mixed(one, other, part) {
  return one.map((from, k) => Math.round(from + (other[k] - from) * part));
}

const xAt = (map, bin) => EDGE.left + (bin * map.inner.width) / map.picture.across.labels.length;
const yAt = (map, bin) => EDGE.top + map.inner.height - (bin * map.inner.height) / map.picture.up.labels.length;

function drawAxes(map) {
  const { across, up, names } = map.picture;
  map.axes.replaceChildren(
    drawn(
      "text",
      { x: EDGE.left + map.inner.width / 2, y: map.height - 6, "text-anchor": "middle", class: "axis-name" },
      cutShort(names[0], 40),
    ),
    drawn(
      "text",
      {
        x: 0,
        y: 0,
        "text-anchor": "middle",
        class: "axis-name",
        transform: `translate(12 ${EDGE.top + map.inner.height / 2}) rotate(-90)`,
      },
      cutShort(names[1], 40),
    ),
    drawn("rect", { x: EDGE.left, y: EDGE.top, width: map.inner.width, height: map.inner.height, class: "frame" }),
  );
  const longest = Math.min(Math.max(...across.labels.map((label) => label.length)), 12);
  const everyColumn = Math.ceil((longest * 6.6 + 10) / (map.inner.width / across.labels.length));
  const everyLine = Math.ceil(15 / (map.inner.height / up.labels.length));
  across.labels.forEach((label, bin) => {
    if (bin % everyColumn === 0)
      map.axes.append(
        drawn(
          "text",
          { x: xAt(map, bin + 0.5), y: map.height - EDGE.bottom + 15, "text-anchor": "middle" },
          cutShort(label, 12),
        ),
      );
  });
  up.labels.forEach((label, bin) => {
    if (bin % everyLine === 0)
      map.axes.append(
        drawn("text", { x: EDGE.left - 5, y: yAt(map, bin + 0.5) + 4, "text-anchor": "end" }, cutShort(label, 9)),
      );
  });
}

function drawOutlines(map) {
  map.outlines.replaceChildren();
  if (!map.found || !map.width) return;
  map.found.lines.forEach((lines, strength) => {
    let path = "";
    for (let k = 0; k < lines.length; k += 4)
      path += `M${xAt(map, lines[k])} ${yAt(map, lines[k + 1])}L${xAt(map, lines[k + 2])} ${yAt(map, lines[k + 3])}`;
    if (path) map.outlines.append(drawn("path", { d: path, class: STRENGTHS[strength] }));
  });
}

/** Put a stroke through every square whose count may as well be none. */
function markDoubts(map) {
  const lines = map.picture.up.labels.length;
  let path = "";
  map.answers.forEach((answer, place) => {
    if (!answer || !isDoubtful(answer)) return;
    const [column, line] = [Math.floor(place / lines), place % lines];
    const [x, y, right, top] = [xAt(map, column), yAt(map, line), xAt(map, column + 1), yAt(map, line + 1)];
    const inset = Math.min((right - x) / 4, (y - top) / 4);
    path += `M${x + inset} ${y - inset}L${right - inset} ${top + inset}`;
  });
  map.marks.replaceChildren(...(path ? [drawn("path", { d: path })] : []));
}

function drawChosen(map) {
  const { chosenAcross, chosenUp, across, up } = map.picture;
  map.chosen.replaceChildren();
  if (!chosenAcross && !chosenUp) return;
  const runs = (taken, count) => (taken ? runsOfBins(taken) : [[0, count - 1]]);
  for (const [first, last] of runs(chosenAcross, across.labels.length)) {
    for (const [low, high] of runs(chosenUp, up.labels.length)) {
      const [x, y] = [xAt(map, first), yAt(map, high + 1)];
      map.chosen.append(drawn("rect", { x, y, width: xAt(map, last + 1) - x, height: yAt(map, low) - y }));
    }
  }
}

function runsOfBins(taken) {
  const runs = [];
  taken.forEach((is, bin) => {
    if (is && taken[bin - 1]) runs.at(-1)[1] = bin;
    else if (is) runs.push([bin, bin]);
  });
  return runs;
}

function choosingSquares(map, onChoose, onSay) {
  let from = null;
  const at = (event) => {
    const box = map.svg.getBoundingClientRect();
    const [columns, lines] = [map.picture.across.labels.length, map.picture.up.labels.length];
    const x = Math.floor(((event.clientX - box.left - EDGE.left) / map.inner.width) * columns);
    const y = Math.floor((1 - (event.clientY - box.top - EDGE.top) / map.inner.height) * lines);
    return [Math.min(Math.max(x, 0), columns - 1), Math.min(Math.max(y, 0), lines - 1)];
  };
  map.svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = at(event);
    map.svg.setPointerCapture(event.pointerId);
  });
  map.svg.addEventListener("pointermove", (event) => {
    pointTo(map, at(event), onSay);
    if (from !== null && at(event).join() !== from.join()) onChoose(from, at(event));
  });
  map.svg.addEventListener("pointerup", (event) => {
    if (from !== null && at(event).join() === from.join()) onChoose(from, from);
    from = null;
  });
  map.svg.addEventListener("pointercancel", () => (from = null));
  map.area.addEventListener("focus", () => pointTo(map, map.cursor, onSay));
  map.area.addEventListener("blur", () => map.pointer.replaceChildren());
  map.area.addEventListener("keydown", (event) => keyedSquares(map, event, onChoose, onSay));
}

function keyedSquares(map, event, onChoose, onSay) {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  if (event.key in moves) {
    const most = [map.picture.across.labels.length - 1, map.picture.up.labels.length - 1];
    const to = map.cursor.map((bin, k) => Math.min(Math.max(bin + moves[event.key][k], 0), most[k]));
    if (event.shiftKey) map.anchor ??= map.cursor;
    else map.anchor = undefined;
    pointTo(map, to, onSay);
    if (event.shiftKey) onChoose(map.anchor, to);
  } else if (event.key === " " || event.key === "Enter") {
    onChoose(map.cursor, map.cursor);
  } else if (event.key === "Escape") {
    onChoose(null, null);
  } else {
    return;
  }
  event.preventDefault();
}

function pointTo(map, [column, line], onSay) {
  const { across, up } = map.picture;
  map.cursor = [Math.min(column, across.labels.length - 1), Math.min(line, up.labels.length - 1)];
  const [x, y] = [xAt(map, map.cursor[0]), yAt(map, map.cursor[1] + 1)];
  map.pointer.replaceChildren(
    drawn("rect", { x, y, width: xAt(map, map.cursor[0] + 1) - x, height: yAt(map, map.cursor[1]) - y }),
  );
  onSay(map.cursor);
}

/** Return the squares as rectangles with their colours, for a picture that is saved. */
function rectanglesOf(map) {
  const { up, values } = map.picture;
  const [lines, ramp] = [up.labels.length, rampOf(map.area)];
  return Array.from(values, (value, place) => {
    const [column, line] = [Math.floor(place / lines), place % lines];
    const [x, y] = [xAt(map, column), yAt(map, line + 1)];
    const fill = `rgb(${ramp(shadeOf(map.picture.top, value)).join()})`;
    return drawn("rect", { x, y, width: xAt(map, column + 1) - x + 0.3, height: yAt(map, line) - y + 0.3, fill });
  });
}

/** Return the scale of colours in words: a strip from none to most. */
export function scaleStrip(top) {
  const strip = made("span", { className: "strip", "aria-hidden": "true" });
  return made(
    "p",
    { className: "scale" },
    "none ",
    strip,
    ` ${rows(top)} rows; the scale is of square roots, so that small counts show. A stroke: may be none at all.`,
  );
}
