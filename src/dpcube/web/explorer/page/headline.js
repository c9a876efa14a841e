/* The headline: how many rows meet what is chosen, how far off that may be, and what part of it is what. */

import { byId, likely, made, rows } from "./drawing.js";
import { isDoubtful } from "./shown.js";

const OF_A_MODEL = "what a model of the counts may be off: these attributes were not all counted together";

/** Show the answer of the question; `words` are what is chosen, in words. */
export function showHeadline(answer, words, facts) {
  byId("question").textContent = words.length ? `Where ${words.join(", and ")}` : "All rows";
  byId("value").textContent = rows(answer.value);
  byId("between").textContent =
    likely(answer) + (Number.isNaN(answer.low + answer.high) ? "" : ` (${timesIn100(facts.confidence)})`);
  byId("doubtful").hidden = !isDoubtful(answer);
  byId("doubtful").textContent = "So few that it may be none at all.";
  byId("modelled").hidden = !answer.modelled;
  byId("parts").replaceChildren(partsOf(answer, facts));
  const { value, stderr, nonuniformity, low, high, reach } = answer;
  Object.assign(byId("answer").dataset, { value, stderr, nonuniformity, low, high, reach, modelled: answer.modelled ?? false });
}

function timesIn100(confidence) {
  return `right ${Number((100 * confidence).toPrecision(4))} times in 100`;
}

function partsOf({ stderr, nonuniformity, reach, deviations, modelled }, { model }) {
  const parts = [
    ["noise", deviations * stderr, "noise added for privacy", "±"],
    ["nonuniformity", deviations * nonuniformity, modelled ? OF_A_MODEL : "rows spread inside boxes that were counted as one", "±"],
    ["cut", reach, "rows of bins that the range cuts: it may hold none or all of them", "up to "],
  ].filter(([kind, size]) => (kind === "noise" || size !== 0) && !(model.kind === "cells" && kind !== "noise"));
  const most = Math.max(...parts.map(([, size]) => size || 0), 1e-9);
  const list = made("dl", { className: "parts" });
  for (const [kind, size, words, sign] of parts) {
    const bar = made("span", { className: `part ${kind}`, "aria-hidden": "true" });
    bar.style.width = `${(100 * (size || 0)) / most}%`;
    list.append(made("dt", {}, Number.isNaN(size) ? "unknown" : `${sign}${rows(size)}`), made("dd", {}, words, bar));
  }
  return made("div", {}, made("h3", {}, "How far off, and why"), list);
}

/** Show what is chosen as buttons that clear it. */
export function showChips(chips, onClear) {
  const buttons = chips.map(({ words, axis }) =>
    made(
      "button",
      { type: "button", className: "chip", onclick: () => onClear(axis), "aria-label": `Clear ${words}` },
      words,
      made("span", { "aria-hidden": "true" }, " ×"),
    ),
  );
  if (chips.length > 1)
    buttons.push(made("button", { type: "button", className: "quiet", onclick: () => onClear(null) }, "Clear all"));
  byId("chips").replaceChildren(...buttons);
}
