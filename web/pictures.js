// Pictures to keep: what is on the page as SVG or PNG, and all weights as JSON.
import { download } from "./dom.js";
import { palette, rgb } from "./colors.js";
import { bytesOf } from "./heat.js";
import { exact } from "./numbers.js";

const escape = (text) =>
  String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "").replace(/[&<>"']/g, (c) =>
    `&#${c.charCodeAt(0)};`);
const MOST_CELLS = 10000; // that say their values, too

export function heatSvg(view, { scale, signed, title }) {
  const cell = Math.max(4, Math.min(24, Math.floor(900 / view.n))), bytes = bytesOf(view, scale, signed),
    colors = palette(signed);
  const margin = cell >= 9 ? 12 + 7 * Math.min(16, Math.max(...view.labels.map((l) => l.length))) : 10, head = 34,
    size = cell * view.n;
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  const paper = getComputedStyle(document.documentElement).getPropertyValue("--card").trim();
  const out = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${margin + size + 10}" height="${
      head + margin + size + 10
    }" font-family="sans-serif" font-size="${Math.min(12, cell)}">`,
    `<rect width="100%" height="100%" fill="${escape(paper)}"/>`,
    `<text x="10" y="20" font-size="14" fill="${escape(ink)}">${escape(title)}</text>`,
    `<g fill="${escape(ink)}">`,
  ];
  if (cell >= 9)
    view.labels.forEach((label, i) => {
      const text = escape(label.length > 16 ? `${label.slice(0, 15)}…` : label), at = (i + 0.5) * cell;
      out.push(
        `<text x="${margin - 5}" y="${
          head + margin + at
        }" text-anchor="end" dominant-baseline="central">${text}</text>`,
        `<text transform="translate(${margin + at},${
          head + margin - 5
        }) rotate(-90)" dominant-baseline="central">${text}</text>`,
      );
    });
  out.push("</g>");
  for (let i = 0; i < view.n; ++i)
    for (let j = 0; j < view.n; ++j) {
      const at = i * view.n + j;
      if (view.n * view.n > MOST_CELLS && bytes[at] === (signed ? 128 : 0)) continue;
      const box = `<rect x="${margin + j * cell}" y="${
        head + margin + i * cell
      }" width="${cell}" height="${cell}" fill="${rgb(colors, bytes[at])}"`;
      out.push(
        view.n * view.n > MOST_CELLS
          ? `${box}/>`
          : `${box}><title>${escape(view.labels[i])} → ${escape(view.labels[j])}: ${
            exact(view.weights[at])
          }</title></rect>`,
      );
    }
  return `${out.join("\n")}\n</svg>\n`;
}

export function saveSvg(name, view, options) {
  download(`${name}.svg`, new Blob([heatSvg(view, options)], { type: "image/svg+xml" }));
}

export function savePng(name, canvas) {
  const paper = document.createElement("canvas");
  paper.width = canvas.width, paper.height = canvas.height;
  const context = paper.getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--card").trim();
  context.fillRect(0, 0, paper.width, paper.height);
  context.drawImage(canvas, 0, 0);
  paper.toBlob((blob) => blob && download(`${name}.png`, blob));
}

export function saveJson(name, view) {
  const rows = Array.from({ length: view.n }, (_, i) => [...view.weights.subarray(i * view.n, (i + 1) * view.n)]);
  download(`${name}.json`,
    new Blob([JSON.stringify({ tokens: view.labels, weights: rows })], { type: "application/json" }));
}
