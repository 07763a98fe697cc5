// What models are for: each task where a served model can do it; otherwise, which kind of model can.
import { bars, button, field, h, replace, select, svg, table } from "./dom.js";
import { inkOn, palette, rgb, shade } from "./colors.js";
import { percent } from "./numbers.js";
import { askJson, info, task } from "./service.js";
import { get, listen, set } from "./state.js";

const SENSES = ["The river bank was covered in reeds.", "She sat on the bank and watched the water.",
  "The bank raised its interest rates.", "He works for a bank in London.", "They walked along the grassy bank.",
  "My bank charged me a fee."].join("\n");

const TASKS = {
  "fill-mask": { name: "Fill the mask", needs: "masked language model",
    kind: "a masked language model (bert-base-uncased, roberta-base …)", labels: ["Text with [MASK]"],
    inputs: ["The capital of France is [MASK]."], run: fillMask },
  entities: { name: "Entities", needs: "token classification",
    kind: "a token classifier (dslim/bert-base-NER …, or bertie finetune tag)", labels: ["Text"],
    inputs: ["Ada Lovelace met Charles Babbage in London."], run: entities },
  question: {
    name: "Question",
    needs: "question answering",
    kind: "a model that answers questions (deepset/roberta-base-squad2 …, or bertie finetune answer)",
    labels: ["Question", "Text to find it in"],
    inputs: ["Who wrote it?", "The first program was written by Ada Lovelace, for a machine that was never built."],
    run: answer,
  },
  labels: { name: "Praise or complaint", needs: "sequence classification",
    kind: "a classifier (distilbert-base-uncased-finetuned-sst-2-english …, or bertie finetune classify)",
    labels: ["Text"], inputs: ["What a fine film, from the first minute to the last."], run: classify },
  next: { name: "Next sentence", needs: "next sentence",
    kind: "a BERT with its next-sentence head (bert-base-uncased as Google released it)",
    labels: ["First", "Does this follow?"], inputs: ["I opened the window.", "Cold air came in."], run: nextSentence },
  senses: { name: "Senses", needs: "", kind: "any encoder", labels: ["Word", "Sentences with it, one a line"],
    inputs: ["bank", SENSES], run: senses },
  surprise: { name: "Surprise", needs: "masked language model", kind: "a masked or causal language model",
    labels: ["Text"], inputs: ["The cat sat on the parliament."], run: surprise },
};

function able(models, needs) {
  return models.filter((m) =>
    !needs || m.can.includes(needs) || (needs === "masked language model" && m.can.includes("causal language model"))
  );
}

async function fillMask([text], model) {
  const reply = await task("fill-mask", text, { model, parameters: { top_k: 8 } });
  const masks = Array.isArray(reply[0]) ? reply : [reply];
  return h("div", { class: "lists" },
    masks.map((list, i) =>
      bars(masks.length > 1 ? `mask ${i + 1}` : "[MASK] is",
        list.map((one) => [one.token_str, one.score, percent(one.score)]))
    ));
}

async function entities([text], model) {
  const found = await task("token-classification", text, { model }), letters = [...text], parts = [];
  let at = 0;
  for (const e of found) {
    parts.push(letters.slice(at, e.start).join(""),
      h("mark", { title: percent(e.score) }, letters.slice(e.start, e.end).join(""), h("small", {}, e.entity_group)));
    at = e.end;
  }
  parts.push(letters.slice(at).join(""));
  return [h("p", { class: "marked" }, parts), found.length
    ? table("Entities", ["text", "kind", "score"],
      found.map((e) => [letters.slice(e.start, e.end).join(""), e.entity_group, percent(e.score)]))
    : h("p", { class: "hint" }, "none found")];
}

async function answer([question, context], model) {
  const reply = await task("question-answering", { question, context }, { model, parameters: { top_k: 3 } }),
    list = Array.isArray(reply) ? reply : [reply];
  const letters = [...context], best = list[0];
  return [
    h("p", { class: "marked" }, letters.slice(0, best.start).join(""),
      h("mark", {}, letters.slice(best.start, best.end).join("")), letters.slice(best.end).join("")),
    h("div", { class: "lists" }, bars("answers", list.map((a) => [a.answer || "none", a.score, percent(a.score)]))),
  ];
}

async function classify([text], model) {
  let list = await task("text-classification", text, { model, parameters: { top_k: 10 } });
  while (Array.isArray(list[0])) list = list[0];
  return h("div", { class: "lists" },
    bars("the text is", list.map((one) => [one.label, one.score, percent(one.score)])));
}

async function nextSentence(pair, model) {
  const [one] = await askJson("next-sentence", { pairs: [pair], model });
  return h("div", { class: "lists" }, bars("the second", [["follows", one.is_next], ["does not", 1 - one.is_next]].map((
    [label, share],
  ) => [label, share, percent(share)])));
}

