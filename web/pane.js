// One text through one model: the atlas of its heads, one of them large, arcs and lists. Two of these side by side compare.
import { button, choice, choose, field, h, replace, select, table, tableDetails } from "./dom.js";
import { AtlasCanvas, MEASURES, measureText } from "./atlas.js";
import { Arcs } from "./arcs.js";
import { Heat, legend } from "./heat.js";
import { exact, joinWords, largest, percent, placedLabels, row, tokenView, top, within, withoutSpecial } from "./numbers.js";
import { gradient, head, mean, rollout, roughHead } from "./service.js";
import { get, set, toggleOff } from "./state.js";
import { saveJson, savePng, saveSvg } from "./pictures.js";

const MOST_TABLE = 40; // tokens of a whole table; of a longer text the table has the chosen token's row

export class Pane {
  constructor(name) {
    this.data = null;
    this.shown = 0;
    this.heat = new Heat({ label: `Heat map${name}: arrow keys move, Enter chooses a token`,
      onchoose: (i) => set({ token: this.view.groups[i][0] }) });
    this.arcs = new Arcs({ onchoose: (i) => set({ token: this.view.groups[i][0] }) });
    this.atlas = new AtlasCanvas({
      onselect: (layer, number) =>
        set({ layer, head: number, source: get().source === "gradient" ? "gradient" : "head" }),
      onoff: (layer, number) => this.offers?.without && set({ off: toggleOff(get().off, layer, number) }),
    });
    this.note = h("p", { class: "note", hidden: true });
    this.title = h("h2", {}, " ");
    this.legend = h("div", {});
    this.tables = h("div", {});
    this.atlasTable = h("div", {});
    const name_of = () => `${this.data?.model.split("/").at(-1) ?? "bertie"}-${this.slug ?? "head"}`;
    const options = () => ({ scale: get().scale, signed: this.signed, title: this.title.textContent });
    this.save = h("div", { class: "save" }, "Save: ", button("PNG", () => savePng(name_of(), this.heat.canvas)),
      button("SVG", () => saveSvg(name_of(), this.view, options())),
      button("JSON", () => saveJson(name_of(), this.view)),
      button("atlas PNG", () => savePng(`${name_of()}-atlas`, this.atlas.canvas)));
    this.element = h("section", { class: "pane", "aria-label": `Attention${name}` }, this.note,
      h("div", { class: "card atlas-card" }, h("h2", {}, "All heads"), this.atlas.element, this.atlasTable),
      h("div", { class: "card head-card" }, this.title, this.heat.element, this.legend, this.save, this.tables),
      h("div", { class: "card arcs-card" }, h("h2", {}, "From one token"), this.arcs.element));
    new ResizeObserver(() => {
      if (this.data && this.view) this.redraw();
    }).observe(this.element);
  }

  tell(text, bad = false) {
    this.note.hidden = !text;
    this.note.textContent = text;
    this.note.classList.toggle("bad", bad);
  }

  redraw() {
    const s = get();
    this.atlas.show(this.data, { color: s.color, layer: this.layer, head: this.number, off: s.off });
    this.heat.show(this.view, { scale: s.scale, signed: this.signed, chosen: this.chosen, zoom: Number(s.zoom),
      title: this.title.textContent });
    this.arcs.show(this.view, { chosen: this.chosen, signed: this.signed });
    replace(this.legend,
      legend(s.scale, this.signed, this.signed || s.scale === "most" ? largest(this.view.weights) : 1));
  }

  // Draws the data with what the state says. What is there at once is drawn at once; exact numbers follow.
  async show(data, offers) {
    const s = get(), turn = ++this.shown;
    this.offers = offers;
    const fresh = this.data !== data;
    this.data = data;
    this.layer = data.layers.includes(Number(s.layer))
      ? Number(s.layer)
      : data.layers[within(s.layer, data.layers.length) - 1];
    this.number = within(s.head, data.heads);
    this.signed = s.source === "gradient";
    const started = performance.now();
    if (s.source === "head") {
      const rough = !data.all && !data.whole.has(`${this.layer}.${this.number}`)
        && roughHead(data, this.layer, this.number);
      if (rough) this.draw(rough, fresh);
    }
    let weights;
    try {
      weights = await this.weights(s);
    } catch (error) {
      if (turn === this.shown) this.tell(error.message, true);
      return;
    }
    if (turn !== this.shown) return;
    this.draw(weights, fresh);
    this.element.dataset.headMilliseconds = (performance.now() - started).toFixed(1);
  }

  weights(s) {
    if (s.source === "mean") return mean(this.data, this.layer);
    if (s.source === "all") return mean(this.data, 0);
    if (s.source === "rollout") {
      if (!this.offers.rollout) throw new Error("This server has no attention rollout.");
      return rollout(this.data);
    }
    if (s.source === "gradient") return gradient(this.data, this.layer, this.number, this.target);
    return head(this.data, this.layer, this.number);
  }

