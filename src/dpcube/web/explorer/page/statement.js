/* Statements that this page reads by itself: one SELECT on `cube`, grouped by attributes, of counts, sums and averages.

   What they mean is told in docs/guides/sql.md. A statement is taken apart here and written anew for the engine: nothing that
   somebody typed reaches it but numbers, signs and the few words listed below. What is not read is refused, never guessed. */

import { dayOrdinal } from "./questions.js";
import { takesAll, takesCells, takesRange } from "./weights.js";

const TOKEN =
  /\s+|--[^\n]*|('(?:[^']|'')*')|("(?:[^"]|"")+")|(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)|([\p{L}_][\p{L}\p{N}_]*)|(<=|>=|<>|!=|[-+*/%(),.<>=;])/uy;
const KINDS = ["text", "name", "number", "word", "sign"];
const CLAUSES = ["SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT"];
const WORDS = new Set("AND OR NOT IS NULL BETWEEN CASE WHEN THEN ELSE END ASC DESC NULLS FIRST LAST ABS ROUND FLOOR CEIL SQRT LN EXP COALESCE NULLIF GREATEST LEAST".split(" "));
const SUMMED = ["COUNT", "SUM", "AVG"];
const LONGEST = 10000;

/** Return what a statement asks: items, keys, a question, and the parts that the engine is given; else an Error. */
export function readStatement(text, cube) {
  if (text.length > LONGEST) throw new Error(`A statement may have at most ${LONGEST} characters on this page.`);
  const clauses = clausesOf(tokensOf(text));
  const items = splitAt(clauses.SELECT, ",").map((tokens) => itemOf(tokens, cube));
  const keys = keysOf(clauses.GROUP, items, cube);
  if (!items.some(({ summed }) => summed)) refuse("A release has no rows to list: use aggregates, as in SELECT count(*) FROM cube");
  items.forEach(({ axis, name }) => axis === undefined || keys.includes(axis) || refuse(`${name} must be in GROUP BY or inside an aggregate`));
  const known = { cube, items, keys };
  return {
    items,
    keys,
    question: questionOf(clauses.WHERE, cube),
    having: clauses.HAVING && written(clauses.HAVING, { ...known, keys: [] }),
    order: clauses.ORDER && written(clauses.ORDER, known),
    limit: clauses.LIMIT && limitOf(clauses.LIMIT),
    summed: [...new Set(items.concat(itemsOf(clauses.HAVING, cube), itemsOf(clauses.ORDER, cube)).flatMap(({ of }) => of))],
  };
}

function refuse(why) {
  throw new Error(`${why}. This page supports SELECT ... FROM cube WHERE ... GROUP BY ... with count, sum and avg; dpcube sql supports more.`);
}

function tokensOf(text) {
  const tokens = [];
  for (TOKEN.lastIndex = 0; TOKEN.lastIndex < text.length; ) {
    const at = TOKEN.lastIndex;
    const found = TOKEN.exec(text);
    if (!found) refuse(`Not supported: ${text.slice(at, at + 20)}`);
    const kind = found.slice(1).findIndex((part) => part !== undefined);
    if (kind >= 0) tokens.push({ kind: KINDS[kind], text: found[0], upper: found[0].toUpperCase(), at });
  }
  while (tokens.at(-1)?.text === ";") tokens.pop();
  return tokens;
}

const isWord = (token, word) => token?.kind === "word" && token.upper === word;
const isSign = (token, sign) => token?.kind === "sign" && token.text === sign;

