// The first view: type a text, see every head; compare two; switch heads off and watch the prediction.
import { bars, button, checkbox, field, h, replace, say, select } from "./dom.js";
import { atlas, firstPicture, fromFile, info, question, task } from "./service.js";
import { BANK, get, listen, offPairs, parseOff, set, toggleOff } from "./state.js";
import { Pane, paneOptions } from "./pane.js";
import { percent } from "./numbers.js";

export const MASKED = "The bank deposited the [MASK] near the river bank.";
const EXAMPLES = [
  ["the bank, layer 5 head 3", { text: BANK, pair: "", layer: 5, head: 3, source: "head", token: "2" }],
  ["a masked word", { text: MASKED, pair: "", layer: 5, head: 3, source: "head", token: "5" }],
  ["who is “it”?", { text: "The animal didn't cross the street because it was too tired.", pair: "", layer: 5, head: 4,
    source: "head", token: "11" }],
  ["two sentences", { text: "I went to the store.", pair: "At the store, I bought fresh strawberries.", layer: 8,
    head: 1, source: "head", token: "" }],
];

function modelOptions(models, first) {
  return [["", first], ...models.map((m) => m.name).filter((name) => name !== first)];
}

// A text, the second of a pair, and the model that reads them. Enter looks.
export function composer(models, keys, title) {
  const s = get();
  const text = h("textarea", { rows: 2, spellcheck: "false", value: s[keys.text] });
  const pair = keys.pair
    && h("input", { type: "text", value: s[keys.pair], placeholder: "the second of a pair, if there is one" });
  const model = models.length > 1 || keys.model !== "model"
    ? select(modelOptions(models, keys.model === "model" ? models[0].name : "the same"), s[keys.model],
      (value) => set({ [keys.model]: value === models[0].name && keys.model === "model" ? "" : value }))
    : null;
  const look = () => set({ [keys.text]: text.value, ...(pair ? { [keys.pair]: pair.value } : {}), token: "" });
  const onkeydown = (event) => {
    if (event.key === "Enter" && !event.shiftKey) event.preventDefault(), look();
  };
  text.addEventListener("keydown", onkeydown), pair?.addEventListener("keydown", onkeydown);
  return {
    element: h("div", { class: "composer" }, field(title, text, { class: "field wide" }), pair && field("and", pair),
      model && field("Model", model), button("Look", look, { class: "primary" })),
    refresh(changed) {
      if (changed.has(keys.text)) text.value = get()[keys.text];
      if (pair && changed.has(keys.pair)) pair.value = get()[keys.pair];
      if (model && changed.has(keys.model)) model.value = get()[keys.model];
    },
  };
}

// What the model makes of the text, as it is and without the heads that are off.
class Prediction {
  constructor(models, offers) {
    Object.assign(this, { models, offers, turn: 0 });
    this.body = h("div", {});
    this.off = h("div", { class: "off" });
    this.element = h("div", { class: "card prediction" }, h("h2", {}, "Prediction"), this.body, this.off);
  }

  // What this text can be asked, and of whom: a masked word, or else a label.
  kind(s) {
    const wanted = this.models.find((m) => m.name === s.model) ?? this.models[0];
    const can = (m, what) => m.can.includes(what);
    if (!s.pair && /\[MASK\]|<mask>/.test(s.text) && can(wanted, "masked language model"))
      return { name: "fill-mask", model: wanted };
    if (can(wanted, "sequence classification")) return { name: "text-classification", model: wanted };
    return { name: null, model: wanted };
  }

  async ask(kind, s, without) {
    const parameters = { top_k: 5 };
    if (without.length) parameters.without = without;
    const inputs = kind.name === "text-classification" && s.pair ? { text: s.text, text_pair: s.pair } : s.text;
    const reply = await task(kind.name, inputs, { model: kind.model.name, parameters });
    let list = reply;
    while (Array.isArray(list[0]))
      list = list[kind.name === "fill-mask" ? Math.min(list.length, Number(s.mask)) - 1 : 0];
    return list.map((one) => [one.token_str ?? one.label, one.score]);
  }

  async show(s, choose) {
    const turn = ++this.turn, kind = this.kind(s), without = offPairs(s.off, kind.model);
    this.showOff(s, kind);
    if (!kind.name) {
      const canFill = kind.model.can.includes("masked language model");
      replace(this.body, h("p", { class: "hint" }, canFill
        ? "Put [MASK] for a word, and the model’s guesses appear here. "
        : "This model reads, but has no head that says anything. One with a masked language model or a classifier does.",
        canFill && button("try it", () => set({ text: MASKED, token: "5" }))));
      return;
    }
    if (!this.body.firstChild) replace(this.body, h("p", { class: "hint" }, "computing …"));
    try {
      const [plain, changed] = await Promise.all([this.ask(kind, s, []),
        without.length && this.offers.without ? this.ask(kind, s, without) : null]);
      if (turn !== this.turn) return;
      const hint = (label) => (this.offers.gradient ? `gradient × attention for “${label}”` : undefined);
      const chooser = (label) => button(label, () => choose(kind, label), { class: "plain", title: hint(label) });
      const list = (title, guesses) =>
        bars(title, guesses.map(([label, score]) => [chooser(label), score, percent(score)]));
      replace(this.body,
        h("div", { class: "lists" }, list(kind.name === "fill-mask" ? "[MASK] is" : "the text is", plain),
          changed && list("without those heads", changed)));
    } catch (error) {
      if (turn === this.turn) replace(this.body, h("p", { class: "note bad" }, error.message));
    }
  }

