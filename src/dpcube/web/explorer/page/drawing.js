/* Elements and numbers as they are shown. Text is always text, never HTML. */

import { isDoubtful } from "./shown.js";

const SVG_SPACE = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** Make an element of HTML: properties, then children that are elements or text. */
export function made(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "role") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children);
  return element;
}

/** Make an element of SVG. */
export function drawn(tag, attributes = {}, text = null) {
  const element = document.createElementNS(SVG_SPACE, tag);
  setAll(element, attributes);
  if (text !== null) element.textContent = text;
  return element;
}

export function setAll(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
}

/** Set an attribute, or what is written ("text"), unless it was put so already: a browser would work it all out anew. */
export function put(element, name, value) {
  const before = (element.wasPut ??= {});
  if (before[name] === value) return;
  before[name] = value;
  if (name === "text") element.textContent = value;
  else element.setAttribute(name, value);
}

const WHOLE = new Intl.NumberFormat("en-US"); // made once: making it takes a hundred times as long as using it

/** Return a count as it is shown: whole, or if it is small to two digits. */
export function rows(count) {
  if (Number.isNaN(count)) return "unknown";
  if (Math.abs(count) >= 10) return WHOLE.format(Math.round(count));
  return String(Number(count.toPrecision(2)));
}

/** Return an interval in words. */
export function likely({ low, high }) {
  if (Number.isNaN(low + high)) return "error unknown on this page; use Python";
  return `likely between ${rows(low)} and ${rows(high)}`;
}

/** Return what else is to be said of an answer: that it may be none, and that it is a model's. */
export function besides(answer) {
  return (isDoubtful(answer) ? "; may be none at all" : "") + (answer.modelled ? "; by the model" : "");
}

/** Return a few round numbers from 0 to a top, or from a bottom below 0. */
export function roundTicks(bottom, top, most) {
  const rough = (top - bottom) / most || 1;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough);
  const ticks = [];
  for (let k = Math.ceil(bottom / step); k * step <= top * (1 + 1e-9); k++) ticks.push(k * step);
  return ticks;
}

/** Return a short form of a number for axes: 12k, 3.4M. */
export function short(number) {
  for (const [size, letter] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (
      Math.abs(number) >= 10 * size ||
      Math.abs(number) === size ||
      (Math.abs(number) >= size && number % (size / 10) === 0)
    ) {
      return `${Number((number / size).toPrecision(3))}${letter}`;
    }
  }
  return String(Number(number.toPrecision(3)));
}

/** Return text cut to so many characters. */
export function cutShort(text, most) {
  const characters = [...text];
  return characters.length <= most ? text : `${characters.slice(0, Math.max(most - 1, 1)).join("")}…`;
}

/** Add the pattern that marks what may as well be none, and return its name for `fill`. */
export function hatch(svg, id) {
  const pattern = drawn("pattern", {
    id,
    width: 6,
    height: 6,
    patternUnits: "userSpaceOnUse",
    patternTransform: "rotate(45)",
  });
  pattern.append(
    drawn("rect", { width: 6, height: 6, class: "hatch-ground" }),
    drawn("rect", { width: 2.5, height: 6, class: "hatch-line" }),
  );
  const definitions = drawn("defs");
  definitions.append(pattern);
  svg.append(definitions);
  return `url(#${id})`;
}

/** Work through a list of jobs a few milliseconds at a time, so that the page stays quick; return how to stop.

    They begin after a pause: while someone drags, what they would work out is not wanted any more by then. */
export function inPieces(jobs, { milliseconds = 12, pause = 60 } = {}) {
  let [next, stopped] = [0, false];
  const channel = new MessageChannel();
  channel.port1.onmessage = () => {
    const until = performance.now() + milliseconds;
    while (!stopped && next < jobs.length && performance.now() < until) jobs[next++]();
    if (!stopped && next < jobs.length) setTimeout(() => channel.port2.postMessage(0), 0);
  };
  const waiting = setTimeout(() => channel.port2.postMessage(0), pause);
  return () => {
    stopped = true;
    clearTimeout(waiting);
  };
}