/** Return the tokens of each clause; each stands once, in order. */
function clausesOf(tokens) {
  const clauses = {};
  let [now, last] = [null, -1];
  for (let k = 0; k < tokens.length; k++) {
    const place = tokens[k].kind === "word" ? CLAUSES.indexOf(tokens[k].upper) : -1;
    if (place < 0) {
      if (now === null) refuse("A statement must begin with SELECT");
      clauses[now].push(tokens[k]);
      continue;
    }
    if (place <= last) refuse(`${tokens[k].upper} is in the wrong place, or occurs twice`);
    [now, last] = [CLAUSES[place], place];
    clauses[now] = [];
    if (["GROUP", "ORDER"].includes(now) && !isWord(tokens[++k], "BY")) refuse(`${now} must be followed by BY`);
  }
  const from = clauses.FROM ?? [];
  if (!clauses.SELECT || from.length !== 1 || from[0].upper !== "CUBE") refuse("The only table is cube");
  return clauses;
}

function splitAt(tokens, sign) {
  const parts = [[]];
  let depth = 0;
  for (const token of tokens ?? []) {
    depth += isSign(token, "(") ? 1 : isSign(token, ")") ? -1 : 0;
    if (depth === 0 && isSign(token, sign)) parts.push([]);
    else parts.at(-1).push(token);
  }
  if (parts.some((part) => part.length === 0)) refuse("An expression is missing beside a comma");
  return parts;
}

/** Return the number of the attribute that a token names, or undefined. */
function axisOf(token, { facts }) {
  if (token?.kind !== "word" && token?.kind !== "name") return undefined;
  const name = plainName(token);
  const names = facts.attributes.map((attribute) => attribute.name);
  if (names.includes(name)) return names.indexOf(name);
  const alike = names.filter((one) => one.toLowerCase() === name.toLowerCase());
  return alike.length === 1 ? names.indexOf(alike[0]) : undefined;
}

function plainName({ kind, text }) {
  return kind === "name" ? text.slice(1, -1).replaceAll('""', '"') : text;
}

/** Return a column of the result: an attribute, or an expression of sums, and what it is called. */
function itemOf(tokens, cube) {
  let [body, name] = [tokens, null];
  const as = tokens.length > 2 && isWord(tokens.at(-2), "AS");
  if (as) [body, name] = [tokens.slice(0, -2), plainName(tokens.at(-1))];
  if (as && !["word", "name"].includes(tokens.at(-1).kind)) refuse("AS must be followed by a name");
  const axis = body.length === 1 ? axisOf(body[0], cube) : undefined;
  if (axis !== undefined) return { axis, name: name ?? cube.facts.attributes[axis].name, of: [], summed: false };
  const { summed, of } = itemsOf(body, cube)[0];
  if (!summed) refuse(`Not supported: ${body.map(({ text }) => text).join(" ").slice(0, 60)}`);
  return { body, name: name ?? body.map(({ text }) => text).join(""), of, summed, isCount: body.length === 4 && isWord(body[0], "COUNT") && isSign(body[2], "*") };
}

/** Return which attributes are summed in some tokens, and whether anything is. */
function itemsOf(tokens, cube) {
  const of = [];
  let summed = false;
  (tokens ?? []).forEach((token, k) => {
    if (!SUMMED.includes(token.upper) || token.kind !== "word" || !isSign(tokens[k + 1], "(")) return;
    summed = true;
    const axis = axisOf(tokens[k + 2], cube);
    if (axis !== undefined) of.push(axis);
  });
  return [{ summed, of }];
}

function keysOf(tokens, items, cube) {
  if (!tokens) return [];
  if (tokens.length === 1 && isWord(tokens[0], "ALL")) return [...new Set(items.flatMap(({ axis }) => (axis === undefined ? [] : [axis])))];
  const keys = splitAt(tokens, ",").map(([token, more]) => {
    const named = token.kind === "number" ? items[Number(token.text) - 1] : items.find(({ name }) => name === plainName(token));
    const axis = axisOf(token, cube) ?? named?.axis;
    if (more || axis === undefined) refuse("GROUP BY must be followed by attributes");
    return axis;
  });
  return [...new Set(keys)];
}

function limitOf(tokens) {
  if (tokens.length !== 1 || !/^\d{1,9}$/.test(tokens[0].text)) refuse("LIMIT must be followed by a whole number");
  return tokens[0].text;
}

