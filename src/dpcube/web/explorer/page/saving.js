/* What is shown, as files: tables as CSV, pictures as SVG and PNG; and text to the clipboard. */

import { drawn, made } from "./drawing.js";

const STYLED = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "fill-opacity",
];

/** Return rows of values as CSV. Text that a spreadsheet would run as a formula gets an apostrophe before it (export.py). */
function csvOf(header, lines) {
  return [header, ...lines].map((line) => line.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function csvCell(value) {
  if (typeof value === "number") return Number.isNaN(value) ? "" : String(value);
  const text = /^[=+\-@\t\r]./s.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Return a picture by itself: the styles of the page written into a copy, with squares below it if there are any. */
function svgText(svg, squares = []) {
  const copy = svg.cloneNode(true);
  const [originals, copies] = [svg, copy].map((one) => [one, ...one.querySelectorAll("*")]);
  originals.forEach((original, k) => {
    const style = getComputedStyle(original);
    for (const name of STYLED) {
      if (name !== "fill" || !copies[k].getAttribute("fill")?.startsWith("url("))
        copies[k].setAttribute(name, style.getPropertyValue(name));
    }
    for (const name of ["class", "role", "tabindex", "aria-hidden", "aria-label", "aria-selected"])
      copies[k].removeAttribute(name);
  });
  const ground = drawn("rect", {
    width: "100%",
    height: "100%",
    fill: getComputedStyle(document.body).getPropertyValue("--surface").trim(),
  });
  copy.prepend(ground, ...squares);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}

/** Return an SVG as a PNG of twice its size. */
async function pngOf(text, width, height) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = made("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** Give a file to whoever looks at the page. */
export function saveFile(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = made("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** Return a name of a file made of words that any file system takes. */
export function fileName(...words) {
  return words
    .map(
      (word) =>
        word
          .replace(/[^\p{L}\p{N}._-]+/gu, "-")
          .replace(/^[-.]+|[-.]+$/g, "")
          .slice(0, 60) || "x",
    )
    .join("-");
}

/** Return buttons that save a table and, if it `has` one, a picture. `table` and `picture` are asked when they are pressed. */
export function saveButtons(words, table, picture, has = { picture: true }) {
  const button = (label, save) =>
    made(
      "button",
      { type: "button", className: "quiet", onclick: save, "aria-label": `Save ${words.join(" ")} as ${label}` },
      label,
    );
  const svg = () => {
    const { element, squares } = picture();
    return {
      text: svgText(element, squares),
      width: element.clientWidth || Number(element.getAttribute("width")),
      height: Number(element.getAttribute("height")),
    };
  };
  const pictures = () => [
    button("SVG", () => saveFile(`${fileName(...words)}.svg`, svg().text, "image/svg+xml")),
    button("PNG", async () => {
      const { text, width, height } = svg();
      saveFile(`${fileName(...words)}.png`, await pngOf(text, width, height), "image/png");
    }),
  ];
  return made(
    "span",
    { className: "saving" },
    button("CSV", () => saveFile(`${fileName(...words)}.csv`, csvOf(...table()), "text/csv")),
    ...(has.picture ? pictures() : []),
  );
}

/** Return a line of text with a button that copies it. */
export function copyable(label, text) {
  const code = made("code", {}, text);
  const button = made("button", { type: "button", className: "quiet", "aria-label": `Copy ${label}` }, "Copy");
  button.onclick = async () => {
    await copyText(text, code);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };
  return made("div", { className: "command" }, made("h3", {}, label), made("div", { className: "line" }, code, button));
}

/** Copy text, by the clipboard or, where a file may not use it, by what is selected. */
async function copyText(text, element) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    getSelection().selectAllChildren(element);
    document.execCommand("copy");
  }
}
