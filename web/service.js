// What the server computes; or, in a file that `bertie attend --html` or `bertie heads --html` wrote, what lies in it.
import { fromBase64, fromPicture, halvesToFloats, readNpy } from "./numbers.js";

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const KEY = "bertie-key";
const embedded = document.getElementById("bertie-data");
const inside = embedded ? JSON.parse(embedded.textContent) : null;
const file = inside?.pictures ? decode(inside) : null;

// Attention that lies in the file, if any; and the one view that such a file has.
export function fromFile() {
  return file;
}
export function viewOfFile() {
  return inside && (file ? "attention" : "heads");
}

// What `bertie heads` measured: of the models that brought it along.
export async function reportNames() {
  return inside ? [inside.model] : (await askJson("heads")).models;
}
export async function headsReport(model) {
  const report = inside ?? await askJson(`heads/${encodeURIComponent(model)}`);
  const n = report.layers * report.heads;
  const fits = Array.isArray(report.relations) && report.shares?.length === n
    && report.relations.every((r) => r.by_head?.length === n) && (report.divergence?.length ?? n) === n;
  if (!fits) throw new Refused(`The heads.json of ${model} is not what “bertie heads --json” prints.`, 0);
  return report;
}

export function setKey(key) {
  try {
    sessionStorage.setItem(KEY, key);
  } catch {
    // no storage: the key is asked for again
  }
}

async function ask(path, body, signal) {
  const headers = {};
  if (body) headers["content-type"] = "application/json";
  try {
    const key = sessionStorage.getItem(KEY);
    if (key) headers.authorization = `Bearer ${key}`;
  } catch {
    // no storage
  }
  let reply;
  try {
    reply = await fetch(path, { method: body ? "POST" : "GET", headers, body: body ? JSON.stringify(body) : undefined,
      signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer. Is bertie serve still running?", 0);
  }
  if (reply.ok) return reply;
  let message = `The server answers ${reply.status}.`;
  try {
    const said = await reply.json();
    message = typeof said.error === "string" ? said.error : (said.error?.message ?? message);
  } catch {
    // not JSON: the status says what there is to say
  }
  throw new Refused(message, reply.status);
}

export async function askJson(path, body, signal) {
  return (await ask(path, body, signal)).json();
}

async function askNumbers(path, body, signal) {
  return readNpy(await (await ask(path, body, signal)).arrayBuffer());
}

// The models and what they can do; and which of the routes that not every server has are there.
let known = null;
export async function info() {
  if (inside)
    return { models: [{ name: inside.model, can: [], layers: inside.depth, heads: inside.heads }], offers: {} };
  known ??= (async () => {
    const [told, document] = await Promise.all([askJson("info"), askJson("openapi.json")]);
    const paths = document.paths ?? {};
    const takes = paths["/attention"]?.post?.requestBody?.content?.["application/json"]?.schema?.properties ?? {};
    return { models: told.models, version: told.version,
      offers: { rollout: "/rollout" in paths, gradient: "/gradient" in paths, without: "without" in takes } };
  })();
  try {
    return await known;
  } catch (error) {
    known = null;
    throw error;
  }
}

function decode(data) {
  data.bytes = fromBase64(data.pictures);
  delete data.pictures;
  data.whole = new Map();
  if (data.weights) {
    const bytes = fromBase64(data.weights);
    data.all = data.precision === "float16" ? halvesToFloats(bytes) : fromPicture(bytes);
    delete data.weights;
  }
  return data;
}

export async function firstPicture() {
  const reply = await fetch("web/first.json");
  return { ...decode(await reply.json()), precomputed: true };
}

// What is asked of the model: {text, pair, model, without}. Fields that are empty are not sent.
export function question({ text, pair, model, without }) {
  const q = { text };
  if (pair) q.pair = pair;
  if (model) q.model = model;
  if (without?.length) q.without = without;
  return q;
}

const atlases = new Map();
const MOST_ATLASES = 12;

export async function atlas(q, signal) {
  if (file) return file;
  const key = JSON.stringify(q);
  if (atlases.has(key)) return atlases.get(key);
  const started = performance.now();
  const data = decode(await askJson("atlas", q, signal));
  data.question = q;
  data.took = performance.now() - started;
  if (atlases.size >= MOST_ATLASES) atlases.delete(atlases.keys().next().value);
  atlases.set(key, data);
  return data;
}

export function pictureOf(data, layer, head) {
  const at = data.layers.indexOf(layer) * data.heads + head - 1, size = data.side * data.side;
  return data.bytes.subarray(at * size, (at + 1) * size);
}

// A head at once, if only as good as its picture: null where the picture has less than a cell for each pair.
export function roughHead(data, layer, head) {
  if (data.side !== data.tokens.length || !data.layers.includes(layer)) return null;
  return fromPicture(pictureOf(data, layer, head));
}

const HALF_FROM = 200; // tokens from which on weights come as float16: half as many bytes, three digits

const MOST_KEPT = 40; // heads of a text, a megabyte each where it has 512 tokens

async function kept(data, key, make) {
  if (!data.whole.has(key)) {
    if (data.whole.size >= MOST_KEPT) data.whole.delete(data.whole.keys().next().value);
    data.whole.set(key, make());
  }
  try {
    return await data.whole.get(key);
  } catch (error) {
    data.whole.delete(key);
    throw error;
  }
}

function precisionFor(data) {
  return { format: "npy", precision: data.tokens.length > HALF_FROM ? "float16" : "float32" };
}

function ofFile(data, layer, head) {
  const n = data.tokens.length, at = data.layers.indexOf(layer) * data.heads + head - 1;
  return data.all.subarray(at * n * n, (at + 1) * n * n);
}

export async function head(data, layer, number) {
  if (data.all) return ofFile(data, layer, number);
  if (!data.question) return roughHead(data, layer, number);
  return kept(data, `${layer}.${number}`,
    async () =>
      (await askNumbers("attention", { ...data.question, layers: [layer], heads: [number], ...precisionFor(data) }))
        .values);
}

// The mean over the heads of a layer, or (layer 0) of all layers.
export async function mean(data, layer) {
  const n2 = data.tokens.length ** 2;
  if (data.all || !data.question) {
    const sum = new Float32Array(n2), layers = layer ? [layer] : data.layers;
    let there = 0; // heads that were pruned look nowhere
    for (const l of layers)
      for (let h = 1; h <= data.heads; ++h) {
        const one = data.all ? ofFile(data, l, h) : roughHead(data, l, h);
        there += one.some((w) => w > 0);
        for (let i = 0; i < n2; ++i) sum[i] += one[i];
      }
    for (let i = 0; i < n2; ++i) sum[i] /= there || 1;
    return sum;
  }
  return kept(data, `mean.${layer}`,
    async () =>
      (await askNumbers("mean", { ...data.question, ...(layer ? { layer } : {}), ...precisionFor(data) })).values);
}

export async function rollout(data) {
  return kept(data, "rollout", async () => (await askNumbers("rollout", { ...data.question, format: "npy" })).values);
}

export async function gradient(data, layer, number, target) {
  return kept(data, `gradient.${layer}.${number}.${JSON.stringify(target)}`,
    async () =>
      (await askNumbers("gradient", { ...data.question, layers: [layer], heads: [number], target, format: "npy" }))
        .values);
}

export function task(name, inputs, { model, parameters } = {}) {
  const body = { inputs };
  if (parameters) body.parameters = parameters;
  return askJson(model ? `models/${encodeURIComponent(model)}/pipeline/${name}` : `pipeline/${name}`, body);
}
