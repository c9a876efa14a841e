/* The same question in other words: as `dpcube count` reads it, in Python and in SQL, each safe to paste.

   Names of attributes and categories may hold anything. In a question a name that is not plain goes in double quotes
   and text in single quotes, doubled inside; a shell is handed one word (`analyst/pasteable.py` does the same). */

const PLAIN_NAME = /^[\p{L}_][\p{L}\p{N}\p{M}_-]*$/u;
const PLAIN_SQL_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const PRINTABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]*$/u;
const SAFE_WORD = /^[A-Za-z0-9_@%+=:,./-]+$/;
const DAYS_BEFORE_1970 = 719163;

/** Return the condition that takes runs of whole cells [first, last] of an attribute, in the language of `count`. */
export function conditionOnCells(attribute, edges, runs, keywords) {
  const name = countName(attribute.name, keywords);
  return anyOf(runs.flatMap((run) => runConditions(attribute, edges, run, name)));
}

/** Return the same as SQL on the table `cube`. */
export function sqlOnCells(attribute, edges, runs) {
  const name = sqlName(attribute.name);
  return anyOf(runs.flatMap((run) => runConditions(attribute, edges, run, name)));
}

function anyOf(conditions) {
  return conditions.length > 1 ? `(${conditions.join(" or ")})` : conditions[0];
}

function runConditions({ scale, bins, step, texts, own }, edges, [first, last], name) {
  const conditions = [];
  const end = Math.min(last, bins - 1);
  if (first < bins && scale === "position") {
    const listed = texts.slice(first, end + 1).map(quotedText);
    conditions.push(listed.length > 1 ? `${name} in (${listed.join(", ")})` : `${name} = ${listed[0]}`);
  } else if (first < bins && step > 0) {
    conditions.push(between(scale, name, edges[first], edges[end + 1] - step));
  } else if (first < bins) {
    const [low, high] = [String(edges[first]), String(edges[end + 1])];
    const above = end === bins - 1 ? `${name} <= ${high}` : `${name} < ${high}`;
    conditions.push(`(${name} >= ${low} and ${above})`);
  }
  for (let cell = Math.max(first, bins); cell <= last; cell++) conditions.push(`${name} = '(${own[cell - bins]})'`);
  return conditions;
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

function sqlName(name) {
  return PLAIN_SQL_NAME.test(name) && name === name.toLowerCase() && !SQL_WORDS.has(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

const SQL_WORDS = new Set(
  ("all and any array as asc between by case cast check collate column count create cube current_date default desc " +
    "distinct else end exists except false for from full group having in inner intersect interval into is join left " +
    "like limit natural not null offset on or order outer over partition primary references right select some table " +
    "then to true union unique using values when where window with").split(" "),
);

export function quotedText(text) {
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