  showOff(s, kind) {
    if (!this.offers.without)
      return replace(this.off, h("p", { class: "hint" }, "This server cannot switch heads off."));
    const layer = Math.min(kind.model.layers, Number(s.layer) || 1),
      head = Math.min(kind.model.heads, Number(s.head) || 1),
      off = parseOff(s.off);
    replace(this.off, h("h3", {}, "Heads switched off"), h("p", {}, off.length
      ? off.map(([l, number]) =>
        button(`${number === "*" ? `layer ${l}` : `${l}.${number}`} ×`, () => set({ off: toggleOff(s.off, l, number) }),
          { class: "chip", "aria-label": `switch ${l}.${number} on again` })
      )
      : h("span", { class: "hint" }, "none")),
      h("p", {}, button(`head ${layer}.${head}`, () => set({ off: toggleOff(s.off, layer, head) })), " ",
        button(`all of layer ${layer}`, () => set({ off: toggleOff(s.off, layer, "*") })), " ",
        off.length ? button("all on", () => set({ off: "" })) : null));
  }
}

export async function attentionView(root) {
  const inFile = fromFile();
  const panes = [new Pane(""), new Pane(", the second")];
  const grid = h("div", { class: "panes" });
  const top = h("div", {});
  replace(root, top, grid);
  replace(grid, panes[0].element);
  if (!inFile && get().text === BANK && !get().pair) {
    const first = await firstPicture(); // so that nothing is ever blank
    if (!get().model || first.model === get().model) {
      panes[0].tell(`Precomputed with ${first.model}; the server’s own follows.`);
      if (get().source === "head") await panes[0].show(first, {});
    }
  }
  let models, offers;
  try {
    ({ models, offers } = await info());
  } catch (error) {
    panes[0].tell(error.message, true);
    throw error;
  }
  const a = inFile ? null : composer(models, { text: "text", pair: "pair", model: "model" }, "Text");
  const b = inFile ? null : composer(models, { text: "text2", model: "model2" }, "compared with");
  const options = paneOptions(inFile ? [{ layers: inFile.depth, heads: inFile.heads }] : models, offers);
  const prediction = inFile ? null : new Prediction(models, offers);
  const examples = h("p", { class: "examples" }, "Start with: ",
    EXAMPLES.map(([name, state]) => button(name, () => set(state), { class: "chip" })));
  const compare = inFile
    ? null
    : checkbox("compare with another text or model", Boolean(get().compare), (on) => set({ compare: on ? "1" : "" }));
  replace(top, inFile
    ? h("p", { class: "lead" }, inFile.text, inFile.pair ? ` / ${inFile.pair}` : "", " · ", inFile.model)
    : h("div", { class: "card" }, a.element, examples, compare, b.element), options.element);

  const choose = (kind, label) => {
    if (!offers.gradient) return;
    set({ source: "gradient", target: label });
  };
  let turn = 0;
  async function update(changed) {
    const s = get(), mine = ++turn, two = Boolean(s.compare) && !inFile;
    a?.refresh(changed), b?.refresh(changed), options.refresh();
    if (b) b.element.hidden = !two;
    if (compare) compare.querySelector("input").checked = two;
    grid.classList.toggle("two", two);
    replaceIfOther(grid, two
      ? [panes[0].element, panes[1].element]
      : prediction
      ? [panes[0].element, prediction.element]
      : [panes[0].element]);
    const asked = [question({ text: s.text, pair: s.pair, model: s.model }),
      question({ text: s.text2 || s.text, pair: s.text2 ? "" : s.pair, model: s.model2 || s.model })];
    if (offers.without)
      asked.forEach((q) => {
        const off = offPairs(s.off, models.find((m) => m.name === q.model) ?? models[0]);
        if (off.length) q.without = off;
      });
    if (!s.text.trim() && !inFile) return panes[0].tell("Type a text, and press Enter.");
    const matters = ["text", "pair", "model", "off", "start", "layer", "head", "mask", "compare"];
    if (prediction && !two && matters.some((key) => changed.has(key))) prediction.show(s, choose);
    if (s.source === "gradient") {
      const kind = prediction?.kind(s);
      if (!kind?.name)
        return panes[0].tell("Gradient × attention needs a prediction: put [MASK] for a word, or choose a classifier.",
          true);
      const fill = kind.name === "fill-mask", name = s.target ? { [fill ? "token" : "label"]: s.target } : {};
      for (const pane of panes) // without a name it is the likeliest
        pane.target = fill ? { task: "fill-mask", mask: Number(s.mask), ...name } : { task: "classify", ...name };
    }
    await Promise.all(panes.slice(0, two ? 2 : 1).map(async (pane, i) => {
      const slow = setTimeout(() => mine === turn && say("computing …"), 150);
      try {
        const data = await atlas(asked[i]);
        if (mine !== turn) return;
        pane.tell("");
        await pane.show(data, offers);
        say("");
      } catch (error) {
        if (mine === turn) pane.tell(error.message, true);
      } finally {
        clearTimeout(slow);
      }
    }));
  }
  const stop = listen((changed) => (inFile || get().view === "attention") && update(changed));
  await update(new Set(["start"]));
  return { stop, redraw: () => panes.forEach((pane) => pane.data && pane.view && pane.redraw()) };
}

// Leaves what is there alone, so that nothing loses its focus.
function replaceIfOther(parent, children) {
  if (parent.children.length === children.length && children.every((c, i) => parent.children[i] === c)) return;
  parent.replaceChildren(...children);
}
