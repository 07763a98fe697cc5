// What a model's heads look at over many sentences, as `bertie heads` measured it: a color for each head, all that is
// known of one, the relations of a treebank, and which heads look alike.
import { bars, button, field, h, replace, select, table, tableDetails } from "./dom.js";
import { AtlasCanvas } from "./atlas.js";
import { Heat, legend } from "./heat.js";
import { largest, percent, within } from "./numbers.js";
import { headsReport, info, reportNames, viewOfFile } from "./service.js";
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

const count = (n) => n.toLocaleString("en");
const nameOf = (report, i) => `${Math.floor(i / report.heads) + 1}-${(i % report.heads) + 1}`;
const signedText = (x, digits) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(digits)}`;
const offsetText = (offset) => (offset > 0 ? `+${offset}` : `−${-offset}`);

const isPruned = (report, i) => Boolean(report.shares[i].pruned);

// From 0 (nothing in common) to 1 (the same).
const alike = (divergence) => (divergence === null ? 0 : 1 - divergence / Math.LN2);

function relationOf(report, by) {
  return by.startsWith(RELATION) ? report.relations.find((r) => r.relation === by.slice(RELATION.length)) : undefined;
}

// What heads can be colored by: [key, name] each.
function measures(report) {
  const all = report.relations.map((r) => [RELATION + r.relation, `finds ${r.relation}`]);
  for (const [key, name] of Object.entries(SHARES)) all.push([key, `share to ${name}`]);
  all.push(["entropy", "entropy"], ["distance", "distance"]);
  if (report.divergence) all.push(["alike", "looks like the chosen head"]);
  if (report.loss !== undefined) all.push(["loss", "change of the loss without it"]);
  return all;
}

// The relation that a head finds so much better than offsets and random weights do.
function firstMeasure(report) {
  const gain = (r) => r.accuracy - Math.max(r.offset_accuracy, r.random_accuracy ?? 0);
  const best = report.relations.toSorted((a, b) => gain(b) - gain(a))[0];
  return best ? RELATION + best.relation : "sep";
}

// Values, their part of the palette, their text in a tile (`text`) and in words (`long`).
function measureOf(report, by, chosen) {
  const inPercent = { part: (x) => x, text: (x) => `${Math.round(100 * x)}`, long: percent };
  const relation = relationOf(report, by);
  if (relation) return { values: relation.by_head, ...inPercent };
  if (by === "alike") return { values: report.divergence[chosen].map(alike), ...inPercent };
  if (by === "loss") {
    const values = report.shares.map((s) => (s.pruned ? 0 : s.loss_without - report.loss)), most = largest(values) || 1;
    return { values, part: (x) => x / most, text: (x) => signedText(x, most < 0.1 ? 3 : 2), long: (x) =>
      `${signedText(x, 4)} nats`, signed: true };
  }
  const values = report.shares.map((s) => s[by]), most = largest(values) || 1;
  if (by in SHARES) return { values, ...inPercent, part: Math.sqrt };
  const unit = by === "entropy" ? "nats" : "tokens";
  return { values, part: (x) => x / most, text: (x) => x.toFixed(1), long: (x) => `${x.toFixed(2)} ${unit}` };
}

function headButton(report, i) {
  const [layer, head] = [Math.floor(i / report.heads) + 1, (i % report.heads) + 1];
  return button(nameOf(report, i), () => set({ layer, head }), { class: "plain" });
}

// All that is known of one head. No relation is shown without what guessing by place comes to.
function aboutHead(report, i, model) {
  if (isPruned(report, i)) return h("p", {}, "This head was pruned: the model does not have it.");
  const s = report.shares[i];
  const found = report.relations.map((r) => ({ ...r, mine: r.by_head[i] }))
    .sort((a, b) => (b.mine - b.offset_accuracy) - (a.mine - a.offset_accuracy)).slice(0, MOST_SHOWN);
  const twins = report.divergence?.[i].map((d, j) => [j, d]).filter(([j, d]) => j !== i && d !== null)
    .sort((a, b) => a[1] - b[1]).slice(0, 5);
  const looks = Object.entries(SHARES).map(([key, name]) => [name, s[key], percent(s[key])]);
  const finds = found.map((r) => [r.relation, r.mine, `${percent(r.mine)}  (${percent(r.offset_accuracy)})`]);
  const loss = s.loss_without !== undefined
    && ` Without it the loss is ${s.loss_without.toFixed(4)}, ${
        signedText(s.loss_without - report.loss, 4)
      } nats, over `
      + `${count(report.masked_tokens)} masked tokens.`;
  const link = { view: "attention", model, source: "head", color: "pattern" };
  return [
    h("div", { class: "lists" }, bars("looks at", looks),
      finds.length > 0 && bars("finds, and the best fixed offset finds", finds)),
    h("p", {}, `Entropy ${s.entropy.toFixed(2)} nats, mean distance ${s.distance.toFixed(1)} tokens.`, loss),
    twins?.length > 0
    && h("p", {}, "Looks most like ",
      twins.map(([j, d], at) => [at > 0 && ", ", headButton(report, j), ` (${percent(alike(d))})`]), "."),
    !viewOfFile() && h("p", {}, h("a", { href: linkTo(link) }, "Watch this head on a text")),
  ];
}

function relationTable(report) {
  const row = (r) => [
    button(r.relation, () => set({ by: RELATION + r.relation, layer: r.layer, head: r.head }), { class: "plain" }),
    count(r.count),
    headButton(report, (r.layer - 1) * report.heads + r.head - 1),
    r.from_head ? "governor" : "dependent",
    percent(r.accuracy),
    offsetText(r.offset),
    percent(r.offset_accuracy),
    r.random_accuracy === undefined ? "–" : percent(r.random_accuracy),
  ];
  return table(
    "The head that finds each relation best, beside the best fixed offset and the best head with random weights",
    ["relation", "words", "head", "looks", "right", "offset", "it is right", "random"],
    report.relations.map(row),
  );
}

function aboutRelation(report, by) {
  const r = relationOf(report, by);
  if (!r) return by === "loss" && "Blue: the loss grows without the head. Orange: it falls.";
  const random = r.random_accuracy === undefined
    ? ""
    : `; the best head with random weights for ${percent(r.random_accuracy)}`;
  return [`${r.relation}: head `, headButton(report, (r.layer - 1) * report.heads + r.head - 1),
    ` is right for ${percent(r.accuracy)} of ${count(r.count)} words; `
    + `the best fixed offset (${offsetText(r.offset)}) for ${percent(r.offset_accuracy)}${random}.`];
}

// Every number that the pictures show: of the measure that colors them, and of the chosen head's likeness, too.
function headsTable(report, by, chosen) {
  const shown = [by, ...Object.keys(SHARES), "entropy", "distance", report.divergence && "alike",
    report.loss !== undefined && "loss"].filter((key, i, all) => key && all.indexOf(key) === i);
  const names = new Map(measures(report)), columns = shown.map((key) => measureOf(report, key, chosen));
  return table(`Each head; the chosen one is ${nameOf(report, chosen)}`, ["head",
    ...shown.map((key) => names.get(key))],
    report.shares.map((_,
      i) => [headButton(report, i), ...columns.map((m) => (isPruned(report, i) ? "pruned" : m.long(m.values[i])))]
    ));
}

function nothingHere(root) {
  replace(root,
    h("div", { class: "card" }, h("h2", {}, "Heads"),
      h("p", {},
        "No model here has brought along what its heads look at. Put it into the model’s folder, and serve that:"),
      h("pre", {}, "bertie heads -m ./model --data en_ewt-ud-dev.conllu --json > heads.json && mv heads.json model/\n"
        + "bertie view -m ./model"), h("p", {}, "or write it as a page of its own: bertie heads … --html heads.html")));
  root.dataset.heads = "none";
  return { stop: () => {}, redraw: () => {} };
}

export async function headsView(root) {
  const names = await reportNames();
  if (!names.length) return nothingHere(root);
  const { models } = await info();
  const asked = () => get().model || (viewOfFile() ? names[0] : models[0].name);
  const chosenModel = () => (names.includes(asked()) ? asked() : names[0]);
  let model = chosenModel(), report = await headsReport(model), colors = null, likeness = null;
  const index = (layer, head) => (layer - 1) * report.heads + head - 1;
  const place = () => [within(get().layer, report.layers), within(get().head, report.heads)];
  const by = () => (measures(report).some(([key]) => key === get().by) ? get().by : firstMeasure(report));
  const words = (_, layer, head) => {
    const i = index(layer, head), measure = measureOf(report, by(), index(...place()));
    const name = measures(report).find(([key]) => key === by())[1];
    return `Layer ${layer}, head ${head}: ${
      isPruned(report, i) ? "pruned" : `${name}, ${measure.long(measure.values[i])}`
    }`;
  };
  const atlas = new AtlasCanvas({ onselect: (layer, head) => set({ layer, head }), words });
  const map = new Heat({
    label: "Which heads look alike: arrow keys move, Enter chooses a head",
    hint: "Point at a cell, or use the arrow keys; a click chooses the row’s head.",
    onchoose: (i) => set({ layer: Math.floor(i / report.heads) + 1, head: (i % report.heads) + 1 }),
  });
  const zoom = h("input", { type: "range", min: 0, max: 30, step: 1, value: get().zoom,
    oninput: () => set({ zoom: zoom.value }) });
  const options = h("div", { class: "options" }), about = h("p", { class: "hint" }), said = h("p", {});
  const note = h("p", { class: "note bad", hidden: true }), mapLegend = h("div", {});
  const title = h("h2", {}), detail = h("div", {});
  const below = h("section", { class: "pane" }), last = h("div", { class: "card" });
  replace(root, h("div", { class: "card" }, options, about), note,
    h("div", { class: "panes" },
      h("section", { class: "pane" }, h("div", { class: "card" }, h("h2", {}, "All heads"), atlas.element, said),
        h("div", { class: "card" }, title, detail))), h("div", { class: "panes" }, below), last);

  function drawCanvases() {
    const [layer, head] = place(), chosen = index(layer, head);
    const layers = Array.from({ length: report.layers }, (_, i) => i + 1);
    atlas.show({ layers, heads: report.heads }, { layer, head, measure: measureOf(report, by(), chosen) });
    if (likeness)
      map.show(likeness, { scale: "linear", chosen, zoom: Number(get().zoom), title: "Which heads look alike" });
  }

  function draw() {
    const [layer, head] = place(), chosen = index(layer, head);
    const focused = document.activeElement?.textContent,
      inside = [said, detail].find((part) => part.contains(document.activeElement));
    drawCanvases();
    replace(said, aboutRelation(report, by()));
    title.textContent = `Layer ${layer}, head ${head}`;
    replace(detail, aboutHead(report, chosen, model));
    const again = inside && [...inside.querySelectorAll("button")];
    if (again?.length) (again.find((b) => b.textContent === focused) ?? again[0]).focus();
    replace(mapLegend, legend("linear", false));
    if (!last.querySelector("details[open]"))
      replace(last, tableDetails("The heads as a table", () => headsTable(report, by(), index(...place()))));
    root.dataset.heads = `${model} ${by()} ${layer}-${head}`;
  }

  // What another model changes: all but the colors and the chosen head.
  function begin() {
    colors = select(measures(report), by(), (key) => set({ by: key }));
    replace(options, names.length > 1 && field("Model", select(names, model, (other) => set({ model: other }))),
      field("Color by", colors), report.divergence && field("Zoom of the map", zoom));
    const other = model !== asked() ? `Of ${asked()} nothing is known; this is ` : "";
    const left = report.too_long ? ` (${count(report.too_long)} more were too long)` : "";
    about.textContent = `${other}${model}: ${report.layers} layers of ${report.heads} heads, over `
      + `${count(report.sentences)} sentences of ${count(report.tokens)} tokens${left}. `
      + "Where a head looks is not what it does: see what is lost without it, too.";
    likeness = null;
    if (report.divergence) {
      const labels = report.shares.map((_, i) => nameOf(report, i));
      const weights = Float32Array.from(report.divergence.flat(), alike);
      likeness = { n: labels.length, labels, weights, groups: labels.map((_, i) => [i]) };
    }
    replace(below, report.relations.length > 0
      && h("div", { class: "card relations" }, h("h2", {}, "Relations"), relationTable(report)), likeness
      && h("div", { class: "card" }, h("h2", {}, "Which heads look alike"),
        h("p", { class: "hint" },
          "Every head by every head: 100% where both always look at the same, 0% where at nothing "
            + "in common (1 − Jensen-Shannon divergence / ln 2). The table below has the chosen head’s."), map.element,
        mapLegend));
    replace(last);
    draw();
  }

  begin();
  const stop = listen(async (changed) => {
    if (get().view !== "heads" && !viewOfFile()) return;
    if (chosenModel() === model) {
      colors.value = by(), zoom.value = get().zoom;
      return changed.has("zoom") ? drawCanvases() : draw();
    }
    const wanted = chosenModel();
    try {
      const got = await headsReport(wanted);
      if (wanted !== chosenModel()) return; // another one was chosen meanwhile
      model = wanted, report = got, note.hidden = true;
      begin();
    } catch (error) {
      note.hidden = false, note.textContent = error.message;
    }
  });
  let width = root.clientWidth;
  const observer = new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    drawCanvases();
  });
  observer.observe(root);
  return { stop: () => (stop(), observer.disconnect()), redraw: draw };
}
