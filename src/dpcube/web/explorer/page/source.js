/* Where the page's contents come from: bytes that travel inside the page, or that the server behind it gives.

   That server lets in this page alone: it gave it a key, which every request needs. The key is kept for this origin and
   tab, so that a reload finds it again; the token in the address is used up, and need not be seen. */

const ARRAY_KINDS = { f8: Float64Array, i4: Int32Array };

const embedded = document.getElementById("contents").textContent.trim();
const key = embedded ? "" : keptKey();

/** Whether Python is behind this page. */
export const isServed = !embedded;

function keptKey() {
  const given = document.querySelector('meta[name="key"]').content;
  if (given) sessionStorage.setItem("key", given);
  history.replaceState(null, "", `/${location.hash}`);
  return sessionStorage.getItem("key") ?? "";
}

/** Ask the server for something and return its response; what it refuses is an Error with its words. */
export async function asked(action, request = {}) {
  let response;
  try {
    response = await fetch(`/do/${action}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Dpcube-Key": key },
      body: JSON.stringify(request),
    });
  } catch {
    throw new Error("The server has stopped; start dpcube explore again.");
  }
  if (!response.ok) throw new Error((await response.json()).error);
  return response;
}

/** Return {facts, arrays}: what `web/explorer/contents.py` packed. */
export async function loadContents() {
  return unpacked(
    await inflated(embedded ? bytesOfText(embedded) : new Uint8Array(await (await asked("contents")).arrayBuffer())),
  );
}

/** Return the bytes of text in base64. */
export function bytesOfText(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let k = 0; k < bytes.length; k++) bytes[k] = binary.charCodeAt(k);
  return bytes;
}

/** Return what was compressed by zlib. */
export async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

function unpacked(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const [name, [kind, at, size]] of Object.entries(head.arrays)) {
    arrays[name] = new ARRAY_KINDS[kind](buffer, 4 + length + at, size);
  }
  return { facts: head.facts, arrays };
}
