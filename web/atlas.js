// All layers × heads on one canvas: a small picture of each, or one color by what it does.
import { css, h, sizeCanvas } from "./dom.js";
import { canvasOf, inkOn, palette, rgb, shade } from "./colors.js";
import { pictureOf } from "./service.js";
import { largest, percent } from "./numbers.js";
import { isOff } from "./state.js";

export const MEASURES = [
  ["pattern", "pattern"],
  ["entropy", "entropy"],
  ["distance", "distance"],
  ["cls", "share to [CLS]"],
  ["sep", "share to [SEP]"],
  ["previous", "share to previous"],
  ["next", "share to next"],
  ["self", "share to itself"],
];

export function measureText(name, value) {
  if (name === "entropy") return `${value.toFixed(2)} nats`;
  if (name === "distance") return `${value.toFixed(2)} tokens`;
  return percent(value);
}

// A measure as a number from 0 to 1: shares as they are, entropy by its most (ln n), distance by the farthest head's.
function relative(data, name, value) {
  if (name === "entropy") return value / Math.log(Math.max(2, data.tokens.length));
  if (name === "distance") return value / (largest(data.summary.distance) || 1);
  return Math.sqrt(value);
}

// What colors the heads: values, each value's part of the palette (signed: from −1), and its text in a tile.
function measureOf(data, name) {
  const values = data.summary[name], isShare = name !== "entropy" && name !== "distance";
  const text = (value) => (isShare ? `${Math.round(100 * value)}` : value.toFixed(1));
  return values && { values, part: (value) => relative(data, name, value), text };
}

const MARGIN = 22, GAP = 3;

// `words` says what is known of a head.
export class AtlasCanvas {
  constructor({ onselect, onoff, words = headWords }) {
    this.onselect = onselect;
    this.onoff = onoff;
    this.words = words;
    this.canvas = h("canvas", {
      tabindex: "0",
      role: "application",
      class: "atlas-canvas",
      "aria-label": `All heads: arrow keys move between layers and heads, the head is shown beside${
        onoff ? "; x switches it off" : ""
      }`,
      onpointermove: (event) => this.hover(this.find(event)),
      onpointerleave: () => this.hover(null),
      onclick: (event) => {
        const at = this.find(event);
        if (at) this.onselect(...at);
      },
      onkeydown: (event) => this.key(event),
    });
    this.readout = h("p", { class: "readout", "aria-live": "polite" });
    this.element = h("div", { class: "atlas" }, this.canvas, this.readout);
    this.over = null;
  }

  show(data, { color, layer, head, off = "", measure = measureOf(data, color) }) {
    if (this.data !== data || this.theme !== css("--card")) this.pictures = null;
    Object.assign(this, { data, measure, layer, head, off, theme: css("--card") });
    if (this.over && !(data.layers.includes(this.over[0]) && this.over[1] <= data.heads)) this.over = null;
    this.draw();
  }

