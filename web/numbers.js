// Weights of n × n tokens, and what one makes of them. A view is {n, labels, weights, groups}: rows look at columns;
// groups[i] are the tokens that item i stands for.

export function fromBase64(text) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

let halves = null; // what each of the 65,536 float16 numbers is

export function halvesToFloats(bytes) {
  halves ??= Float32Array.from({ length: 65536 }, (_, half) => {
    const exponent = (half >> 10) & 31, fraction = half & 1023, sign = half & 0x8000 ? -1 : 1;
    return sign
      * (exponent === 0
        ? fraction * 2 ** -24
        : exponent === 31
        ? Infinity
        : (1 + fraction / 1024) * 2 ** (exponent - 15));
  });
  const given = new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 2),
    out = new Float32Array(given.length);
  for (let i = 0; i < out.length; ++i) out[i] = halves[given[i]];
  return out;
}

// Pictures hold 255·√w.
export function fromPicture(bytes) {
  const out = new Float32Array(bytes.length);
  for (let i = 0; i < out.length; ++i) out[i] = (bytes[i] / 255) ** 2;
  return out;
}

// NumPy's format: a header that names type and shape, then the numbers.
export function readNpy(buffer) {
  const view = new DataView(buffer), major = view.getUint8(6);
  const start = major === 1 ? 10 : 12, length = major === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  const header = new TextDecoder().decode(new Uint8Array(buffer, start, length));
  const type = /'descr': *'([^']*)'/.exec(header)[1];
  const shape = /'shape': *\(([^)]*)\)/.exec(header)[1].split(",").filter((s) => s.trim()).map(Number);
  const bytes = new Uint8Array(buffer.slice(start + length));
  const values = type === "<f4"
    ? new Float32Array(bytes.buffer)
    : type === "<f2"
    ? halvesToFloats(bytes)
    : Float32Array.from(bytes, (b) => b / 255);
  return { shape, values };
}

export function tokenView(data, weights) {
  return { n: data.tokens.length, labels: data.tokens, weights, groups: data.tokens.map((_, i) => [i]) };
}

// Pieces joined to words: sums over the pieces that are looked at, means over those that look (Clark et al. 2019).
export function joinWords(view, data) {
  const groups = [], labels = [];
  let last = null;
  for (let i = 0; i < data.tokens.length; ++i) {
    const sequence = data.sequences[i], key = sequence < 0 ? null : `${sequence}.${data.words[i]}`;
    const piece = data.tokens[i].replace(/^##/, "").replace(/^[ĠĊ▁]/, "");
    if (key !== null && key === last) {
      groups.at(-1).push(i);
      labels[labels.length - 1] += piece;
    } else {
      groups.push([i]);
      labels.push(sequence < 0 ? data.tokens[i] : piece || data.tokens[i]);
    }
    last = key;
  }
  const n = groups.length, m = view.n, weights = new Float32Array(n * n);
  for (let a = 0; a < n; ++a)
    for (let b = 0; b < n; ++b) {
      let sum = 0;
      for (const i of groups[a]) for (const j of groups[b]) sum += view.weights[i * m + j];
      weights[a * n + b] = sum / groups[a].length;
    }
  return { n, labels, weights, groups };
}

// Without [CLS] and [SEP]; with `renormalize` what is left of a row sums to 1 again.
export function withoutSpecial(view, data, renormalize) {
  const kept = [...Array(view.n).keys()].filter((i) => data.sequences[view.groups[i][0]] >= 0);
  const n = kept.length, weights = new Float32Array(n * n);
  kept.forEach((i, a) => {
    let sum = 0;
    kept.forEach((j, b) => (sum += weights[a * n + b] = view.weights[i * view.n + j]));
    if (renormalize && sum !== 0) { for (let b = 0; b < n; ++b) weights[a * n + b] /= sum; }
  });
  return { n, labels: kept.map((i) => view.labels[i]), weights, groups: kept.map((i) => view.groups[i]) };
}

export function softmax(row) {
  const most = Math.max(...row), exps = row.map((x) => Math.exp(x - most)), sum = exps.reduce((a, b) => a + b, 0);
  return exps.map((x) => x / sum);
}

export function largest(values) {
  let most = 0;
  for (const v of values) if (Math.abs(v) > most) most = Math.abs(v);
  return most;
}

// The k largest as [index, value], largest first.
export function top(values, k) {
  return [...values].map((v, i) => [i, v]).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]) || a[0] - b[0]).slice(0, k);
}

export function row(view, i) {
  return view.weights.subarray(i * view.n, (i + 1) * view.n);
}

export function column(view, j) {
  const out = new Float32Array(view.n);
  for (let i = 0; i < view.n; ++i) out[i] = view.weights[i * view.n + j];
  return out;
}

export function percent(w) {
  const p = 100 * w, size = Math.abs(p);
  return `${
    size === 0
      ? "0"
      : size >= 99.95 && size < 100
      ? p.toFixed(2)
      : size >= 10
      ? p.toFixed(1)
      : size >= 0.1
      ? p.toFixed(2)
      : p.toExponential(1)
  }%`;
}

// What a link or a field says, as a number from 1 to `most`.
export function within(x, most) {
  return Math.min(most, Math.max(1, Number(x) || 1));
}

export function exact(w) {
  return w === 0 ? "0" : Math.abs(w) >= 1e-4 ? w.toPrecision(5) : w.toExponential(3);
}

// As the page shows a matrix of numbers: four places, or few digits of a large one.
export function short(x) {
  if (x === null || x === undefined) return "−∞";
  if (!Number.isFinite(x)) return "−∞";
  const size = Math.abs(x);
  const text = size >= 100 ? x.toFixed(0) : size >= 10 ? x.toFixed(2) : size >= 1 ? x.toFixed(3) : x.toFixed(4);
  return text.replace("-", "−");
}

// Tokens that look alike get their place: "the(2)".
export function placedLabels(labels) {
  const count = new Map();
  for (const l of labels) count.set(l, (count.get(l) ?? 0) + 1);
  return labels.map((l, i) => (count.get(l) > 1 ? `${l}(${i + 1})` : l));
}
