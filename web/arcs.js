// From a chosen token: arcs to what it looks at, and lists of the most, both ways.
import { h, replace, svg } from "./dom.js";
import { inkOn, isDark, palette, rgb, shade } from "./colors.js";
import { column, exact, largest, percent, placedLabels, row, top } from "./numbers.js";

const MOST_ARCS = 24, LEAST = 0.005, LISTED = 8;

export class Arcs {
  constructor({ onchoose }) {
    this.onchoose = onchoose;
    this.drawing = svg("svg", { class: "arcs-drawing", "aria-hidden": "true" });
    this.tokens = h("div", { class: "arcs-tokens", role: "group",
      "aria-label": "Tokens: choose one to see what it looks at", onkeydown: (event) => this.key(event) });
    this.inner = h("div", { class: "arcs-inner" }, this.drawing, this.tokens);
    this.lists = h("div", { class: "lists" });
    new ResizeObserver(() => (this.placedFor = null)).observe(this.tokens);
    this.element = h("div", { class: "arcs" }, h("div", { class: "arcs-scroll" }, this.inner), this.lists);
  }

  show(view, { chosen, signed }) {
    const from = row(view, chosen), most = signed ? largest(from) || 1 : 1, colors = palette(signed);
    const same = this.labels && this.labels.length === view.n && this.labels.every((l, i) => l === view.labels[i]);
    this.labels = view.labels;
    if (!same) {
      replace(this.tokens, view.labels.map((label, i) =>
        h("button", { type: "button", class: "token", "data-token": i, onclick: () =>
          this.onchoose(i) }, label)
      ));
    }
    if (!same) this.shades = [];
    const theme = isDark();
    [...this.tokens.children].forEach((element, i) => {
      const w = from[i] / most, at = shade(Math.sign(w) * Math.sqrt(Math.abs(w)), signed),
        now = `${at} ${signed} ${theme}`;
      if (this.shades[i] !== now) { // of many tokens few change: the others are left alone
        this.shades[i] = now;
        element.style.setProperty("background", rgb(colors, at));
        element.style.setProperty("color", inkOn(colors, at));
      }
      const pressed = i === chosen ? "true" : "false";
      if (element.getAttribute("aria-pressed") !== pressed) {
        element.setAttribute("aria-pressed", pressed);
        element.tabIndex = i === chosen ? 0 : -1;
      }
    });
    const other = !same || this.chosen !== chosen;
    this.chosen = chosen;
    this.arcs(from.map((w) => w / most), signed);
    this.list(view, signed);
    if (!other) return;
    const scroller = this.inner.parentElement, x = this.places[chosen];
    if (x < scroller.scrollLeft || x > scroller.scrollLeft + scroller.clientWidth)
      scroller.scrollLeft = x - scroller.clientWidth / 2;
  }

  arcs(from, signed) {
    if (this.placedFor !== this.tokens.firstChild) { // places are asked for when they may have changed, not for every head
      this.placedFor = this.tokens.firstChild;
      this.places = [...this.tokens.children].map((e) => e.offsetLeft + e.offsetWidth / 2);
      this.width = this.tokens.scrollWidth;
    }
    const { places, width } = this, x0 = places[this.chosen], colors = palette(signed);
    const shown = top(from, MOST_ARCS).filter(([, w]) => Math.abs(w) >= LEAST);
    const farthest = Math.max(40, ...shown.map(([j]) => Math.abs(places[j] - x0)));
    const height = Math.min(130, 30 + farthest / 2.6), base = height;
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.drawing.setAttribute("width", width);
    this.drawing.setAttribute("height", height);
    const paths = shown.reverse().map(([j, w]) => {
      const x1 = places[j], span = Math.abs(x1 - x0),
        rise = Math.min(height - 6, 16 + (span / farthest) * (height - 26));
      const d = j === this.chosen
        ? `M${x0 - 7},${base} C${x0 - 16},${base - 28} ${x0 + 16},${base - 28} ${x0 + 7},${base}`
        : `M${x0},${base} C${x0},${base - rise * 1.32} ${x1},${base - rise * 1.32} ${x1},${base}`;
      return svg("path", { d, fill: "none",
        stroke: rgb(colors, shade(Math.sign(w) * (0.45 + 0.5 * Math.sqrt(Math.abs(w))), signed)),
        "stroke-width": 0.8 + 7 * Math.abs(w), "stroke-linecap": "round" });
    });
    replace(this.drawing, paths);
  }

  list(view, signed) {
    const labels = placedLabels(view.labels), name = labels[this.chosen];
    const one = (title, values) =>
      h("section", {}, h("h3", {}, title), h("ol", {}, top(values, LISTED).filter(([, w]) =>
        w !== 0
      ).map(([j, w]) =>
        h("li", {},
          h("span", { class: "bar",
            style: { width: `${Math.round(100 * Math.min(1, Math.abs(w) / (signed ? largest(values) || 1 : 1)))}%` } }),
          h("button", { type: "button", class: "plain", onclick: () =>
            this.onchoose(j) }, labels[j]), h("span", { class: "number" }, signed ? exact(w) : percent(w)))
      )));
    replace(this.lists, one(`“${name}” looks at`, row(view, this.chosen)),
      one(`looks at “${name}”`, column(view, this.chosen)));
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = Math.min(this.labels.length - 1, Math.max(0, this.chosen + step));
    this.onchoose(next);
    this.tokens.children[next]?.focus();
  }
}
