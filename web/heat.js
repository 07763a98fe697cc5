// One head, large: every token (row) by every token (column), with exact values under the pointer or the cursor.
import { append, css, h, sizeCanvas } from "./dom.js";
import { canvasOf, palette, rgb, shade } from "./colors.js";
import { exact, largest, percent, placedLabels } from "./numbers.js";

const FONT = "12px ui-sans-serif, system-ui, sans-serif";
const LONGEST_LABEL = 110, LEAST_FOR_LABELS = 9, GAP = 6;

// How a weight becomes a color: "root", "linear", or "most", the root of its share of the largest, for texts so long that
// every weight is small. Signed numbers are measured by their largest.
export function bytesOf(view, scale, signed) {
  const most = signed || scale === "most" ? largest(view.weights) || 1 : 1, out = new Uint8Array(view.weights.length);
  if (!signed) {
    const root = scale !== "linear";
    for (let i = 0; i < out.length; ++i)
      out[i] = 255 * (root ? Math.sqrt(view.weights[i] / most) : view.weights[i]) + 0.5;
    return out;
  }
  for (let i = 0; i < out.length; ++i) {
    const w = view.weights[i] / most;
    out[i] = shade(scale === "linear" ? w : Math.sign(w) * Math.sqrt(Math.abs(w)), signed);
  }
  return out;
}

export class Heat {
  // onchoose(row) when a row is chosen; `hint` is said while no cell is pointed at.
  constructor({ onchoose, label, hint = "Point at a cell, or use the arrow keys: rows look at columns." }) {
    this.onchoose = onchoose;
    this.hint = hint;
    this.at = null;
    this.canvas = h("canvas", {
      tabindex: "0",
      role: "application",
      "aria-label": label,
      class: "heat-canvas",
      onpointermove: (event) => this.point(event),
      onpointerleave: () => this.go(null),
      onclick: (event) => {
        this.point(event);
        if (this.at) this.onchoose(this.at[0]);
      },
      onkeydown: (event) => this.key(event),
      onblur: () => this.go(null),
    });
    this.readout = h("p", { class: "readout", "aria-live": "polite" });
    this.scroller = h("div", { class: "heat-scroll" }, this.canvas);
    this.element = h("div", { class: "heat" }, this.scroller, this.readout);
  }

  show(view, { scale, signed, chosen, zoom, title }) {
    Object.assign(this, { view, scale, signed, chosen, zoom, title });
    this.labels = placedLabels(view.labels);
    if (this.at && (this.at[0] >= view.n || this.at[1] >= view.n)) this.at = null;
    this.draw();
  }

  layout(available) {
    const { n } = this.view, measure = document.createElement("canvas").getContext("2d");
    measure.font = `bold ${FONT}`;
    const narrow = (available - LONGEST_LABEL) / n < LEAST_FOR_LABELS / 2 && !this.zoom; // too many for labels: no need to measure them
    const widest = narrow
      ? 12
      : Math.min(LONGEST_LABEL, Math.max(...this.view.labels.map((l) => measure.measureText(l).width), 8));
    let cell = Math.max(1, Math.min(40, (available - widest - GAP) / n));
    if (this.zoom) cell = Math.max(cell, this.zoom);
    const labelled = cell >= LEAST_FOR_LABELS;
    if (cell >= 3) cell = Math.floor(cell);
    const margin = labelled ? Math.ceil(widest + GAP) : 18;
    if (!labelled && !this.zoom) cell = (available - margin) / n;
    return { cell, margin, labelled, size: margin + cell * n };
  }