  draw() {
    const { data } = this, rows = data.layers.length, available = Math.max(200, this.element.clientWidth || 400);
    const tile = Math.max(12, Math.min(72, Math.floor((available - MARGIN) / data.heads) - GAP));
    this.tile = tile;
    const width = MARGIN + data.heads * (tile + GAP), height = MARGIN + rows * (tile + GAP);
    const context = sizeCanvas(this.canvas, width, height);
    context.clearRect(0, 0, width, height);
    context.fillStyle = css("--muted"), context.textAlign = "center", context.textBaseline = "middle";
    context.font = "11px ui-sans-serif, system-ui, sans-serif";
    const every = tile < 16 ? 2 : 1;
    for (let i = 0; i < data.heads; ++i)
      if (i % every === 0) context.fillText(i + 1, MARGIN + i * (tile + GAP) + tile / 2, MARGIN / 2);
    for (let r = 0; r < rows; ++r)
      context.fillText(data.layers[r], MARGIN / 2 - 2, MARGIN + r * (tile + GAP) + tile / 2);
    const { measure } = this, colors = palette(measure?.signed);
    if (!measure) this.pictures ??= this.sheet();
    const [accent, line, veil, warn] = ["--accent", "--line", "--veil", "--warn"].map(css);
    for (let r = 0; r < rows; ++r)
      for (let i = 0; i < data.heads; ++i) {
        const x = MARGIN + i * (tile + GAP), y = MARGIN + r * (tile + GAP),
          off = isOff(this.off, data.layers[r], i + 1);
        if (measure) {
          const value = measure.values[r * data.heads + i], at = shade(measure.part(value), measure.signed);
          context.fillStyle = rgb(colors, at), context.fillRect(x, y, tile, tile);
          if (tile >= 30) {
            context.fillStyle = inkOn(colors, at);
            context.fillText(measure.text(value), x + tile / 2, y + tile / 2);
          }
        } else {
          context.imageSmoothingEnabled = data.side > tile;
          context.drawImage(this.pictures, i * data.side, r * data.side, data.side, data.side, x, y, tile, tile);
        }
        if (off) {
          context.fillStyle = veil, context.fillRect(x, y, tile, tile);
          context.strokeStyle = warn, context.lineWidth = 2;
          context.beginPath(), context.moveTo(x + 3, y + 3), context.lineTo(x + tile - 3, y + tile - 3),
            context.moveTo(x + tile - 3, y + 3), context.lineTo(x + 3, y + tile - 3), context.stroke();
        }
        const chosen = data.layers[r] === this.layer && (this.head === i + 1 || this.head === "mean");
        const over = this.over && this.over[0] === data.layers[r] && this.over[1] === i + 1;
        context.lineWidth = chosen ? 2.5 : 1;
        context.strokeStyle = chosen || over ? accent : line;
        const o = chosen ? 0.5 : -0.5;
        context.strokeRect(x - o, y - o, tile + 2 * o, tile + 2 * o);
      }
    this.canvas.dataset.drawn = `${rows * data.heads}`;
    this.tell();
  }

  // All pictures in one, so that drawing the atlas is copying.
  sheet() {
    const { data } = this, side = data.side, sheet = document.createElement("canvas");
    sheet.width = side * data.heads, sheet.height = side * data.layers.length;
    const context = sheet.getContext("2d");
    data.layers.forEach((layer, r) => {
      for (let i = 0; i < data.heads; ++i)
        context.drawImage(canvasOf(pictureOf(data, layer, i + 1), side, side), i * side, r * side);
    });
    return sheet;
  }

  tell() {
    const at = this.over
      ?? (this.data.layers.includes(this.layer) && this.head !== "mean" ? [this.layer, this.head] : null);
    this.readout.textContent = at ? this.words(this.data, ...at) : "";
  }

  find(event) {
    const box = this.canvas.getBoundingClientRect(), step = this.tile + GAP;
    const i = Math.floor((event.clientX - box.left - MARGIN) / step),
      r = Math.floor((event.clientY - box.top - MARGIN) / step);
    return i >= 0 && i < this.data.heads && r >= 0 && r < this.data.layers.length ? [this.data.layers[r], i + 1] : null;
  }

  hover(at) {
    if (String(at) === String(this.over)) return;
    this.over = at;
    this.draw();
  }

  key(event) {
    const { data } = this, r = Math.max(0, data.layers.indexOf(this.layer)),
      i = this.head === "mean" ? 0 : this.head - 1;
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      PageUp: [-data.layers.length, 0], PageDown: [data.layers.length, 0], Home: [0, -data.heads],
      End: [0, data.heads] };
    if (moves[event.key]) {
      const clamp = (x, most) => Math.min(most - 1, Math.max(0, x));
      this.onselect(data.layers[clamp(r + moves[event.key][0], data.layers.length)],
        clamp(i + moves[event.key][1], data.heads) + 1);
    } else if (event.key === "x" && this.onoff) this.onoff(data.layers[r], i + 1);
    else return;
    event.preventDefault();
  }
}

export function headWords(data, layer, head) {
  const at = data.layers.indexOf(layer) * data.heads + head - 1, s = data.summary;
  return `Layer ${layer}, head ${head}: entropy ${s.entropy[at].toFixed(2)} nats, distance ${
    s.distance[at].toFixed(1)
  }; `
    + `to [CLS] ${percent(s.cls[at])}, [SEP] ${percent(s.sep[at])}, previous ${percent(s.previous[at])}, next ${
      percent(s.next[at])
    }, itself ${percent(s.self[at])}`;
}
