/* The same question in other words: as `dpcube count` reads it, in Python and in SQL, each safe to paste.

   Names of attributes and categories may hold anything. In a question a name that is not plain goes in double quotes
   and text in single quotes, doubled inside; a shell is handed one word (`release/pasteable.py` does the same). */

const PLAIN_NAME = /^[\p{L}_][\p{L}\p{N}\p{M}_-]*$/u;
const PLAIN_SQL_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const PRINTABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]*$/u;
const SAFE_WORD = /^[A-Za-z0-9_@%+=:,./-]+$/;
const DAYS_BEFORE_1970 = 719163;

/** Return the condition that takes runs of whole cells [first, last] of an attribute, in the language of `count`. */
export function conditionOnCells(attribute, edges, runs, keywords) {
  return cellsCondition(attribute, edges, runs, countName(attribute.name, keywords));
}

/** Return the same as SQL on the table `cube`. */
export function sqlOnCells(attribute, edges, runs) {
  return cellsCondition(attribute, edges, runs, sqlName(attribute.name));
}

function cellsCondition(attribute, edges, runs, name) {
  const { scale, bins, texts, own } = attribute;
  const isListed = scale === "position";
  const listed = isListed ? runs.flatMap(([first, last]) => texts.slice(first, last + 1)) : [];
  const taken = (cell) => runs.some(([first, last]) => first <= cell && cell <= last);
  listed.push(...own.filter((_, k) => taken(bins + k)).map((irregular) => `(${irregular})`));
  const ranges = isListed ? [] : runs.filter(([first]) => first < bins);
  const conditions = ranges.map((run) => runCondition(attribute, edges, run, name));
  if (listed.length === 1) conditions.push(`${name} = ${quotedText(listed[0])}`);
  if (listed.length > 1) conditions.push(`${name} in (${listed.map(quotedText).join(", ")})`);
  return conditions.length > 1 ? `(${conditions.join(" or ")})` : conditions[0];
}

/** Return the condition of bins from the first to the last; of real numbers all but the last end before an edge. */
function runCondition({ scale, bins, step }, edges, [first, last], name) {
  const end = Math.min(last, bins - 1);
  if (step > 0) return between(scale, name, edges[first], edges[end + 1] - step);
  return `(${name} >= ${edges[first]} and ${name} ${end === bins - 1 ? "<=" : "<"} ${edges[end + 1]})`;
}

/** Return the condition that takes values from `low` to `high`, both included. */
export function conditionOnRange(attribute, low, high, keywords) {
  return between(attribute.scale, countName(attribute.name, keywords), low, high);
}

export function sqlOnRange(attribute, low, high) {
  return between(attribute.scale, sqlName(attribute.name), low, high);
}

function between(scale, name, low, high) {
  const [from, to] = [low, high].map((end) => (scale === "day" ? quotedText(dayText(end)) : String(end)));
  return from === to ? `${name} = ${from}` : `${name} between ${from} and ${to}`;
}

/** Return a day's ordinal as YYYY-MM-DD, and the ordinal of such a text (NaN if it is none). */
export function dayText(ordinal) {
  return new Date((ordinal - DAYS_BEFORE_1970) * 86400000).toISOString().slice(0, 10);
}

export function dayOrdinal(text) {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) / 86400000 + DAYS_BEFORE_1970 : NaN;
}

function countName(name, keywords) {
  const plain = PLAIN_NAME.test(name) && !keywords.includes(name.toLowerCase());
  return plain ? name : `"${name.replaceAll('"', '""')}"`;
}

/** Return the name of an attribute as SQL has it. */
export function sqlName(name) {
  return PLAIN_SQL_NAME.test(name) && name === name.toLowerCase() && !SQL_WORDS.has(name)
    ? name
    : `"${name.replaceAll('"', '""')}"`;
}

const SQL_WORDS = new Set(
  (
    "all and any array as asc between by case cast check collate column count create cube current_date default desc " +
    "distinct else end exists except false for from full group having in inner intersect interval into is join left " +
    "like limit natural not null offset on or order outer over partition primary references right select some table " +
    "then to true union unique using values when where window with"
  ).split(" "),
);

function quotedText(text) {
  return `'${text.replaceAll("'", "''")}'`;
}

/** Return text as one word of a shell; what cannot be seen is written out. */
export function shellWord(text) {
  if (!PRINTABLE.test(text)) return `$'${[...text].map(shellEscaped).join("")}'`;
  if (text.includes("'") && !/["$`\\!]/.test(text)) return `"${text}"`;
  return SAFE_WORD.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

function shellEscaped(character) {
  return /[\\']/.test(character) ? `\\${character}` : PRINTABLE.test(character) ? character : codeOf(character);
}

/** Return text as a literal of Python. */
export function pythonText(text) {
  const inside = [...text].map((c) => (/[\\"]/.test(c) ? `\\${c}` : PRINTABLE.test(c) ? c : codeOf(c))).join("");
  return `"${inside}"`;
}

function codeOf(character) {
  const code = character.codePointAt(0);
  const digits = (width) => code.toString(16).padStart(width, "0");
  return code < 128 ? `\\x${digits(2)}` : code < 65536 ? `\\u${digits(4)}` : `\\U${digits(8)}`;
}
