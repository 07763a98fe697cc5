// What a model's heads look at over many sentences, as `bertie heads` measured it: a color for each head, all that is
// known of one, the relations of a treebank, and which heads look alike.
import { button, field, h, replace, select, table, tableDetails } from "./dom.js";
import { AtlasCanvas } from "./atlas.js";
import { Heat, legend } from "./heat.js";
import { largest, percent } from "./numbers.js";
import { headsReport, reportNames, viewOfFile } from "./service.js";
import { get, linkTo, listen, set } from "./state.js";

const SHARES = {
  cls: "[CLS]",
  sep: "[SEP]",
  punctuation: "punctuation",
  previous: "the previous token",
  next: "the next token",
  self: "the token itself",
};
const RELATION = "relation "; // "relation det" in the address
const MOST_SHOWN = 8;

const nameOf = (report, i) => `${Math.floor(i / report.heads) + 1}-${(i % report.heads) + 1}`;
const signedText = (x, digits) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(digits)}`;
const offsetText = (offset) => (offset > 0 ? `+${offset}` : `−${-offset}`);

// What heads can be colored by: [key, name] each.
function measures(report) {
  const all = report.relations.map((r) => [RELATION + r.relation, `finds ${r.relation}`]);
  for (const [key, name] of Object.entries(SHARES)) all.push([key, `share to ${name}`]);
  all.push(["entropy", "entropy"], ["distance", "distance"]);
  if (report.divergence) all.push(["alike", "looks like the chosen head"]);
  if (report.loss !== undefined) all.push(["loss", "loss without it"]);
  return all;
}

function relationOf(report, by) {
  return by.startsWith(RELATION) ? report.relations.find((r) => r.relation === by.slice(RELATION.length)) : undefined;
}

// The relation that a head finds so much better than offsets and random weights do.
function firstMeasure(report) {
  const gain = (r) => r.accuracy - Math.max(r.offset_accuracy, r.random_accuracy ?? 0);
  const best = report.relations.toSorted((a, b) => gain(b) - gain(a))[0];
  return best ? RELATION + best.relation : "sep";
}

// From 0 (nothing in common) to 1 (the same); a pruned head is like no other.
function likeness(report, i) {
  return report.divergence[i].map((d) => (d === null ? 0 : 1 - d / Math.LN2));
}

function measureOf(report, by, chosen) {
  const inPercent = { part: (x) => x, text: (x) => `${Math.round(100 * x)}` };
  const relation = relationOf(report, by);
  if (relation) return { values: relation.by_head, ...inPercent };
  if (by === "alike") return { values: likeness(report, chosen), ...inPercent };
  if (by === "loss") {
    const values = report.shares.map((s) => s.loss_without - report.loss), most = largest(values) || 1;
    return { values, part: (x) => x / most, text: (x) => signedText(x, most < 0.1 ? 3 : 2), signed: true };
  }
  const values = report.shares.map((s) => s[by]);
  if (by in SHARES) return { values, part: Math.sqrt, text: inPercent.text };
  const most = largest(values) || 1;
  return { values, part: (x) => x / most, text: (x) => x.toFixed(1) };
}

function bars(rows) {
  return h("ol", { class: "bars" },
    rows.map(([name, share, text]) =>
      h("li", {}, h("span", { class: "bar", style: { width: `${Math.round(100 * Math.max(0, share))}%` } }),
        h("span", {}, name), h("span", { class: "number" }, text))
    ));
}

function headButton(report, i) {
  const [layer, head] = [Math.floor(i / report.heads) + 1, (i % report.heads) + 1];
  return button(nameOf(report, i), () => set({ layer, head }), { class: "plain" });
}

// All that is known of one head. No relation is shown without what guessing by place comes to.
function aboutHead(report, i) {
  const s = report.shares[i];
  const found = report.relations.map((r) => ({ ...r, mine: r.by_head[i] }))
    .sort((a, b) => (b.mine - b.offset_accuracy) - (a.mine - a.offset_accuracy)).slice(0, MOST_SHOWN);
  const twins = report.divergence?.[i].map((d, j) => [j, d]).filter(([j, d]) => j !== i && d !== null)
    .sort((a, b) => a[1] - b[1]).slice(0, 5);
  return [
    h("div", { class: "lists" },
      h("section", {}, h("h3", {}, "looks at"),
        bars(Object.entries(SHARES).map(([key, name]) => [name, s[key], percent(s[key])]))), found.length > 0
      && h("section", {}, h("h3", {}, "finds, and the best fixed offset finds"),
        bars(found.map((r) => [r.relation, r.mine, `${percent(r.mine)}  (${percent(r.offset_accuracy)})`])))),
    h("p", {}, `Entropy ${s.entropy.toFixed(2)} nats, mean distance ${s.distance.toFixed(1)} tokens.`,
      s.loss_without !== undefined && ` Without it the loss is ${s.loss_without.toFixed(4)}, `
          + `${signedText(s.loss_without - report.loss, 4)} nats, over ${
            report.masked_tokens.toLocaleString("en")
          } masked tokens.`),
    twins?.length > 0
    && h("p", {}, "Looks most like ",
      twins.map(([j, d], at) => [at > 0 && ", ", headButton(report, j), ` (${d.toFixed(3)})`]), "."),
    !viewOfFile()
    && h("p", {},
      h("a", { href: linkTo({ view: "attention", source: "head", color: "pattern" }) }, "Watch this head on a text")),
  ];
}

function relationTable(report) {
  return table(
    "The head that finds each relation best, beside the best fixed offset and the best head with random weights",
    ["relation", "words", "head", "who looks", "right", "offset", "right", "random"],
    report.relations.map((r) => [
      button(r.relation, () => set({ by: RELATION + r.relation, layer: r.layer, head: r.head }), { class: "plain" }),
      r.count.toLocaleString("en"),
      headButton(report, (r.layer - 1) * report.heads + r.head - 1),
      r.from_head ? "governor" : "dependent",
      percent(r.accuracy),
      offsetText(r.offset),
      percent(r.offset_accuracy),
      r.random_accuracy === undefined ? "–" : percent(r.random_accuracy),
    ]),
  );
}

function aboutRelation(report, by) {
  const r = relationOf(report, by);
  if (!r) return [];
  const random = r.random_accuracy === undefined
    ? ""
    : `; the best head with random weights ${percent(r.random_accuracy)}`;
  return [`${r.relation}: head `, headButton(report, (r.layer - 1) * report.heads + r.head - 1),
    ` is right for ${percent(r.accuracy)} of ${r.count.toLocaleString("en")} words; `
    + `the best fixed offset (${offsetText(r.offset)}) for ${percent(r.offset_accuracy)}${random}.`];
}

function headsTable(report) {
  const number = (key, x) => (key in SHARES ? percent(x) : x.toFixed(2)),
    keys = [...Object.keys(SHARES), "entropy", "distance"];
  return table("Each head’s means over all tokens that look", ["head", ...keys.map((key) => SHARES[key] ?? key)],
    report.shares.map((s, i) => [headButton(report, i), ...keys.map((key) => number(key, s[key]))]));
}

export async function headsView(root) {
  const names = await reportNames();
  if (!names.length) {
    replace(root,
      h("div", { class: "card" }, h("h2", {}, "Heads"),
        h("p", {},
          "No model here has brought along what its heads look at. Put it into a model’s folder, and serve it:"),
        h("pre", {},
          "bertie heads -m MODEL --data en_ewt-ud-dev.conllu --json > MODEL/heads.json\nbertie view -m MODEL"),
        h("p", {}, "or write it as a page of its own: bertie heads … --html heads.html")));
    root.dataset.heads = "none";
    return { stop: () => {}, redraw: () => {} };
  }
  const chosenModel = () => (names.includes(get().model) ? get().model : names[0]);
  let model = chosenModel(), report = await headsReport(model), colors = null;
  const within = (x, most) => Math.min(most, Math.max(1, Number(x) || 1));
  const place = () => [within(get().layer, report.layers), within(get().head, report.heads)];
  const words = (_, layer, head) => {
    const measure = measureOf(report, by(), index(...place())), i = index(layer, head);
    return `Layer ${layer}, head ${head}: ${measures(report).find(([key]) => key === by())[1]} ${
      measure.text(measure.values[i])
    }`;
  };
  const atlas = new AtlasCanvas({ onselect: (layer, head) => set({ layer, head }), words });
  const alike = new Heat({
    label: "Which heads look alike: arrow keys move, Enter chooses a head",
    hint: "Point at a cell, or use the arrow keys; a click chooses the row’s head.",
    onchoose: (i) => set({ layer: Math.floor(i / report.heads) + 1, head: (i % report.heads) + 1 }),
  });
  const index = (layer, head) => (layer - 1) * report.heads + head - 1;
  const by = () => (measures(report).some(([key]) => key === get().by) ? get().by : firstMeasure(report));
  const options = h("div", { class: "options" }), about = h("p", { class: "hint" }), said = h("p", {});
  const title = h("h2", {}), detail = h("div", {}), below = h("section", { class: "pane" }),
    last = h("div", { class: "card" });
  replace(root, h("div", { class: "card" }, options, about),
    h("div", { class: "panes" },
      h("section", { class: "pane" }, h("div", { class: "card" }, h("h2", {}, "All heads"), atlas.element, said),
        h("div", { class: "card" }, title, detail))), h("div", { class: "panes" }, below), last);

  function draw() {
    const [layer, head] = place(), chosen = index(layer, head);
    const layers = Array.from({ length: report.layers }, (_, i) => i + 1);
    atlas.show({ layers, heads: report.heads }, { layer, head, measure: measureOf(report, by(), chosen) });
    replace(said, aboutRelation(report, by()));
    title.textContent = `Layer ${layer}, head ${head}`;
    replace(detail, aboutHead(report, chosen));
    if (report.divergence) {
      const n = report.layers * report.heads, labels = Array.from({ length: n }, (_, i) => nameOf(report, i));
      const weights = Float32Array.from(report.divergence.flatMap((_, i) => likeness(report, i)));
      alike.show({ n, labels, weights, groups: labels.map((_, i) => [i]) }, { scale: "linear", chosen, zoom: 0,
        title: "" });
    }
    root.dataset.heads = `${model} ${by()} ${layer}-${head}`;
  }

  // What another model changes: all but the colors and the chosen head.
  function begin() {
    colors = select(measures(report), by(), (key) => set({ by: key }));
    replace(options, names.length > 1 && field("Model", select(names, model, (other) => set({ model: other }))),
      field("Color by", colors));
    about.textContent = `${model}: ${report.layers} layers of ${report.heads} heads, over `
      + `${report.sentences.toLocaleString("en")} sentences of ${report.tokens.toLocaleString("en")} tokens. `
      + "Where a head looks is not what it does: see what is lost without it, too.";
    replace(below,
      report.relations.length > 0 && h("div", { class: "card relations" }, h("h2", {}, "Relations"), relationTable(report)),
      report.divergence
        && h("div", { class: "card" }, h("h2", {}, "Which heads look alike"),
          h("p", { class: "hint" },
            "Every head by every head: 100% where both always look at the same, 0% where at nothing in "
              + "common (1 − Jensen-Shannon divergence / ln 2)."), alike.element, legend("linear", false)));
    replace(last, tableDetails("The heads as a table", () => headsTable(report)));
    draw();
  }
  const stop = listen(async (changed) => {
    if (get().view !== "heads" && !viewOfFile()) return;
    if (chosenModel() !== model) {
      const wanted = chosenModel(), got = await headsReport(wanted);
      if (wanted !== chosenModel()) return; // another one was chosen meanwhile
      model = wanted, report = got;
      begin();
    } else {
      colors.value = by();
      draw();
    }
  });
  new ResizeObserver(() => root.isConnected && draw()).observe(root);
  begin();
  return { stop, redraw: draw };
}
