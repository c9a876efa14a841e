/* Synthetic rows: so many are asked of the server, and saved as CSV. */

import { asked } from "./source.js";
import { byId } from "./drawing.js";
import { fileName, saveFile } from "./saving.js";

/** Show the fields, and let rows be saved. */
export function syntheticBox(page) {
  const button = byId("draw-rows");
  byId("synthetic").hidden = false;
  button.onclick = async () => {
    button.disabled = true;
    byId("synthetic-said").textContent = "Drawing …";
    byId("synthetic-said").textContent = await drawnRows(page).catch((error) => error.message);
    button.disabled = false;
  };
}

async function drawnRows(page) {
  const [rows, seed] = ["synthetic-rows", "synthetic-seed"].map((id) => byId(id).value.replaceAll(/[, ]/g, ""));
  if (!/^\d{1,9}$/.test(rows) || !/^\d{0,15}$/.test(seed)) return "Rows and seed must be whole numbers.";
  const response = await asked("rows", { rows: Number(rows), seed: seed ? Number(seed) : null });
  saveFile(`${fileName(page.cube.facts.name, "synthetic")}.csv`, await response.blob(), "text/csv");
  return `Saved ${Number(rows).toLocaleString("en-US")} rows.`;
}