/** Return tokens as the engine reads them: sums of weights, columns by number, and nothing that is not known. */
export function written(tokens, { cube, items, keys }) {
  const made = [];
  for (let k = 0; k < tokens.length; k++) {
    const token = tokens[k];
    if (token.kind === "word" && SUMMED.includes(token.upper) && isSign(tokens[k + 1], "(")) {
      made.push(sumOf(token.upper, tokens[k + 2], cube));
      if (!isSign(tokens[k + 3], ")")) refuse(`${token.upper} takes ${token.upper === "COUNT" ? "* or " : ""}an attribute`);
      k += 3;
    } else made.push(wordOf(token, { cube, items, keys }));
  }
  return made.join(" ");
}

function sumOf(word, token, cube) {
  if (isSign(token, "*") && word === "COUNT") return "coalesce(sum(w), 0)";
  const axis = axisOf(token, cube);
  if (axis === undefined) refuse(`${word} takes an attribute`);
  if (word === "COUNT") return `coalesce(sum(CASE WHEN k${axis} IS NOT NULL THEN w END), 0)`;
  if (cube.facts.attributes[axis].scale !== "number") refuse(`${word} takes numbers`);
  const [sum, rows] = [`sum(w * n${axis})`, `sum(CASE WHEN n${axis} IS NOT NULL THEN w END)`];
  return word === "SUM" ? sum : `(CASE WHEN ${rows} > 0 THEN ${sum} / ${rows} END)`;
}

function wordOf(token, { cube, items, keys }) {
  if (token.kind === "number" || (token.kind === "sign" && token.text !== ";" && token.text !== ".")) return token.text;
  const place = ["word", "name"].includes(token.kind) ? items.findIndex(({ name }) => name === plainName(token)) : -1;
  if (place >= 0 && items[place].summed) return `c${place}`;
  const axis = axisOf(token, cube) ?? items[place]?.axis;
  if (axis !== undefined && keys.includes(axis)) return `k${axis}`;
  if (token.kind !== "word" || !WORDS.has(token.upper)) refuse(`Not supported: ${token.text.slice(0, 40)}`);
  return token.upper;
}

/** Return the question of WHERE: conditions on single attributes, joined by AND. */
function questionOf(tokens, cube) {
  const taken = cube.shape.map(() => ({ from: -Infinity, to: Infinity, masks: [], ranged: false, asked: false }));
  for (let at = 0; tokens && at < tokens.length; ) at = readCondition(tokens, at, taken, cube);
  return taken.map((of, axis) => weightsOf(of, axis, cube));
}

function readCondition(tokens, start, taken, cube) {
  let at = start;
  if (start > 0 && !isWord(tokens[at++], "AND")) refuse("Conditions must be of single attributes, joined by AND");
  const axis = axisOf(tokens[at++], cube);
  if (axis === undefined) refuse("A condition must begin with an attribute");
  const [of, attribute] = [taken[axis], cube.facts.attributes[axis]];
  const value = () => {
    if (isWord(tokens[at], "DATE") && tokens[at + 1]?.kind === "text") at++;
    const sign = isSign(tokens[at], "-") ? (at++, -1) : 1;
    return literalOf(tokens[at++], sign, attribute);
  };
  of.asked = true;
  const sign = tokens[at++];
  if (isWord(sign, "BETWEEN")) {
    const low = value();
    if (!isWord(tokens[at++], "AND")) refuse("BETWEEN needs two ends joined by AND");
    narrow(of, attribute, ">=", low, cube.edges[axis]);
    narrow(of, attribute, "<=", value(), cube.edges[axis]);
  } else if (isWord(sign, "IN") && isSign(tokens[at], "(")) {
    const cells = new Array(cube.shape[axis]).fill(false);
    do {
      at++;
      cells[cellOf(value(), attribute)] = true;
    } while (isSign(tokens[at], ","));
    if (!isSign(tokens[at++], ")")) refuse("IN must be followed by a list");
    of.masks.push(cells);
  } else if (isWord(sign, "IS") && isWord(tokens[at], "NULL")) {
    at++;
    of.masks.push(Array.from({ length: cube.shape[axis] }, (_, cell) => attribute.own[cell - attribute.bins] === "null"));
  } else if (sign?.kind === "sign" && ["=", "<", "<=", ">", ">="].includes(sign.text)) narrow(of, attribute, sign.text, value(), cube.edges[axis]);
  else refuse("The conditions are = < <= > >= BETWEEN IN and IS NULL");
  return at;
}

