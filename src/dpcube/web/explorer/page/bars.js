/* The counts of one attribute as bars with whiskers: columns if it has an order, else lines with names.

   A chart is a list box of bars. Bars are chosen by clicking, dragging or keys; the chart says which, and is told what
   to show. */

import { besides, cutShort, drawn, hatch, likely, made, put, rows, roundTicks, setAll, short } from "./drawing.js";
import { isDoubtful } from "./shown.js";

const HEIGHT = 176;
const MARGIN = { left: 46, right: 8, top: 8, bottom: 24 };
const LINE = 24;

/** Return a chart: its element, `show(values, chosen)`, `tell(bar, answer)` and `lay(width)`. */
export function barChart(attribute, number, onChoose) {
  const { labels } = attribute.drawn;
  const chart = {
    attribute,
    number,
    labels,
    upright: attribute.ordered,
    values: new Float64Array(labels.length),
    answers: labels.map(() => null),
    chosen: null,
    active: 0,
    svg: drawn("svg", { role: "none", class: "bars" }),
    list: made("div", {
      className: "list",
      tabIndex: 0,
      role: "listbox",
      "aria-multiselectable": "true",
      "aria-label": `${attribute.shown}: choose bars`,
    }),
    said: made("p", { className: "said" }),
  };
  chart.hatch = hatch(chart.svg, `hatch-${number}`);
  chart.ticks = drawn("g", { class: "ticks", "aria-hidden": "true" });
  chart.names = drawn("g", { class: "ticks", "aria-hidden": "true" });
  chart.svg.append(chart.ticks, chart.names);
  chart.bars = labels.map((_, bar) => newBar(chart, bar));
  chart.list.append(chart.svg);
  choosing(chart, onChoose);
  return {
    list: chart.list,
    said: chart.said,
    svg: chart.svg,
    table: () => labels.map((label, bar) => ({ label, ...(chart.answers[bar] ?? { value: chart.values[bar] }) })),
    show: (values, chosen) => showBars(chart, values, chosen),
    choose: (chosen) => chooseShown(chart, chosen),
    tell: (bar, answer) => tellBar(chart, bar, answer),
    lay: () => layBars(chart),
  };
}

function newBar(chart, bar) {
  const group = drawn("g", { role: "option", id: `bar-${chart.number}-${bar}`, class: "option" });
  const parts = {
    group,
    back: drawn("rect", { class: "back" }),
    body: drawn("rect", { class: "body" }),
    whisker: drawn("path", { class: "whisker" }),
    name: drawn("text", { class: "name" }),
    count: drawn("text", { class: "count" }),
  };
  group.append(parts.back, parts.body, parts.whisker, parts.name, parts.count);
  chart.svg.append(group);
  return parts;
}

function showBars(chart, values, chosen) {
  Object.assign(chart, { values, chosen });
  chart.answers.fill(null);
  chart.svg.classList.add("waiting");
  placeBars(chart);
}

/** Show which bars are chosen, before their counts are known. */
function chooseShown(chart, chosen) {
  chart.chosen = chosen;
  chart.svg.classList.add("waiting");
  chart.bars.forEach((_, bar) => describeBar(chart, bar));
}

function tellBar(chart, bar, answer) {
  chart.answers[bar] = answer;
  if (chart.answers.every(Boolean)) {
    chart.svg.classList.remove("waiting");
    placeBars(chart);
  }
}

/** Fit the chart to its width. */
function layBars(chart) {
  chart.width = Math.max(chart.list.clientWidth, 200);
  chart.height = chart.upright ? HEIGHT : chart.labels.length * LINE + 4;
  setAll(chart.svg, { width: chart.width, height: chart.height, viewBox: `0 0 ${chart.width} ${chart.height}` });
  chart.names.replaceChildren();
  chart.scale = null;
  (chart.upright ? layColumns : layLines)(chart);
  placeBars(chart);
}

function placeBars(chart) {
  if (!chart.width) return;
  let [bottom, top] = [0, 1];
  chart.values.forEach((value, bar) => {
    top = Math.max(top, value, chart.answers[bar]?.high || 0);
    bottom = Math.min(bottom, value);
  });
  const scale = `${bottom} ${top}`;
  if (chart.scale !== scale) chart.ticks.replaceChildren();
  (chart.upright ? placeColumns : placeLines)(chart, bottom, top, chart.scale !== scale);
  chart.scale = scale;
  chart.bars.forEach((_, bar) => describeBar(chart, bar));
  sayBar(chart, chart.active, false);
}