async function surprise([text], model) {
  const [one] = await askJson("score", { texts: [text], model });
  const colors = palette(), most = 12; // nats: one in 160,000
  const likely = (log) => percent(Math.exp(log));
  const row = (t) => [t.token, likely(t.log_probability), t.likeliest, likely(t.likeliest_log_probability)];
  const marked = (t) => {
    const at = shade(-t.log_probability / most), [, its, guess, best] = row(t);
    const style = { background: rgb(colors, at), color: inkOn(colors, at) };
    return [
      h("span", { class: "surprise", style, title: `${t.token}: ${its}; likeliest ${guess} ${best}` },
        t.token.replace(/^##/, "·")),
      " ",
    ];
  };
  const perplexity = one.perplexity?.toFixed(1) ?? "–";
  return [h("p", { class: "marked" }, one.scores.map(marked)),
    h("p", { class: "hint" },
      `Perplexity ${perplexity}. The darker (in dark colors, the lighter), the less the model expected it.`),
    table("Token by token", ["token", "probability", "the model’s guess", "its probability"], one.scores.map(row))];
}

async function senses([word, lines], model, models) {
  const texts = lines.split("\n").filter((t) => t.trim()),
    depth = (models.find((m) => m.name === model) ?? models[0]).layers;
  const body = h("div", {}),
    slider = h("input", { type: "range", min: 1, max: depth, value: get().at || depth,
      oninput: () => (set({ at: slider.value }), draw()) });
  let turn = 0;
  async function draw() {
    const mine = ++turn, s = await askJson("senses", { word, texts, model, layer: Number(slider.value) });
    if (mine !== turn) return;
    const xs = s.places.map((p) => p.x), ys = s.places.map((p) => p.y),
      span = Math.max(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys), 1e-9);
    const middle = (list) => (Math.max(...list) + Math.min(...list)) / 2,
      scale = (v, list) => ((v - middle(list)) / span) * 300;
    const marks = ["●", "▲", "■", "◆", "★"];
    const drawing = svg("svg", { viewBox: "-190 -180 380 360", class: "senses", role: "img",
      "aria-label": `“${word}” in ${texts.length} sentences at layer ${s.layer}; the table has the groups` },
      s.places.map((p, i) =>
        svg("g", { transform: `translate(${scale(p.x, xs)},${-scale(p.y, ys)})` }, svg("title", {}, texts[p.text]),
          svg("text", { class: `sense group-${p.group % 5}`, "text-anchor": "middle", "dominant-baseline": "central" },
            marks[p.group % 5]), svg("text", { x: 10, "dominant-baseline": "central", class: "sense-number" }, i + 1))
      ));
    replace(body,
      h("p", { class: "hint" },
        `Layer ${s.layer} of ${depth}: the word’s vectors on the plane of their largest differences; groups ${
          s.silhouette > 0.25 ? "are clear" : "are not clear"
        } (silhouette ${s.silhouette.toFixed(2)}).`),
      h("div", { class: "senses-pair" }, drawing,
        table("Sentences", ["", "group", "sentence"],
          s.places.map((p, i) => [`${i + 1}`, marks[p.group % 5], texts[p.text]]))));
  }
  await draw();
  return [field("Layer", slider), body];
}

export async function tryView(root) {
  const { models } = await info();
  const tabs = h("div", { class: "tabs" }), card = h("div", { class: "card" });
  replace(root, tabs, card);
  function show() {
    const s = get(), key = TASKS[s.task] ? s.task : "fill-mask", it = TASKS[key], can = able(models, it.needs);
    const had = tabs.contains(document.activeElement);
    replace(tabs,
      Object.entries(TASKS).map(([name, t]) =>
        button(t.name, () => set({ task: name, input: "", input2: "" }), {
          "aria-current": name === key ? "true" : undefined,
          class: able(models, t.needs).length ? "tab" : "tab cannot",
        })
      ));
    if (had) tabs.querySelector("[aria-current]")?.focus();
    if (!can.length)
      return replace(card, h("h2", {}, it.name),
        h("p", {}, `No model here can do this. It takes ${it.kind}: give it to bertie serve beside the others.`));
    const inputs = it.labels.map((label, i) =>
      h("textarea", { rows: i === it.labels.length - 1 && it.inputs[i].includes("\n") ? 6 : 2, spellcheck: "false",
        value: (i ? s.input2 : s.input) || it.inputs[i] })
    );
    const model = select(can.map((m) => m.name), can.some((m) => m.name === s.model) ? s.model : can[0].name,
        () => run()), result = h("div", { class: "result", "aria-live": "polite" });
    let turn = 0;
    async function run() {
      const mine = ++turn, values = inputs.map((i) => i.value);
      set({ input: values[0] === it.inputs[0] ? "" : values[0],
        input2: values[1] === undefined || values[1] === it.inputs[1] ? "" : values[1] });
      try {
        const made = await it.run(values, model.value, models);
        if (mine === turn) replace(result, made);
      } catch (error) {
        if (mine === turn) replace(result, h("p", { class: "note bad" }, error.message));
      }
      root.dataset.tried = key;
    }
    inputs.forEach((i) =>
      i.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.shiftKey && i.rows < 6) event.preventDefault(), run();
      })
    );
    replace(card, h("h2", {}, it.name),
      h("div", { class: "composer" }, inputs.map((i, at) => field(it.labels[at], i, { class: "field wide" })),
        field("Model", model), button("Go", run, { class: "primary" })), result);
    run();
  }
  const stop = listen((changed) => get().view === "try" && changed.has("task") && show());
  show();
  return { stop, redraw: show };
}