function literalOf(token, sign, attribute) {
  const text = token?.kind === "text" ? token.text.slice(1, -1).replaceAll("''", "'") : null;
  const own = text === null ? -1 : attribute.own.findIndex((kind) => text === `(${kind})`);
  if (own >= 0) return { cell: attribute.bins + own };
  const number = token?.kind === "number" ? sign * Number(token.text) : attribute.scale === "day" && text ? dayOrdinal(text) : NaN;
  if (attribute.scale === "position") {
    const cell = text === null ? -1 : attribute.texts.indexOf(text);
    if (cell < 0) refuse(`${attribute.shown} has no such value`);
    return { cell };
  }
  if (!Number.isFinite(number) || (attribute.scale === "day") !== (text !== null)) refuse(`${attribute.shown} can only be compared with ${attribute.scale === "day" ? "days, such as '2026-01-31'" : "numbers"}`);
  return { number };
}

function cellOf({ cell }, attribute) {
  if (cell === undefined) refuse(`IN is for categories; use BETWEEN for ${attribute.shown}`);
  return cell;
}

/** Narrow what is taken of an attribute by one comparison. */
function narrow(of, attribute, sign, { cell, number }, edges) {
  if (cell !== undefined) {
    if (sign !== "=") refuse(`${attribute.shown} can only be compared by = on this page`);
    of.masks.push(Array.from({ length: attribute.bins + attribute.own.length }, (_, k) => k === cell));
    return;
  }
  of.ranged = true;
  if (attribute.step === 0 && sign === "<" && edges.includes(number)) {
    of.masks.push(Array.from({ length: attribute.bins + attribute.own.length }, (_, k) => k < edges.indexOf(number)));
    return;
  }
  if (attribute.step === 0 && ["<", ">", "="].includes(sign)) refuse(`${sign} is not supported for real numbers: use <= or >=, or < at the edge of a bin`);
  const whole = attribute.step > 0;
  if (sign !== "<" && sign !== "<=") of.from = Math.max(of.from, sign === ">" ? Math.floor(number) + 1 : whole ? Math.ceil(number) : number);
  if (sign !== ">" && sign !== ">=") of.to = Math.min(of.to, sign === "<" ? Math.ceil(number) - 1 : whole ? Math.floor(number) : number);
}

function weightsOf({ from, to, masks, ranged, asked }, axis, { facts, shape, edges }) {
  if (!asked) return takesAll(shape[axis]);
  const attribute = facts.attributes[axis];
  const [first, last] = [edges[axis][0], edges[axis].at(-1) - attribute.step];
  const [low, high] = [Math.max(from, first), Math.min(to, last)];
  const nothing = low > high && ranged;
  const none = nothing ? takesCells(new Array(shape[axis]).fill(false)) : null;
  const ranges = none ?? (ranged ? takesRange(attribute, edges[axis], low, high) : takesAll(shape[axis]));
  const isIn = (cell) => masks.every((mask) => mask[cell]);
  const weights = ranges.weights.map((weight, cell) => (isIn(cell) ? weight : 0));
  const parts = ranges.parts?.map((part, cell) => (isIn(cell) ? part : 0));
  return { weights, parts: parts?.includes(1) ? parts : null, asked: true };
}
