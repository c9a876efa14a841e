/* Where the page's contents come from: bytes that travel inside the page, or that a server beside it gives. */

const ARRAY_KINDS = { f8: Float64Array, i4: Int32Array };

/** Return {facts, arrays}: what `explore/contents.py` packed. */
export async function loadContents() {
  const embedded = document.getElementById("contents").textContent.trim();
  const compressed = embedded ? bytesOfText(embedded) : new Uint8Array(await (await fetch("contents")).arrayBuffer());
  return unpacked(await inflated(compressed));
}

function bytesOfText(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let k = 0; k < bytes.length; k++) bytes[k] = binary.charCodeAt(k);
  return bytes;
}

async function inflated(bytes) {
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
