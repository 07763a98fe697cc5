// A run's log as curves, while it grows; and what the model would fill the same masks with, evaluation by evaluation.
import { bars, button, checkbox, field, h, replace, say, select, svg, table, tableDetails } from "./dom.js";
import { percent, short } from "./numbers.js";
import { askJson } from "./service.js";
import { get, listen, set } from "./state.js";

const EVERY = 5000; // ms between looks at a run that goes on
const WIDTH = 460, HEIGHT = 210, LEFT = 46, BOTTOM = 24, TOP = 8, RIGHT = 8;
const STEP = 700; // ms an evaluation is shown while it plays

// What is drawn: a key of the log's lines, beside the same of evaluations.
const NAMES = {
  loss: "Loss",
  token_loss: "Loss of tokens",
  label_loss: "Loss of next sentence",
  token_accuracy: "Tokens right",
  label_accuracy: "Next sentence right",
  rate: "Learning rate",
  tokens_per_second: "Tokens a second",
};
const HIDDEN = new Set(["step", "tokens", "epoch", "seconds", "skipped", "best", "watched", "gradient_norm"]);

const isShare = (key) => /accuracy|f1|precision|recall|exact_match|matthews|pearson|spearman/.test(key);
const tick = (key, x) => (isShare(key) ? `${+(100 * x).toFixed(4)}%` : `${+x.toPrecision(9)}`);
const number = (key, x) => (isShare(key) ? percent(x) : short(x));

function nameOf(key) {
  return NAMES[key] ?? key.replaceAll("_", " ");
}

function millions(tokens) {
  return tokens >= 1e6 ? `${(tokens / 1e6).toFixed(1)} M` : `${Math.round(tokens / 1e3)} k`;
}

// Round numbers between two, three to six of them.
function ticks(low, high) {
  const rough = (high - low) / 4 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const all = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) all.push(at);
  return all;
}

// One chart: the line of what was learned from, dots of what was held out.
function chart(key, steps, line, dots) {
  const seen = [...line, ...dots.map((d) => d.value)].filter((v) => Number.isFinite(v));
  const last = Math.max(steps.at(-1) ?? 0, ...dots.map((d) => d.step), 1);
  // The first lines of a run are far off what follows: the picture is of the rest.
  const settled = line.length > 40
    ? [...line.slice(Math.floor(line.length / 50)), ...dots.map((d) => d.value)].filter(Number.isFinite)
    : seen;
  let low = Math.min(...settled), high = Math.max(...settled);
  if (low === high) low -= Math.abs(low) / 10 || 0.1, high += Math.abs(high) / 10 || 0.1;
  const x = (step) => LEFT + ((WIDTH - LEFT - RIGHT) * step) / last;
  const y = (value) => TOP + ((HEIGHT - TOP - BOTTOM) * (high - Math.min(high, Math.max(low, value)))) / (high - low);
  const path = line.map((v, i) => (Number.isFinite(v) ? `${x(steps[i]).toFixed(1)},${y(v).toFixed(1)}` : "")).filter(
    Boolean,
  ).join(" ");
  const newest = dots.length
    ? `held out ${number(key, dots.at(-1).value)}`
    : line.length
    ? number(key, line.at(-1))
    : "";
  const gridLine = (
    t,
  ) => [svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(t), y2: y(t), class: "grid" }),
    svg("text", { x: LEFT - 6, y: y(t), class: "axis", "text-anchor": "end", "dominant-baseline": "central" },
      tick(key, t))];
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "curve", role: "img",
    "aria-label": `${nameOf(key)}, step by step; now ${newest}. The table below has the numbers` },
    ticks(low, high).map(gridLine),
    ticks(0, last).map((t) =>
      svg("text", { x: x(t), y: HEIGHT - 6, class: "axis", "text-anchor": t === 0 ? "start" : "middle" },
        t.toLocaleString("en"))
    ), svg("polyline", { points: path, class: "trained" }),
    dots.map((d) =>
      svg("circle", { cx: x(d.step), cy: y(d.value), r: 3.4, class: "held-out" },
        svg("title", {}, `step ${d.step}: ${number(key, d.value)}`))
    ));
  return h("section", { class: "card" },
    h("h2", {}, nameOf(key), h("span", { class: "hint" }, newest ? ` · ${newest}` : "")), drawing);
}

function charts(reply) {
  const { points, evaluations } = reply, steps = points.step ?? [];
  const held = (key) =>
    evaluations.filter((e) => Number.isFinite(e[`held_out_${key}`])).map((e) => ({ step: e.step,
      value: e[`held_out_${key}`] })
    );
  const keys = Object.keys(points).filter((key) => !HIDDEN.has(key) && !key.startsWith("held_out"));
  for (const e of evaluations) // scores that only evaluations have
    for (const key of Object.keys(e))
      if (key.startsWith("held_out_") && !keys.includes(key.slice(9))) keys.push(key.slice(9));
  const parts = keys.includes("token_loss") ? keys.filter((key) => key !== "loss") : keys, order = Object.keys(NAMES);
  const place = (key) => (order.includes(key) ? order.indexOf(key) : order.length);
  return parts.sort((a, b) => place(a) - place(b)).map((key) => chart(key, steps, points[key] ?? [], held(key)));
}

// The masks at one evaluation: bars of what the model would say.
function guesses(evaluation) {
  return evaluation.watched.flatMap((w) =>
    w.masks.map((mask) => bars(w.text, mask.map((g) => [g.token, g.score, percent(g.score)])))
  );
}

