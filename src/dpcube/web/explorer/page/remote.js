/* A cube that is not held here: the server is asked for every count, the headline first, then chart after chart.

   While one request is out the next waits, and only what is chosen last is asked for: dragging does not queue up. */

import { asked } from "./source.js";
import { byId } from "./drawing.js";
import { showHeadline } from "./headline.js";
import { MAX_MARKED, nameMap, showToldMap, showToldNoisy } from "./maps.js";
import { askedOf } from "./state.js";

/** Return a function that has everything shown of a question, in words, and then calls `told`. */
export function remoteAsking(page) {
  let [wanted, busy] = [null, false];
  return async (question, words, told) => {
    page.charts.forEach((chart) => chart.choose(question));
    if (page.maps.length) nameMap(page);
    byId("question").textContent = words.length ? `Where ${words.join(", and ")}` : "All rows";
    byId("page").classList.add("asking");
    wanted = { question, words, told, asked: askedOf(page.view.chosen), begun: performance.now() };
    if (busy) return;
    busy = true;
    while (wanted) {
      const now = wanted;
      wanted = null;
      await answered(page, now, () => wanted !== null);
    }
    busy = false;
  };
}

async function answered(page, { question, words, told, asked: of, begun }, isLate) {
  try {
    const { answer } = await toldBy("headline", { asked: of });
    showHeadline(knownAnswer(answer), words, page.cube.facts);
    byId("page").classList.remove("asking");
    performance.measure("headline", { start: begun });
    if (!isLate()) await askedCounts(page, question, of, isLate);
    performance.measure("counts", { start: begun });
    for (const [axis, chart] of page.charts.entries()) {
      if (isLate()) return;
      chart.told(question, answersOf((await toldBy("bars", { asked: of, axis })).answers));
    }
    if (await askedMap(page, question, of, isLate)) told();
  } catch (error) {
    byId("between").textContent = error.message;
    byId("page").classList.remove("asking");
  }
}

/** Show the values that are told at once, if there are any; their intervals come later. */
async function askedCounts(page, question, of, isLate) {
  const { across, up } = page.view;
  const { bars, squares } = await toldBy("counts", { asked: of, across, up });
  if (isLate()) return;
  bars?.forEach((values, axis) => page.charts[axis].values(question, values));
  if (squares) showToldMap(page, question, squares);
  if (page.maps.length > 0) await askedNoisy(page, question, of, isLate);
}

/** Show the noisy counts beside the map, if they are wanted. */
async function askedNoisy(page, question, of, isLate) {
  const { across, up, noisy } = page.view;
  const wanted = noisy && page.cube.hasNoisy;
  const { squares } = wanted ? await toldBy("noisy", { asked: of, across, up }) : { squares: null };
  if (!isLate()) showToldNoisy(page, question, squares);
}

/** Show the map with its intervals, a few columns at a time; return whether it is still wanted. */
async function askedMap(page, question, of, isLate) {
  const { across, up } = page.view;
  const [columns, lines] = [across, up].map((axis) => page.cube.facts.attributes[axis]?.drawn.labels.length);
  const answers = [];
  const tooMany = page.maps.length > 0 && columns * lines > MAX_MARKED;
  if (tooMany) byId("map-said").textContent = "This map has too many squares; choose attributes with fewer bins.";
  for (let first = 0; page.maps.length > 0 && !tooMany && first < columns; ) {
    if (isLate()) return false;
    const part = await toldBy("squares", { asked: of, across, up, first });
    answers.push(...answersOf(part.answers));
    first += part.columns;
  }
  if (isLate()) return false;
  if (answers.length > 0) showToldMap(page, question, answers.map(({ value }) => value), answers);
  return true;
}

async function toldBy(action, request) {
  return (await asked(action, request)).json();
}

/** Return columns of numbers as a list of answers. */
function answersOf(columns) {
  const names = Object.keys(columns);
  return columns.value.map((_, place) => knownAnswer(Object.fromEntries(names.map((name) => [name, columns[name][place]]))));
}

function knownAnswer(answer) {
  return Object.fromEntries(Object.entries(answer).map(([name, number]) => [name, number ?? NaN]));
}
