/* A box for SQL: a statement is run by Python, and its result shown as a table and as bars. */

import { asked } from "./source.js";
import { byId } from "./drawing.js";
import { sqlOf } from "./elsewhere.js";
import { sqlName } from "./questions.js";
import { resultOf } from "./results.js";

/** Show the box, and let it run what is written in it. */
export function sqlBox(page) {
  const [statement, said, run, stop] = ["statement", "sql-said", "run-sql", "stop-sql"].map(byId);
  const first = sqlName(page.cube.facts.attributes[0].name);
  statement.value = `SELECT ${first}, count(*) AS number FROM cube GROUP BY ${first} ORDER BY ${first}`;
  byId("sql").hidden = false;
  run.onclick = () => runStatement(page, statement.value);
  stop.onclick = () => {
    said.textContent = "Stopping …";
    asked("stop").catch((error) => (said.textContent = error.message));
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
    const told = await (await asked("sql", { query, error: byId("sql-errors").checked })).json();
    result.replaceChildren(resultOf(page.cube.facts.name, told));
    said.textContent = "Done.";
  } catch (error) {
    said.textContent = error.message;
    said.classList.add("refused");
  }
  said.dataset.done = "yes";
  [run.disabled, stop.disabled] = [false, true];
}
