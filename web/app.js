// The page: its views, the light, and where the server's key goes.
import { button, field, h, replace, say } from "./dom.js";
import { isDark } from "./colors.js";
import { begin, get, linkTo, listen } from "./state.js";
import { Refused, setKey, viewOfFile } from "./service.js";
import { attentionView } from "./attention.js";
import { explainView } from "./explain.js";
import { mechanismsView } from "./mechanisms.js";
import { headsView } from "./heads.js";
import { tryView } from "./try.js";
import { trainingView } from "./training.js";

const VIEWS = {
  attention: ["Attention", attentionView],
  explain: ["Explain", explainView],
  mechanisms: ["Mechanisms", mechanismsView],
  heads: ["Heads", headsView],
  try: ["Try", tryView],
  training: ["Training", trainingView],
};
const THEME = "bertie-theme";

let shown = { name: null, stop: () => {}, redraw: () => {} };

function navigation() {
  const nav = document.getElementById("views"), s = get();
  const names = viewOfFile() ? [viewOfFile()] : Object.keys(VIEWS);
  const links = names.map((name) =>
    h("a", { href: linkTo({ view: name }), "aria-current": s.view === name ? "page" : undefined }, VIEWS[name][0])
  );
  const had = [...nav.children].indexOf(document.activeElement);
  replace(nav, links);
  if (had >= 0) nav.children[had]?.focus();
}

function askForKey() {
  const key = h("input", { type: "password", autocomplete: "off" });
  const form = h("form", { class: "card", onsubmit: (event) => {
    event.preventDefault(), setKey(key.value), show();
  } }, field("This server asks for a key", key),
    button("Use it", () => (setKey(key.value), show()), { class: "primary" }));
  replace(document.getElementById("main"), form);
  key.focus();
}

async function show() {
  const name = viewOfFile() ?? (VIEWS[get().view] ? get().view : "attention"), main = document.getElementById("main");
  shown.stop();
  shown = { name, stop: () => {}, redraw: () => {} };
  say("");
  document.title = `${VIEWS[name][0]} · Bertie`;
  navigation();
  const root = h("div", { class: `view ${name}` });
  replace(main, root);
  try {
    const view = await VIEWS[name][1](root);
    if (!root.isConnected) return view.stop(); // another view was chosen meanwhile
    shown = { name, ...view };
    document.documentElement.dataset.ready = name;
  } catch (error) {
    if (!root.isConnected) return; // another view was chosen meanwhile
    if (error instanceof Refused && error.status === 401) return askForKey();
    if (!root.querySelector(".bad")) root.append(h("p", { class: "note bad" }, error.message));
    if (!(error instanceof Refused)) throw error;
  }
}

function theme(to) {
  if (to) document.documentElement.dataset.theme = to;
  try {
    if (to) localStorage.setItem(THEME, to);
    else if (localStorage.getItem(THEME)) document.documentElement.dataset.theme = localStorage.getItem(THEME);
  } catch {
    // no storage: the system's light is taken next time
  }
  const other = isDark() ? "light" : "dark";
  replace(document.getElementById("tools"),
    button(isDark() ? "☀" : "☾", () => theme(other), { class: "icon", "aria-label": `${other} colors`,
      title: `${other} colors` }));
  shown.redraw();
}

begin();
theme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme());
document.getElementById("skip").addEventListener("click", () => document.getElementById("main").focus());
listen((changed) => (changed.has("view") ? show() : navigation()));
show();
