/* The page: contents are unpacked, charts made, and whatever is chosen is shown everywhere. */

import { isServed, loadContents } from "./source.js";
import { cubeOf, questionOf } from "./shown.js";
import { byId, inPieces, made } from "./drawing.js";
import { showChips, showHeadline } from "./headline.js";
import { hashOf, viewOf } from "./state.js";
import { attributeCard } from "./cards.js";
import { mapsOf, showMaps } from "./maps.js";
import { showCommands, wordsOf } from "./elsewhere.js";
import { remoteAsking } from "./remote.js";
import { hasEngine } from "./engine.js";
import { sqlBox } from "./sqlbox.js";
import { syntheticBox } from "./synthetic.js";

async function start() {
  let cube;
  try {
    cube = cubeOf(await loadContents());
  } catch (error) {
    byId("loading").textContent = error.message;
    return;
  }
  const page = { cube, view: viewOf(location.hash, cube), stop: () => {} };
  if (!cube.answer) page.ask = remoteAsking(page);
  page.show = () => showAll(page);
  page.lay = () => layAll(page);
  describeCube(cube);
  page.charts = cube.facts.attributes.map((attribute, axis) => attributeCard(page, attribute, axis));
  page.maps = cube.shape.length > 1 ? mapsOf(page) : [];
  byId("map").hidden = page.maps.length === 0;
  themeSwitch(page);
  if (isServed || hasEngine) sqlBox(page);
  if (isServed) syntheticBox(page);
  byId("loading").remove();
  byId("page").hidden = false;
  layAll(page);
  window.addEventListener("resize", () => fitAll(page));
  readyForPrint(page);
  window.addEventListener("hashchange", ({ newURL }) => {
    page.view = viewOf(new URL(newURL).hash, cube);
    showAll(page);
  });
}

function layAll(page) {
  showAll(page);
  fitAll(page);
}

/** Fit all that is shown to the width there is. */
function fitAll(page) {
  page.charts.forEach((chart) => chart.lay());
  page.maps.forEach((map) => map.lay());
}

/** Paper is light and narrow, whatever the screen is. */
function readyForPrint(page) {
  const root = document.documentElement;
  let theme;
  window.addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    root.classList.add("printing");
    fitAll(page);
  });
  window.addEventListener("afterprint", () => {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    root.classList.remove("printing");
    fitAll(page);
  });
}

/** Show what is chosen: counts at once, their intervals as soon as they are worked out. */
function showAll(page) {
  const begun = performance.now();
  page.stop();
  delete document.body.dataset.told;
  const { cube, view } = page;
  const question = questionOf(cube, view.chosen);
  const words = cube.facts.attributes.map((attribute, axis) => wordsOf(cube, attribute, axis, view.chosen[axis]));
  const told = () => {
    document.body.dataset.told = "yes";
    performance.measure("told", { start: begun });
  };
  if (page.ask) page.ask(question, words.filter(Boolean), told);
  else page.stop = inPieces([...workedOut(page, question, words.filter(Boolean)), told]);
  showChips(
    words.flatMap((said, axis) => (said ? [{ words: said, axis }] : [])),
    (axis) => clear(page, axis),
  );
  showCommands(cube, view.chosen);
  page.hash = hashOf(view);
  clearTimeout(page.saving);
  page.saving = setTimeout(() => history.replaceState(null, "", page.hash), 200); // browsers limit how often
  performance.measure("shown", { start: begun });
}

/** Show the counts of a cube that is held here, and return the jobs that work out their intervals. */
function workedOut(page, question, words) {
  const { cube } = page;
  const weights = question.map((along) => along.weights);
  const marginals = cube.tables.everyMarginal(weights);
  const value = marginals[0].reduce((sum, count, cell) => sum + count * weights[0][cell], 0);
  const jobs = page.charts.flatMap((chart, axis) => chart.update(question, marginals[axis]));
  jobs.push(...showMaps(page, question, weights));
  showHeadline(cube.answer(question, value), words, cube.facts);
  return jobs;
}

function clear(page, axis) {
  page.view.chosen = page.view.chosen.map((of, k) => (axis === null || k === axis ? null : of));
  showAll(page);
}

/** Describe the cube, its privacy guarantee, and how to read the page. */
function describeCube({ facts }) {
  const { made: by, attributes, cells } = facts;
  byId("title").textContent = facts.name;
  byId("lead").textContent =
    `A differentially private cube of ${attributes.length} attribute${attributes.length > 1 ? "s" : ""}. ` +
    "Every count is an estimate with a confidence interval; the page contains no row of the table.";
  byId("legend").textContent =
    "Bars: estimated rows. Whiskers: confidence intervals. Hatched: so few that there may be none at all.";
  byId("stamp").hidden = by.private;
  byId("stamp").textContent = "NOT PRIVATE: an experiment with noise from a seed.";
  const odds = Number(Math.exp(Math.min(by.epsilon, 50)).toPrecision(3)).toLocaleString("en-US");
  const boxes = by.boxes ? `, ${by.boxes.toLocaleString("en-US")} boxes` : "";
  byId("told").append(
    made(
      "p",
      {},
      `${cells} cells were published with epsilon ${Number(by.epsilon.toPrecision(6))}, `,
      `which protects ${by.protects}: `,
      `any conclusion from this page is at most ${odds} times as likely as it would be without `,
      `${by.protects}. Queries cost no further privacy.`,
    ),
    made(
      "p",
      {},
      "“Likely between a and b” is a confidence interval of ",
      `${Number((100 * facts.confidence).toPrecision(4))}%. `,
      "The error has up to three parts: noise added for privacy; rows taken to be spread evenly inside a box of cells ",
      "that were counted as one; and, where a range cuts a bin, any of that bin's rows.",
    ),
    made(
      "p",
      { className: "small" },
      `Strategy ${by.strategy}${boxes}; made by ${by.library}${by.period ? `; period ${by.period}` : ""}. `,
      `Release ${by.digest}.`,
    ),
  );
}

function themeSwitch(page) {
  const button = byId("theme");
  const isDark = () =>
    (document.documentElement.dataset.theme ??
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const named = () => (button.textContent = isDark() ? "Light" : "Dark");
  button.onclick = () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    named();
    fitAll(page);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (named(), fitAll(page)));
  named();
}

start();
