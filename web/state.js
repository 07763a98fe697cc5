// What is shown, all of it in the address: a link to the page is a link to the picture.

export const BANK = "The bank deposited the money near the river bank.";

export const START = {
  view: "attention",
  text: BANK,
  pair: "",
  model: "",
  layer: "5",
  head: "3",
  source: "head",
  token: "",
  color: "pattern",
  special: "show",
  words: "",
  scale: "root",
  zoom: "0",
  off: "",
  compare: "",
  text2: "",
  model2: "",
  target: "",
  mask: "1",
  example: "1",
  step: "0",
  cell: "",
  temperature: "1",
  factor: "",
  length: "2048",
  task: "fill-mask",
  input: "",
  input2: "",
  at: "",
  run: "",
  evaluation: "",
  by: "",
};

// A file that `bertie attend --html` or `bertie heads --html` wrote says what it opens with.
for (const [key, value] of Object.entries(document.getElementById("bertie-data")?.dataset ?? {})) START[key] = value;

const state = { ...START };
const listeners = new Set();

function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const changed = new Set();
  for (const key of Object.keys(START)) {
    const value = given.get(key) ?? START[key];
    if (state[key] !== value) state[key] = value, changed.add(key);
  }
  return changed;
}

export function linkTo(changes) {
  const given = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...state, ...changes })) if (value !== START[key]) given.set(key, value);
  return `#${given}`;
}

export function get() {
  return state;
}

// Moves within one picture replace the address; another text, view or model is a place to come back to.
export function set(changes) {
  const changed = new Set();
  for (const [key, value] of Object.entries(changes)) {
    const text = String(value);
    if (state[key] !== text) state[key] = text, changed.add(key);
  }
  if (!changed.size) return;
  const far = ["view", "text", "pair", "model", "text2", "model2", "task", "run"].some((key) => changed.has(key));
  const hash = linkTo({});
  try {
    if (far) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
  } catch {
    location.hash = hash; // pages from disk in some browsers
  }
  for (const listener of listeners) listener(changed);
}

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function moved() {
  const changed = read();
  if (changed.size) { for (const listener of listeners) listener(changed); }
}

export function begin() {
  read();
  addEventListener("popstate", moved);
  addEventListener("hashchange", moved);
}

// Heads that are switched off: "5.3,6.*".
export function parseOff(text) {
  const found = text.split(",").map((part) => /^(\d+)\.(\d+|\*)$/.exec(part.trim())).filter(Boolean);
  return found.map(([, layer, head]) => [Number(layer), head === "*" ? "*" : Number(head)]);
}

export function isOff(text, layer, head) {
  return parseOff(text).some(([l, h]) => l === layer && (h === "*" || h === head));
}

export function toggleOff(text, layer, head) {
  const all = parseOff(text), same = ([l, h]) => l === layer && h === head;
  const next = all.some(same)
    ? all.filter((x) => !same(x))
    : head === "*"
    ? [...all.filter(([l]) => l !== layer), [layer, "*"]]
    : [...all, [layer, head]];
  return next.map(([l, h]) => `${l}.${h}`).join(",");
}

// The heads that are off, of those that a model has.
export function offPairs(text, { layers, heads }) {
  const all = (l) => Array.from({ length: heads }, (_, i) => [l, i + 1]);
  const pairs = parseOff(text).flatMap(([l, h]) => (h === "*" ? all(l) : [[l, h]]));
  return pairs.filter(([l, h]) => l <= layers && h <= heads);
}
