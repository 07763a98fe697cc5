// X → Q, K, V → scores → scaling → softmax → output → all heads → Wᴼ, with the real numbers. It plays, stops and steps.
import { button, choice, field, h, replace } from "./dom.js";
import { inkOn, palette, rgb, shade } from "./colors.js";
import { largest, short, within } from "./numbers.js";
import { askJson, info, question } from "./service.js";
import { get, isOff, listen, offPairs, parseOff, set } from "./state.js";
import { composer } from "./attention.js";
import { adjusted, inputsOf, NAMES, origin, STEPS } from "./steps.js";

const MOST_ROWS = 12, MOST_COLUMNS = 8, CELL_MILLISECONDS = 220;
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Of a long list: as many as can be shown, with `must` among them.
function shownOf(count, most, must = 0) {
  if (count <= most) return Array.from({ length: count }, (_, i) => i);
  const first = Math.min(Math.max(0, must - Math.floor(most / 2)), count - most);
  return Array.from({ length: most }, (_, i) => first + i);
}

export async function explainView(root) {
  const { models } = await info();
  const ask = composer(models, { text: "text", pair: "pair", model: "model" }, "Text");
  const layer = h("input", { type: "number", min: 1, max: Math.max(...models.map((m) => m.layers)),
    onchange: () => set({ layer: layer.value }) });
  const number = h("input", { type: "number", min: 1, max: Math.max(...models.map((m) => m.heads)),
    onchange: () => set({ head: number.value }) });
  const exampleHead = choice("Head", [["1", "1"], ["2", "2"]], "1", (example) => set({ example, cell: "" }));
  const which = choice("Follow", [["1", "“You found me”", "three words made for working by hand"], ["", "my text"]],
    get().example && "1", (example) => set({ example, cell: "", factor: "", temperature: 1 }));
  const mine = h("div", { class: "card" }, ask.element);
  const place = h("div", { class: "options" }, which, exampleHead, field("Layer", layer), field("Head", number));
  const steps = h("ol", { class: "steps", "aria-label": "Steps" });
  const stage = h("div", { class: "stage" }), words = h("p", { class: "origin", "aria-live": "polite" }),
    sliders = h("div", { class: "options" }), off = h("p", { class: "hint" }),
    note = h("p", { class: "note bad", hidden: true });
  const play = button("▶ play", () => toggle(), { class: "primary" });
  const controls = h("div", { class: "player", role: "group", "aria-label": "Player" }, button("◀ step", () => go(-1)),
    play, button("step ▶", () => go(1)), button("next number", () => nextCell()));
  replace(root, place, mine, h("div", { class: "card" }, steps, controls, note, off, sliders, stage, words));

  let data = null, shown = null, timer = null, turn = 0, cells = [];
  const step = () => STEPS[Math.min(STEPS.length - 1, Math.max(0, Number(get().step) || 0))];
  const factor = () => (get().factor === "" ? data.scale : Number(get().factor)),
    temperature = () => Number(get().temperature) || 1;

  function go(by) {
    set({ step: Math.min(STEPS.length - 1, Math.max(0, (Number(get().step) || 0) + by)), cell: "" });
  }
  function nextCell() {
    const at = cells.findIndex((c) => `${c[0]}.${c[1]}` === get().cell);
    if (at + 1 < cells.length) set({ cell: `${cells[at + 1][0]}.${cells[at + 1][1]}` });
    else if ((Number(get().step) || 0) + 1 < STEPS.length) go(1);
    else stopPlaying();
  }
  function stopPlaying() {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶ play";
  }
  function toggle() {
    if (timer) return stopPlaying();
    play.textContent = "❚❚ stop";
    // Who asked for less motion gets whole steps.
    timer = setInterval(
      () => (still() ? ((Number(get().step) || 0) + 1 < STEPS.length ? go(1) : stopPlaying()) : nextCell()),
      still() ? 2500 : CELL_MILLISECONDS,
    );
  }

  // A matrix as a grid of numbers. `lit(i, j)`: part of what the chosen number comes from.
  function matrix(name, { out, cursor, use }) {
    const values = shown[name], perToken = !name.startsWith("w_"),
      square = ["scores", "scaled", "weights"].includes(name);
    const rows = shownOf(values.length, perToken ? MOST_ROWS : MOST_COLUMNS, perToken ? cursor?.[0] : 0);
    const must = out ? cursor?.[1] : use === "column" || use === "cell" ? cursor?.[1] : 0;
    let columns = shownOf(values[0].length, square ? MOST_ROWS : MOST_COLUMNS, must ?? 0);
    if (name === "concatenated" && out) { // some of every head, so that all are seen beside each other
      const width = shown.v[0].length, each = Math.max(1, Math.floor(24 / shown.heads));
      columns = Array.from({ length: shown.heads }, (_, k) =>
        Array.from({ length: Math.min(each, width) }, (_, c) => k * width + c)).flat();
    }
    const signed = name !== "weights",
      most = signed ? largest(rows.flatMap((i) => columns.map((j) => values[i][j] ?? 0))) || 1 : 1,
      colors = palette(signed);
    const lit = (i, j) =>
      cursor
      && (use === "row"
        ? i === cursor[0]
        : use === "row-of-column"
        ? i === cursor[1]
        : use === "column"
        ? j === cursor[1]
        : use === "cell" || out
        ? i === cursor[0] && j === cursor[1]
        : use === "block"
        ? i === cursor[0]
        : false);
    const width = shown.v[0].length;
    const head = h("tr", {}, h("td", {}),
      columns.map((j) =>
        h("th", { scope: "col", class: name === "concatenated" && j % width === 0 ? "block" : undefined }, square
          ? shown.tokens[j]
          : name === "concatenated"
          ? `${shown.head_numbers[Math.floor(j / width)]}·${(j % width) + 1}`
          : j + 1)
      ));
    const body = rows.map((i) =>
      h("tr", {}, h("th", { scope: "row" }, perToken ? shown.tokens[i] : i + 1), columns.map((j) => {
        const at = shade((values[i][j] ?? 0) / most * 0.8, signed), on = lit(i, j);
        const style = { background: rgb(colors, at), color: inkOn(colors, at) };
        const cell = h("td", { style,
          class: [on ? "lit" : "", name === "concatenated" && j % width === 0 ? "block" : ""].join(" ") || undefined },
          short(values[i][j]));
        if (out) {
          cell.tabIndex = cursor ? (on ? 0 : -1) : i === rows[0] && j === columns[0] ? 0 : -1;
          cell.dataset.cell = `${i}.${j}`;
        }
        return cell;
      }))
    );
    const size = `${values.length} × ${values[0].length}`,
      all = rows.length === values.length && columns.length === values[0].length;
    if (out) cells = rows.flatMap((i) => columns.map((j) => [i, j]));
    return h("div", { class: `matrix ${out ? "out" : ""}` },
      h("div", { class: "scroll", ...(out ? {} : { tabindex: "0", role: "region", "aria-label": NAMES[name] }) },
        h("table", {},
          h("caption", {}, h("b", {}, NAMES[name]),
            `  (${size}${all ? "" : `; ${rows.length} × ${columns.length} shown`})`), h("thead", {}, head),
          h("tbody", {}, body))));
  }

  function draw() {
    if (!data) return;
    shown = adjusted(data, factor(), temperature());
    const [key, formula, meaning] = step(), cell = /^(\d+)\.(\d+)$/.exec(get().cell);
    const inside = cell && Number(cell[1]) < shown[key].length && Number(cell[2]) < shown[key][0].length;
    const cursor = inside ? [Number(cell[1]), Number(cell[2])] : null;
    const focused = document.activeElement?.dataset?.cell !== undefined && stage.contains(document.activeElement);
    replace(steps,
      STEPS.map(([name, label], i) =>
        h("li", {}, button(label, () =>
          set({ step: i, cell: "" }), { "aria-current": name === key ? "step" : undefined }))
      ));
    replace(stage, h("p", { class: "meaning" }, h("b", {}, formula), `: ${meaning}.`),
      h("div", { class: "matrices" }, inputsOf(key).map(([name, use]) => matrix(name, { use, cursor })),
        inputsOf(key).length ? h("span", { class: "arrow", "aria-hidden": "true" }, "→") : null,
        matrix(key, { out: true, cursor })));
    words.textContent = cursor
      ? origin(shown, key, ...cursor, { factor: factor(), temperature: temperature() })
      : "Point at a number, or Tab to it and use the arrow keys, to see where it comes from.";
    if (focused) stage.querySelector('[data-cell][tabindex="0"]')?.focus();
    drawSliders(key, cursor);
    root.dataset.step = key;
  }

  function drawSliders(key, cursor) {
    const wanted = ["scaled", "weights", "output"].includes(key);
    sliders.hidden = !wanted;
    if (!wanted) return;
    if (!sliders.firstChild) {
      const power = h("input", { type: "range", min: -6, max: 2, step: 0.25, oninput: () =>
        set({ factor: 2 ** Number(power.value) }) });
      const heat = h("input", { type: "range", min: -3, max: 3, step: 0.25, oninput: () =>
        set({ temperature: 2 ** Number(heat.value) }) });
      sliders.power = power, sliders.heat = heat, sliders.told = h("p", { class: "hint wide", "aria-live": "polite" });
      replace(sliders, field("Scores are multiplied by", power), field("Temperature", heat),
        button("as the model has it", () => set({ factor: "", temperature: 1 })), sliders.told);
    }
    sliders.power.value = Math.log2(factor()), sliders.heat.value = Math.log2(temperature());
    const row = shown.weights[cursor?.[0] ?? 0], most = Math.max(...row),
      entropy = row.reduce((sum, w) => sum - (w > 0 ? w * Math.log(w) : 0), 0);
    sliders.told.textContent = `× ${short(factor())}${
      factor() === data.scale ? ` = 1/√${data.d_k}` : ""
    }, temperature ${short(temperature())}: “${shown.tokens[cursor?.[0] ?? 0]}” gives at most ${
      (100 * most).toFixed(1)
    }% to one token; entropy ${entropy.toFixed(2)} of ${
      Math.log(row.length).toFixed(2)
    } nats; steepest slope of its softmax ${
      Math.max(...row.map((w) => w * (1 - w))).toFixed(3)
    } (a sharp softmax has none, and learns nothing).`;
  }

  const cellOf = (event) => event.target.closest?.("[data-cell]")?.dataset.cell;
  stage.addEventListener("pointerover", (event) => !timer && cellOf(event) && set({ cell: cellOf(event) }));
  stage.addEventListener("focusin",
    (event) => cellOf(event) && cellOf(event) !== get().cell && set({ cell: cellOf(event) }));
  stage.addEventListener("keydown", (event) => {
    const at = cells.findIndex((c) => `${c[0]}.${c[1]}` === cellOf(event)), wide = new Set(cells.map((c) => c[1])).size;
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide }[event.key];
    if (at < 0 || !by) return;
    event.preventDefault();
    const to = cells[at + by];
    if (to) set({ cell: `${to[0]}.${to[1]}` });
  });

  async function load() {
    const s = get(), mineNow = ++turn, example = Boolean(s.example);
    which.querySelector(`input[value="${example ? "1" : ""}"]`).checked = true;
    mine.hidden = example, layer.parentElement.hidden = example, number.parentElement.hidden = example,
      exampleHead.hidden = !example;
    const head = s.example === "2" ? 2 : 1;
    if (example) exampleHead.querySelector(`input[value="${head}"]`).checked = true;
    const model = models.find((m) => m.name === s.model) ?? models[0];
    const at = { layer: within(s.layer, model.layers), head: within(s.head, model.heads) };
    layer.value = at.layer, number.value = at.head;
    try {
      const asked = question({ ...s, without: offPairs(s.off, model) });
      const reply = await askJson("explain", example ? { head } : { ...asked, ...at });
      if (mineNow !== turn) return;
      data = { ...reply, off: !example && isOff(s.off, at.layer, at.head) };
      replace(off, !example && asked.without
        && ["Heads switched off: ",
          parseOff(s.off).map(([l, n]) => (n === "*" ? `all of layer ${l}` : `${l}.${n}`)).join(", "), " ",
          button("all on", () => set({ off: "" }), { class: "chip" })]);
      note.hidden = true;
      draw();
    } catch (error) {
      if (mineNow !== turn) return;
      note.hidden = false;
      note.textContent = error.message;
    }
  }
  const stop = listen((changed) => {
    if (get().view !== "explain") return;
    ask.refresh(changed);
    if (["text", "pair", "model", "layer", "head", "example", "off"].some((k) => changed.has(k))) load();
    else draw();
  });
  await load();
  return { stop: () => (stop(), stopPlaying()), redraw: draw };
}
