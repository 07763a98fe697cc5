// The same queries, keys and values of one head under seven mechanisms: what is seen, the weights, what it costs.
import { field, h, replace, say, select, sizeCanvas, tableDetails, table } from "./dom.js";
import { canvasOf } from "./colors.js";
import { fromBase64, percent, within } from "./numbers.js";
import { askJson, info, question } from "./service.js";
import { get, listen, set } from "./state.js";
import { composer } from "./attention.js";

const TITLES = { full: "full", causal: "causal", window: "window", "big-bird": "BigBird", strided: "strided",
  "adaptive-span": "adaptive span", linear: "linear" };
const PICTURE = 210;

function time(seconds) {
  return seconds < 1e-3 ? `${(1e6 * seconds).toFixed(0)} µs` : `${(1e3 * seconds).toFixed(2)} ms`;
}

export async function mechanismsView(root) {
  const { models } = await info();
  const ask = composer(models, { text: "text", pair: "pair", model: "model" }, "Text");
  const layer = h("input", { type: "number", min: 1, onchange: () => set({ layer: layer.value }) });
  const number = h("input", { type: "number", min: 1, onchange: () => set({ head: number.value }) });
  const length = select(["256", "1024", "2048", "4096", "8192"], get().length, (value) => set({ length: value }));
  const note = h("p", { class: "note bad", hidden: true }), grid = h("div", { class: "mechanism-grid" }),
    below = h("div", {});
  replace(root,
    h("div", { class: "card" }, ask.element,
      h("div", { class: "options" }, field("Layer", layer), field("Head", number),
        field("Time it on so many tokens", length))), note, grid, below);
  let reply = null, turn = 0;

  function draw() {
    if (!reply) return;
    const n = reply.tokens.length, full = reply.mechanisms[0],
      longest = Math.max(...reply.mechanisms.map((m) => m.seconds));
    replace(grid, reply.mechanisms.map((m) => {
      const canvas = h("canvas", { role: "img",
        "aria-label": `${TITLES[m.name]}: the weights of ${n} × ${n} tokens; the table below has its numbers` });
      const context = sizeCanvas(canvas, PICTURE, PICTURE);
      context.imageSmoothingEnabled = reply.side > PICTURE;
      context.drawImage(canvasOf(fromBase64(m.picture), reply.side, reply.side), 0, 0, PICTURE, PICTURE);
      const pairs = m.pairs
        ? `${m.pairs} of ${n * n} pairs of tokens (${percent(m.pairs / (n * n))})`
        : "no pairs at all";
      return h("section", { class: "card mechanism" }, h("h2", {}, TITLES[m.name]), canvas, h("p", {}, m.about),
        h("p", { class: "hint" }, pairs),
        h("div", { class: "cost" }, h("span", { class: "bar", style: { width: `${(100 * m.seconds) / longest}%` } }),
          h("span", { class: "number" }, time(m.seconds))), h("p", { class: "hint" }, m === full
          ? `for ${reply.length} tokens of one head`
          : `${(full.seconds / m.seconds).toFixed(1)} times as fast as full; output differs by ${
            percent(m.difference)
          }`));
    }));
    const row = (
      m,
    ) => [TITLES[m.name], m.pairs, percent(m.pairs / (n * n)), m.pairs_at_length, time(m.seconds),
      percent(m.difference)];
    replace(below,
      h("p", { class: "hint" },
        `Layer ${reply.layer}, head ${reply.head}: rows look at columns, colored by √ weight. Times are measured as you `
          + `look, one thread, on this head’s queries, keys and values repeated to ${reply.length} tokens, with windows, `
          + "blocks, strides and spans as long texts have them (128, 64, 128, 128). A model trained with full attention is "
          + "not one trained with another: the difference is what it would cost without training again."),
      tableDetails("As a table",
        () =>
          table(`One head under each mechanism, ${n} tokens; time for ${reply.length}`, ["mechanism", "pairs seen",
            "share", `pairs of ${reply.length}`, "time", "output differs by"], reply.mechanisms.map(row))));
    root.dataset.mechanisms = reply.mechanisms.length;
  }

  async function load() {
    const s = get(), mine = ++turn, model = models.find((m) => m.name === s.model) ?? models[0];
    const at = { layer: within(s.layer, model.layers), head: within(s.head, model.heads), length: Number(s.length) };
    layer.value = at.layer, number.value = at.head, length.value = s.length;
    say("measuring …");
    try {
      const got = await askJson("mechanisms", { ...question(s), ...at });
      if (mine !== turn) return;
      reply = got;
      note.hidden = true;
      draw();
    } catch (error) {
      if (mine !== turn) return;
      note.hidden = false;
      note.textContent = error.message;
    }
    say("");
  }
  const stop = listen((changed) => {
    if (get().view !== "mechanisms") return;
    ask.refresh(changed);
    if (["text", "pair", "model", "layer", "head", "length"].some((k) => changed.has(k))) load();
  });
  await load();
  return { stop, redraw: draw };
}
