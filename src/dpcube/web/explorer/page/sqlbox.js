/* A box for SQL: a statement is run by Python, or by the engine inside the page; its result is a table and bars. */

import { asked, isServed } from "./source.js";
import { byId } from "./drawing.js";
import { sqlOf } from "./elsewhere.js";
import { sqlName } from "./questions.js";
import { runHere, stopHere } from "./ownsql.js";
import { resultOf } from "./results.js";

/** Show the box, and let it run what is written in it. */
export function sqlBox(page) {
  const [statement, said, run, stop] = ["statement", "sql-said", "run-sql", "stop-sql"].map(byId);
  const first = sqlName(page.cube.facts.attributes[0].name);
  statement.value = `SELECT ${first}, count(*) AS number FROM cube GROUP BY ${first} ORDER BY ${first}`;
  byId("sql").hidden = false;
  if (!isServed) byId("sql-hint").textContent = "Counts, sums and averages of the table cube, whose columns are the attributes.";
  run.onclick = () => runStatement(page, statement.value);
  stop.onclick = () => {
    said.textContent = "Stopping …";
    (isServed ? asked("stop") : stopHere()).catch((error) => (said.textContent = error.message));
  };
  byId("sql-chosen").onclick = () => {
    statement.value = sqlOf(page.cube, page.view.chosen);
    statement.focus();
  };
  statement.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) runStatement(page, statement.value);
  });
}

async function runStatement(page, query) {
  const [said, run, stop, result] = ["sql-said", "run-sql", "stop-sql", "sql-result"].map(byId);
  if (run.disabled) return;
  [run.disabled, stop.disabled] = [true, false];
  said.textContent = "Running …";
  said.classList.remove("refused");
  result.replaceChildren();
  delete said.dataset.done;
  try {
    const error = byId("sql-errors").checked;
    const told = isServed ? await (await asked("sql", { query, error })).json() : await runHere(page.cube, query, error);
    result.replaceChildren(resultOf(page.cube.facts.name, told));
    said.textContent = "Done.";
  } catch (error) {
    said.textContent = error.message;
    said.classList.add("refused");
  }
  said.dataset.done = "yes";
  [run.disabled, stop.disabled] = [false, true];
}