export async function trainingView(root) {
  const { runs } = await askJson("training");
  if (!runs.length) {
    replace(root,
      h("div", { class: "card" }, h("h2", {}, "Training"),
        h("p", {}, "No run is shown here. Give its folder to the program, while it learns or later:"),
        h("pre", {},
          'bertie pretrain --data shards --size tiny --out run --watch "The capital of France is [MASK]."\nbertie view --run run')));
    root.dataset.training = "none";
    return { stop: () => {}, redraw: () => {} };
  }
  const chosen = () => (runs.includes(get().run) ? get().run : runs[0]);
  const which = select(runs, chosen(), (run) => set({ run, evaluation: "" }));
  let live = true, timer = 0, playing = 0, reply = null, turn = 0, text = "", waiting = false, stopPlaying = () => {};
  const about = h("p", { class: "hint" }), grid = h("div", { class: "curves" }), masks = h("div", {}),
    below = h("div", {});
  replace(root,
    h("div", { class: "card" },
      h("div", { class: "options" }, field("Run", which),
        checkbox("Look again every 5 seconds", live, (on) => (live = on, plan()))), about), grid, masks, below);

  function drawMasks() {
    const watched = reply.evaluations.filter((e) => e.watched?.length);
    if (!watched.length)
      return replace(masks,
        h("p", { class: "hint" },
          'With --watch "a text with [MASK]" a run also says, at each evaluation, what it would put there.'));
    const at = h("input", { type: "range", min: 0, max: watched.length - 1,
      value: Math.min(watched.length - 1, get().evaluation === "" ? watched.length - 1 : Number(get().evaluation)) });
    const list = h("div", { class: "lists" }), where = h("span", { class: "hint" });
    const show = () => {
      const e = watched[Number(at.value)];
      where.textContent = `after step ${e.step.toLocaleString("en")}`;
      at.setAttribute("aria-valuetext", where.textContent);
      replace(list, guesses(e));
    };
    at.addEventListener("input",
      () => (stopPlaying(), set({ evaluation: Number(at.value) === watched.length - 1 ? "" : at.value }), show()));
    const play = button("Play", () => {
      if (playing) return stopPlaying();
      at.value = 0;
      show();
      play.textContent = "Stop";
      playing = setInterval(() => {
        if (Number(at.value) >= watched.length - 1) return stopPlaying();
        at.value = Number(at.value) + 1;
        show();
      }, STEP);
    });
    stopPlaying = () => {
      if (!playing) return;
      clearInterval(playing);
      playing = 0;
      play.textContent = "Play";
      if (waiting) draw();
    };
    const texts = [...new Set(watched.flatMap((e) => e.watched.map((w) => w.text)))];
    replace(masks,
      h("section", { class: "card" }, h("h2", {}, "The same masks, evaluation by evaluation"),
        h("div", { class: "options" }, field("Evaluation", at), play, where), list,
        tableDetails("As a table",
          () =>
            table("The likeliest word at each evaluation", ["step", ...texts],
              watched.map((e) => [e.step, ...texts.map((t) =>
                e.watched.find((w) =>
                  w.text === t
                )?.masks.map((m) =>
                  m[0]?.token ?? ""
                ).join(" ") ?? "–"
              )])))));
    show();
  }

  function draw() {
    if (!reply) return;
    const { step, tokens, evaluations } = reply;
    root.dataset.training = `${reply.name} ${evaluations.length}`;
    about.textContent = tokens
      ? `${step.toLocaleString("en")} steps, ${
        millions(tokens)
      } tokens. The line is what it learned from, in means of neighbouring lines of the log; dots are held-out text.`
      : "The run has not logged anything yet.";
    replace(grid, charts(reply));
    // What somebody looks at stays as it is: a table that is open, a slider in use, masks that play.
    waiting = playing
      || [masks, below].some((part) => part.contains(document.activeElement) || part.querySelector("details[open]"));
    if (waiting && masks.dataset.run === reply.name) return;
    waiting = false;
    masks.dataset.run = reply.name;
    drawMasks();
    const keys = [...new Set(evaluations.flatMap((e) => Object.keys(e).filter((k) => k.startsWith("held_out_"))))];
    replace(below, evaluations.length
      ? tableDetails("Evaluations as a table",
        () =>
          table("On held-out text", ["step", ...keys.map((k) => nameOf(k.slice(9)))],
            evaluations.map((e) => [e.step, ...keys.map((k) => (Number.isFinite(e[k]) ? number(k, e[k]) : "–"))])))
      : null);
  }

  async function load() {
    const mine = ++turn;
    try {
      const got = await askJson(`training/${encodeURIComponent(chosen())}`);
      if (mine !== turn) return;
      const now = JSON.stringify(got);
      if (now !== text) text = now, reply = got, draw();
      say("");
    } catch (error) {
      if (mine === turn) say(error.message);
      if (!reply) throw error;
    }
  }
  function plan() {
    clearInterval(timer);
    if (live) timer = setInterval(() => document.hidden || load(), EVERY);
  }
  const stop = listen((changed) => {
    if (get().view !== "training" || !changed.has("run")) return;
    which.value = chosen();
    stopPlaying();
    load();
  });
  await load();
  plan();
  return { stop: () => (stop(), clearInterval(timer), clearInterval(playing)), redraw: draw };
}