  draw() {
    if (!this.view?.n) return;
    const available = Math.max(220, this.scroller.clientWidth || 600);
    const place = (this.place = this.layout(available));
    const { cell, margin, labelled, size } = place, { n } = this.view;
    const context = sizeCanvas(this.canvas, Math.ceil(size), Math.ceil(size));
    const bytes = bytesOf(this.view, this.scale, this.signed);
    context.imageSmoothingEnabled = cell < 1;
    context.clearRect(0, 0, size, size);
    context.drawImage(canvasOf(bytes, n, n, this.signed), margin, margin, cell * n, cell * n);
    if (cell >= 12) { // hairlines between cells
      context.strokeStyle = css("--card"), context.lineWidth = 1;
      context.beginPath();
      for (let i = 1; i < n; ++i) {
        context.moveTo(margin + i * cell, margin), context.lineTo(margin + i * cell, margin + n * cell);
        context.moveTo(margin, margin + i * cell), context.lineTo(margin + n * cell, margin + i * cell);
      }
      context.stroke();
    }
    context.font = FONT, context.textBaseline = "middle";
    const ink = css("--ink"), muted = css("--muted"), accent = css("--accent");
    const [r, c] = this.at ?? [this.chosen, null];
    const text = (label, i, vertical, on) => {
      context.save();
      context.fillStyle = on ? accent : vertical ? muted : ink;
      context.font = on ? `bold ${FONT}` : FONT;
      if (vertical) {
        context.translate(margin + (i + 0.5) * cell, margin - GAP), context.rotate(-Math.PI / 2);
        context.textAlign = "left";
      } else {
        context.translate(margin - GAP, margin + (i + 0.5) * cell);
        context.textAlign = "right";
      }
      context.fillText(cut(context, label, margin - GAP + 3), 0, 0);
      context.restore();
    };
    if (labelled) this.view.labels.forEach((l, i) => (text(l, i, false, i === r), text(l, i, true, i === c)));
    context.strokeStyle = accent;
    if (this.chosen !== null && this.chosen < n && cell >= 2) {
      context.lineWidth = 1.5;
      context.strokeRect(margin - 0.5, margin + this.chosen * cell - 0.5, cell * n + 1, cell + 1);
    }
    if (this.at) {
      context.lineWidth = 2;
      const s = Math.max(cell, 5), o = (s - cell) / 2;
      context.strokeRect(margin + c * cell - o, margin + r * cell - o, s, s);
    }
    this.canvas.dataset.drawn = `${n}`;
    this.tell();
  }

  tell() {
    const words = this.at ?? null;
    if (!words) {
      this.readout.textContent = this.view.n > 1 ? this.hint : "";
      return;
    }
    const [i, j] = words, w = this.view.weights[i * this.view.n + j];
    this.readout.replaceChildren();
    append(this.readout, [h("b", {}, this.labels[i]), " → ", h("b", {}, this.labels[j]), "  ",
      h("span", { class: "number" }, this.signed ? exact(w) : `${percent(w)}  (${exact(w)})`)]);
  }

  go(cell) {
    if (String(cell) === String(this.at)) return;
    this.at = cell;
    this.draw();
  }

  point(event) {
    const { cell, margin } = this.place, box = this.canvas.getBoundingClientRect();
    const j = Math.floor((event.clientX - box.left - margin) / cell),
      i = Math.floor((event.clientY - box.top - margin) / cell);
    if (i < 0 || i >= this.view.n) return this.go(null);
    this.go(j < 0 || j >= this.view.n ? null : [i, j]);
  }

  key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const n = this.view.n, [i, j] = this.at ?? [this.chosen ?? 0, 0];
    if (moves[event.key]) {
      const step = event.shiftKey ? 10 : 1;
      const clamp = (x) => Math.min(n - 1, Math.max(0, x));
      this.go(this.at ? [clamp(i + step * moves[event.key][0]), clamp(j + step * moves[event.key][1])] : [i, j]);
    } else if (event.key === "Home" || event.key === "End") this.go([i, event.key === "Home" ? 0 : n - 1]);
    else if (event.key === "Enter" || event.key === " ") this.onchoose(i);
    else if (event.key === "Escape") this.go(null);
    else return;
    event.preventDefault();
  }
}

export function cut(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) --end;
  return `${text.slice(0, end)}…`;
}

// What the colors mean, in a strip.
export function legend(scale, signed, most = 1) {
  const colors = palette(signed),
    steps = signed ? [-1, -0.5, -0.1, 0, 0.1, 0.5, 1] : [0, 0.01, 0.05, 0.1, 0.25, 0.5, 1];
  return h("div", { class: "legend", "aria-hidden": "true" }, steps.map((v) => {
    const at = shade(scale === "linear" ? v : Math.sign(v) * Math.sqrt(Math.abs(v)), signed);
    return h("span", {}, h("i", { style: { background: rgb(colors, at) } }),
      signed ? (v * most).toPrecision(1) : `${Number((100 * v * most).toPrecision(2))}%`);
  }));
}
