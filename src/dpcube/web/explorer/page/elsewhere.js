/* The selection as text, as a command, in Python and in SQL. */

import { conditionOnCells, conditionOnRange, sqlOnCells, sqlOnRange } from "./questions.js";
import { dayText, pythonText, shellWord } from "./questions.js";
import { runsOf } from "./shown.js";
import { byId, made } from "./drawing.js";
import { copyable } from "./saving.js";

const LONGEST_QUESTION = 10000;

function conditionsOf({ facts, edges }, chosen, onCells, onRange) {
  return facts.attributes
    .flatMap((attribute, axis) => {
      const of = chosen[axis];
      if (!of) return [];
      return [
        of.cells
          ? onCells(attribute, edges[axis], runsOf(of.cells), facts.keywords)
          : onRange(attribute, of.from, of.to, facts.keywords),
      ];
    })
    .join(" and ");
}

/** Return the SELECT that counts the selection. */
export function sqlOf(cube, chosen) {
  const where = conditionsOf(cube, chosen, sqlOnCells, sqlOnRange);
  return `SELECT count(*) FROM cube${where ? ` WHERE ${where}` : ""}`;
}

/** Show the query as a command, in Python and in SQL. */
export function showCommands(cube, chosen) {
  const { facts } = cube;
  const question = conditionsOf(cube, chosen, conditionOnCells, conditionOnRange);
  const sql = sqlOf(cube, chosen);
  const sure = facts.confidence === 0.95 ? "" : ` --confidence ${facts.confidence}`;
  const options = `${facts.estimate ? ` --estimate ${shellWord(facts.estimate)}` : ""}${sure}`;
  const keywords = [
    facts.estimate && `estimate=${pythonText(facts.estimate)}`,
    sure && `confidence=${facts.confidence}`,
  ];
  const inside = [question && pythonText(question), ...keywords].filter(Boolean).join(", ");
  byId("commands").replaceChildren(
    ...(question.length > LONGEST_QUESTION
      ? [made("p", {}, "This query is too long for a command; select fewer ranges of bars.")]
      : [
          copyable("In a terminal", `dpcube count ${facts.file}${question ? ` ${shellWord(question)}` : ""}${options}`),
          copyable("In Python", `dpcube.open(${pythonText(facts.path)}).count(${inside})`),
          copyable("In SQL", `dpcube sql ${facts.file} ${shellWord(sql)} --error${options}`),
        ]),
  );
}

/** Return the selection of an attribute as text, empty if there is none. */
export function wordsOf(cube, attribute, axis, chosen) {
  if (!chosen) return "";
  if (!chosen.cells) {
    const [from, to] = [chosen.from, chosen.to].map((end) => (attribute.scale === "day" ? dayText(end) : String(end)));
    return `${attribute.shown} is from ${from} to ${to}`;
  }
  const { labels, starts, stops } = attribute.drawn;
  const taken = labels.map((_, bar) => chosen.cells.slice(starts[bar], stops[bar]).includes(true));
  const runs = runsOf(taken).map(([first, last]) =>
    first === last || !attribute.ordered
      ? labels.slice(first, last + 1).join(" or ")
      : `${labels[first]} to ${labels[last]}`,
  );
  return `${attribute.shown} is ${runs.length > 6 ? `one of ${taken.filter(Boolean).length} values` : runs.join(" or ")}`;
}