const columnStep = (chart) => (chart.width - MARGIN.left - MARGIN.right) / chart.labels.length;

/** Place what does not depend on counts. */
function layColumns(chart) {
  const step = columnStep(chart);
  const gap = step > 5 ? 1 : 0.25;
  chart.bars.forEach(({ back, body }, bar) => {
    const x = MARGIN.left + bar * step;
    setAll(back, { x, y: 0, width: step, height: HEIGHT - MARGIN.bottom });
    setAll(body, { x: x + gap, width: Math.max(step - 2 * gap, 0.5) });
  });
  namesBelow(chart, step);
}

function placeColumns(chart, bottom, top, isNewScale) {
  const step = columnStep(chart);
  const scale = (HEIGHT - MARGIN.top - MARGIN.bottom) / (top - bottom);
  const y = (value) => HEIGHT - MARGIN.bottom - (value - bottom) * scale;
  for (const tick of isNewScale ? roundTicks(bottom, top, 4) : []) {
    chart.ticks.append(
      drawn("line", {
        x1: MARGIN.left,
        x2: chart.width - MARGIN.right,
        y1: y(tick),
        y2: y(tick),
        class: tick === 0 ? "axis" : "grid",
      }),
    );
    chart.ticks.append(drawn("text", { x: MARGIN.left - 6, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
  }
  chart.bars.forEach((parts, bar) => {
    const [value, answer] = [chart.values[bar], chart.answers[bar]];
    put(parts.body, "y", Math.min(y(value), y(0)));
    put(parts.body, "height", Math.abs(y(value) - y(0)));
    const [middle, cap] = [MARGIN.left + (bar + 0.5) * step, Math.min(step / 4, 5)];
    put(
      parts.whisker,
      "d",
      hasWhisker(answer)
        ? [answer.low, answer.high].map((end) => `M${middle - cap} ${y(end)}h${2 * cap}`).join("") +
            `M${middle} ${y(answer.low)}V${y(answer.high)}`
        : "",
    );
  });
}

function namesBelow(chart, step) {
  const longest = Math.max(...chart.labels.map((label) => label.length));
  const every = Math.ceil((Math.min(longest, 12) * 6.6 + 12) / step);
  chart.labels.forEach((label, bar) => {
    const own = bar >= chart.labels.length - chart.attribute.own.length;
    if (bar % every !== 0 && !(own && chart.labels.length <= every * 2)) return;
    const x = MARGIN.left + (bar + 0.5) * step;
    const half = Math.min(label.length, 12) * 3.3;
    if (!own && x + half > chart.width) return;
    const anchor = x + half > chart.width ? "end" : "middle";
    chart.names.append(
      drawn(
        "text",
        { x: anchor === "end" ? chart.width - 2 : x, y: HEIGHT - 7, "text-anchor": anchor },
        cutShort(label, 12),
      ),
    );
  });
}

const widthOfNames = (chart) => Math.min(chart.width * 0.38, 190);

function layLines(chart) {
  const names = widthOfNames(chart);
  chart.bars.forEach((parts, bar) => {
    const y = bar * LINE + 2;
    setAll(parts.back, { x: 0, y, width: chart.width, height: LINE });
    setAll(parts.body, { y: y + 4, height: LINE - 8 });
    setAll(parts.name, { x: names, y: y + 16, "text-anchor": "end" });
    parts.name.textContent = cutShort(chart.labels[bar], Math.floor(names / 7.6));
    setAll(parts.count, { x: chart.width - 4, y: y + 16, "text-anchor": "end" });
  });
}

function placeLines(chart, bottom, top, isNewScale) {
  const names = widthOfNames(chart);
  const counts = 64;
  const scale = (chart.width - names - counts - 12) / (top - bottom);
  const x = (value) => names + 8 + (value - bottom) * scale;
  if (isNewScale) chart.ticks.append(drawn("line", { x1: x(0), x2: x(0), y1: 0, y2: chart.height, class: "axis" }));
  chart.bars.forEach((parts, bar) => {
    const [value, answer] = [chart.values[bar], chart.answers[bar]];
    put(parts.body, "x", Math.min(x(value), x(0)));
    put(parts.body, "width", Math.abs(x(value) - x(0)));
    put(parts.count, "text", rows(value));
    const middle = bar * LINE + 2 + LINE / 2;
    put(
      parts.whisker,
      "d",
      hasWhisker(answer)
        ? [answer.low, answer.high].map((end) => `M${x(end)} ${middle - 4}v8`).join("") +
            `M${x(answer.low)} ${middle}H${x(answer.high)}`
        : "",
    );
  });
}

function hasWhisker(answer) {
  return answer !== null && !Number.isNaN(answer.low + answer.high);
}

/** Mark whether a bar is chosen and whether it may as well be none, and say it.

    Words for the bars that nobody is at wait for the intervals: while someone drags they change too often to be heard. */
function describeBar(chart, bar) {
  const { group, body } = chart.bars[bar];
  const [answer, taken] = [chart.answers[bar], chart.chosen === null || chart.chosen[bar]];
  group.classList.toggle("off", !taken);
  group.classList.toggle("active", bar === chart.active);
  put(group, "aria-selected", String(chart.chosen !== null && taken));
  if (answer || bar === chart.active || !group.hasAttribute("aria-label"))
    put(group, "aria-label", wordsOfBar(chart, bar));
  const doubtful = answer !== null && isDoubtful(answer);
  if (group.classList.contains("doubtful") !== doubtful) {
    group.classList.toggle("doubtful", doubtful);
    if (doubtful) body.setAttribute("fill", chart.hatch);
    else body.removeAttribute("fill");
  }
  if (answer) Object.assign(group.dataset, { value: answer.value, low: answer.low, high: answer.high });
}

function wordsOfBar(chart, bar) {
  const [answer, value] = [chart.answers[bar], chart.values[bar]];
  return `${chart.labels[bar]}: ${rows(value)} rows${answer ? `, ${likely(answer)}${besides(answer)}` : ""}`;
}

function sayBar(chart, bar, asked = true) {
  if (asked) chart.speaking = true;
  if (chart.speaking) chart.said.textContent = wordsOfBar(chart, bar);
}

/** Let bars be chosen with a pointer or with keys. */
function choosing(chart, onChoose) {
  let from = null;
  const at = (event) => {
    const box = chart.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const step = (chart.width - MARGIN.left - MARGIN.right) / chart.labels.length;
    const bar = chart.upright ? Math.floor((x - MARGIN.left) / step) : Math.floor((y - 2) / LINE);
    return Math.min(Math.max(bar, 0), chart.labels.length - 1);
  };
  chart.svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    from = at(event);
    chart.before = chart.chosen;
    chart.svg.setPointerCapture(event.pointerId);
    moveTo(chart, from);
  });
  chart.svg.addEventListener("pointermove", (event) => {
    const bar = at(event);
    moveTo(chart, bar);
    if (from !== null && bar !== from)
      onChoose(between(chart, from, bar), event.ctrlKey || event.metaKey ? chart.before : null);
  });
  chart.svg.addEventListener("pointerup", (event) => {
    if (from !== null && at(event) === from) onChoose(...clicked(chart, from, event));
    from = null;
  });
  chart.svg.addEventListener("pointercancel", () => (from = null));
  chart.list.addEventListener("focus", () => moveTo(chart, chart.active));
  chart.list.addEventListener("keydown", (event) => keyed(chart, event, onChoose));
}

function between(chart, one, other) {
  return chart.labels.map((_, bar) => bar >= Math.min(one, other) && bar <= Math.max(one, other));
}

/** Return what a click chooses: this bar alone, or with Ctrl, Shift or as a touch one more or one less. */
function clicked(chart, bar, event) {
  const only = between(chart, bar, bar);
  const isOnly = chart.before?.every((taken, k) => taken === only[k]);
  if (isOnly) return [null, null];
  const adds = event.ctrlKey || event.metaKey || event.shiftKey || !chart.upright;
  return adds && chart.before ? [only, chart.before] : [only, null];
}

function moveTo(chart, bar) {
  chart.bars[chart.active].group.classList.remove("active");
  chart.active = bar;
  chart.bars[bar].group.classList.add("active");
  chart.list.setAttribute("aria-activedescendant", `bar-${chart.number}-${bar}`);
  sayBar(chart, bar);
}

function keyed(chart, event, onChoose) {
  const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity };
  if (event.key in steps) {
    const to = Math.min(Math.max(chart.active + steps[event.key], 0), chart.labels.length - 1);
    if (event.shiftKey) {
      chart.anchor ??= chart.active;
      onChoose(between(chart, chart.anchor, to), null);
    } else {
      chart.anchor = undefined;
    }
    moveTo(chart, to);
    if (!chart.upright) chart.bars[to].group.scrollIntoView({ block: "nearest" });
  } else if (event.key === " " || event.key === "Enter") {
    onChoose(between(chart, chart.active, chart.active), chart.chosen);
  } else if (event.key === "Escape") {
    onChoose(null, null);
  } else {
    return;
  }
  event.preventDefault();
}
