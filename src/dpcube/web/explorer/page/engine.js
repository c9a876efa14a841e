/* DuckDB in the page: its worker is spoken to in its own messages; tables of two columns of numbers enter, numbers leave.

   The engine travels inside the page, compressed. It is unpacked when the first statement runs, and needs no network: its
   worker is a blob, and its program a data: address. Only doubles go to and fro, in Arrow's stream format: what is sent
   has the head that Python wrote for a batch of so many rows, and of what comes back every column is doubles. */

import { bytesOfText, inflated } from "./source.js";

const [SCHEMA, BATCH] = [1, 3];

/** Whether this page has an engine inside. */
export const hasEngine = Boolean(document.getElementById("engine")?.textContent.trim());

/** Start the engine and return {insert(name, x, y), query(sql), end()}. */
export async function startEngine({ envelope }) {
  const [script, program] = await Promise.all(["engine-worker", "engine"].map(unpackedPart));
  const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const { ask, refuseAll } = asking(worker);
  await ask("INSTANTIATE", [await dataAddress(program), null]);
  await ask("OPEN", { path: ":memory:" });
  const connection = await ask("CONNECT", null);
  return {
    query: async (sql) => columnsOf(await ask("RUN_QUERY", [connection, sql])),
    insert: (name, x, y) => {
      const stream = streamOf(envelope, x, y);
      return ask("INSERT_ARROW_FROM_IPC_STREAM", [connection, stream, { name, create: true }]);
    },
    end: () => {
      worker.terminate();
      refuseAll("The statement was stopped.");
    },
  };
}

async function unpackedPart(id) {
  return inflated(bytesOfText(document.getElementById(id).textContent.trim()));
}

function dataAddress(bytes) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    [reader.onload, reader.onerror] = [() => resolve(reader.result), () => reject(reader.error)];
    reader.readAsDataURL(new Blob([bytes], { type: "application/wasm" }));
  });
}

/** Return `ask`, which sends the worker a message and returns its answer, and `refuseAll`, which fails all pending messages. */
function asking(worker) {
  const waiting = new Map();
  let number = 0;
  worker.onmessage = ({ data }) => {
    const asked = waiting.get(data.requestId);
    if (!asked || data.type === "INSTANTIATE_PROGRESS") return;
    waiting.delete(data.requestId);
    if (data.type === "ERROR") asked.reject(new Error(data.data.message));
    else asked.resolve(data.data);
  };
  const refuseAll = (why) => waiting.forEach(({ reject }) => reject(new Error(why)));
  worker.onerror = (event) => refuseAll(event.message || "The engine did not start.");
  const ask = (type, data) =>
    new Promise((resolve, reject) => {
      waiting.set(++number, { resolve, reject });
      worker.postMessage({ messageId: number, type, data });
    });
  return { ask, refuseAll };
}

/** Return two columns as a stream of batches of equal size; the last is filled up with -1, which is no place. */
function streamOf({ schema, batch, rows }, x, y) {
  const [head, each] = [schema, batch].map(bytesOfText);
  const batches = Math.max(Math.ceil(x.length / rows), 1);
  const size = each.length + 16 * rows;
  const stream = new Uint8Array(head.length + batches * size + 8);
  stream.set(head);
  for (let k = 0; k < batches; k++) {
    const at = head.length + k * size;
    stream.set(each, at);
    [x, y].forEach((column, which) => {
      const part = new Float64Array(rows).fill(-1);
      part.set(column.subarray(k * rows, (k + 1) * rows));
      stream.set(new Uint8Array(part.buffer), at + each.length + 8 * rows * which);
    });
  }
  stream.set([255, 255, 255, 255, 0, 0, 0, 0], stream.length - 8);
  return stream;
}

/** Return the columns of a stream of batches, all of doubles: arrays of numbers and nulls. */
function columnsOf(stream) {
  const bytes = stream.slice();
  const view = new DataView(bytes.buffer);
  const columns = [];
  for (let at = bytes[0] === 65 ? 8 : 0; at + 8 <= bytes.length; ) {
    const length = view.getInt32(at + 4, true);
    if (view.getInt32(at, true) !== -1 || length <= 0) break;
    const message = tableAt(view, at + 8 + view.getInt32(at + 8, true));
    const body = at + 8 + length;
    const kind = message.byte(1);
    if (kind === BATCH) readBatch(view, message.table(2), body, columns);
    else if (kind !== SCHEMA) throw new Error("The engine returned an unknown format.");
    at = body + message.long(3);
  }
  return columns;
}

function readBatch(view, batch, body, columns) {
  const [rows, nodes, buffers] = [batch.long(0), batch.vector(1), batch.vector(2)];
  for (let column = 0; column < nodes.length; column++) {
    const nulls = Number(view.getBigInt64(nodes.at + 16 * column + 8, true));
    const [marks, data] = [0, 1].map((k) => body + Number(view.getBigInt64(buffers.at + 16 * (2 * column + k), true)));
    const numbers = (columns[column] ??= []);
    for (let row = 0; row < rows; row++) {
      const known = nulls === 0 || (view.getUint8(marks + (row >> 3)) >> (row & 7)) & 1;
      numbers.push(known ? view.getFloat64(data + 8 * row, true) : null);
    }
  }
}

/** Return the fields of a table of a flat buffer. */
function tableAt(view, at) {
  const fields = at - view.getInt32(at, true);
  const place = (field) => {
    const offset = 4 + 2 * field < view.getUint16(fields, true) ? view.getUint16(fields + 4 + 2 * field, true) : 0;
    return offset ? at + offset : 0;
  };
  const pointed = (field) => place(field) + view.getUint32(place(field), true);
  return {
    byte: (field) => (place(field) ? view.getUint8(place(field)) : 0),
    long: (field) => (place(field) ? Number(view.getBigInt64(place(field), true)) : 0),
    table: (field) => tableAt(view, pointed(field)),
    vector: (field) => ({ length: view.getUint32(pointed(field), true), at: pointed(field) + 4 }),
  };
}