  draw(weights, fresh) {
    const s = get(), data = this.data;
    let view = tokenView(data, weights);
    if (s.words) view = joinWords(view, data);
    if (s.special !== "show") view = withoutSpecial(view, data, s.special === "renormalize");
    this.view = view;
    const wanted = Number(s.token === "" ? -1 : s.token);
    this.chosen = view.groups.findIndex((group) => group.includes(wanted));
    if (this.chosen < 0)
      this.chosen = Math.max(0,
        view.groups.findIndex((group) => data.sequences[group[0]] >= 0 && data.tokens[group[0]] === "bank"));
    if (this.chosen === 0 && view.n > 1 && data.sequences[view.groups[0][0]] < 0) this.chosen = 1;
    const words = { head: `Layer ${this.layer}, head ${this.number}`,
      mean: `Layer ${this.layer}, mean of ${data.heads} heads`, all: "Mean of all heads",
      rollout: "Attention rollout, all layers",
      gradient: `Layer ${this.layer}, head ${this.number}: gradient × attention` };
    this.title.textContent = words[s.source];
    this.slug = words[s.source].toLowerCase().replace(/[^a-z0-9]+/g, "-");
    if (!view.n) return this.tell("There is no token left to show.", true);
    this.redraw();
    this.makeTables(fresh);
    this.element.dataset.ready = `${data.model} ${this.layer} ${this.number} ${view.n}`;
  }

  makeTables(fresh) {
    const { data, view } = this;
    replace(this.tables,
      tableDetails(view.n <= MOST_TABLE ? "These weights as a table" : "The chosen token’s weights as a table", () => {
        const labels = placedLabels(view.labels), number = (w) => (this.signed ? exact(w) : percent(w));
        if (view.n <= MOST_TABLE)
          return table(this.title.textContent, ["looks at →", ...labels],
            labels.map((l, i) => [l, ...[...row(view, i)].map(number)]));
        return table(`${labels[this.chosen]} looks at`, ["token", "weight"],
          top(row(view, this.chosen), view.n).map(([j, w]) => [labels[j], number(w)]));
      }));
    if (fresh || !this.atlasTable.firstChild)
      replace(this.atlasTable,
        tableDetails("The heads as a table",
          () =>
            table("Each head’s means over all tokens", ["layer.head", ...MEASURES.slice(1).map(([, name]) => name)],
              data.layers.flatMap((layer, r) =>
                Array.from({ length: data.heads }, (_, i) => [
                  h("button", { type: "button", class: "plain", onclick: () =>
                    set({ layer, head: i + 1, source: "head" }) }, `${layer}.${i + 1}`),
                  ...MEASURES.slice(1).map(([key]) => measureText(key, data.summary[key][r * data.heads + i])),
                ])
              ))));
  }
}

// The controls that every pane obeys.
export function paneOptions(models, offers) {
  const s = get(), deepest = Math.max(...models.map((m) => m.layers)), most = Math.max(...models.map((m) => m.heads));
  const layer = h("input", { type: "number", min: 1, max: deepest, value: s.layer,
    onchange: () => set({ layer: layer.value }) });
  const number = h("input", { type: "number", min: 1, max: most, value: s.head,
    onchange: () => set({ head: number.value, source: get().source === "gradient" ? "gradient" : "head" }) });
  const sources = [["head", "one head"], ["mean", "mean over the layer’s heads"], ["all", "mean over all heads"]];
  if (offers.rollout) sources.push(["rollout", "attention rollout"]);
  if (offers.gradient) sources.push(["gradient", "gradient × attention"]);
  const zoom = h("input", { type: "range", min: 0, max: 30, step: 1, value: s.zoom,
    oninput: () => set({ zoom: zoom.value }) });
  const source = select(sources, s.source, (value) => set({ source: value }));
  const color = select(MEASURES, s.color, (value) => set({ color: value }));
  const special = choice("[CLS] and [SEP]", [["show", "show"], ["hide", "hide"], ["renormalize", "renormalize",
    "hide them, and let each row sum to 1 again"]], s.special, (value) => set({ special: value }));
  const words = choice("Pieces", [["", "as they are"], ["1", "joined to words",
    "sums over the pieces that are looked at, means over those that look"]], s.words, (value) => set({ words: value }));
  const scale = choice("Color", [["root", "√ weight"], ["linear", "weight"], ["most", "by the largest",
    "for long texts, whose weights are all small"]], s.scale, (value) => set({ scale: value }));
  const element = h("div", { class: "options", role: "group", "aria-label": "What is shown" }, field("Layer", layer),
    field("Head", number), field("Show", source), field("Atlas by", color), special, words, scale, field("Zoom", zoom));
  return {
    element,
    refresh() { // a link, a click in the atlas or the way back may have changed any of them
      const now = get();
      layer.value = now.layer, number.value = now.head, zoom.value = now.zoom;
      source.value = now.source, color.value = now.color;
      choose(special, now.special), choose(words, now.words), choose(scale, now.scale);
    },
  };
}
