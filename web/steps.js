// The steps of self-attention as matrices, and where each of their numbers comes from.
import { short, softmax } from "./numbers.js";

export const STEPS = [
  ["x", "X", "what comes into the layer: a row of numbers for each token"],
  ["q", "Q = X·Wᵠ + b", "a query for each token: what it looks for"],
  ["k", "K = X·Wᴷ + b", "a key for each token: what it can be found by"],
  ["v", "V = X·Wⱽ + b", "a value for each token: what it has to give"],
  ["scores", "Q·Kᵀ", "how well each query (row) meets each key (column)"],
  ["scaled", "Q·Kᵀ/√d", "scaled down, so that many numbers do not make the softmax all or nothing"],
  ["weights", "softmax", "each row becomes shares that sum to 1: the attention"],
  ["output", "weights·V", "each token takes the values of the others, by their shares"],
  ["concatenated", "all heads", "the outputs of all heads beside each other"],
  ["result", "concat·Wᴼ + b", "the heads mixed: what the layer adds to X"],
];

// The reply with scale and temperature as the sliders have them. Untouched, the numbers are the model's own.
export function adjusted(data, factor, temperature) {
  if (factor === data.scale && temperature === 1) return data;
  const scaled = data.scores.map((r, i) => r.map((x, j) => (data.scaled[i][j] === null ? null : x * factor)));
  const weights = scaled.map((r) => softmax(r.map((x) => (x === null ? -Infinity : x / temperature))));
  const output = weights.map((r) => data.v[0].map((_, c) => r.reduce((sum, w, j) => sum + w * data.v[j][c], 0)));
  const width = data.v[0].length, first = (data.place - 1) * width;
  const concatenated = data.off
    ? data.concatenated
    : data.concatenated.map((r, i) => r.map((x, c) => (c >= first && c < first + width ? output[i][c - first] : x)));
  const result = concatenated.map((r) =>
    data.w_o[0].map((_, c) => r.reduce((sum, x, k) => sum + x * data.w_o[k][c], data.b_o[c]))
  );
  return { ...data, scaled, weights, output, concatenated, result };
}

const SOURCES = { q: ["x", "w_q", "b_q"], k: ["x", "w_k", "b_k"], v: ["x", "w_v", "b_v"],
  result: ["concatenated", "w_o", "b_o"] };
export const NAMES = { x: "X", w_q: "Wᵠ", w_k: "Wᴷ", w_v: "Wⱽ", q: "Q", k: "K", v: "V", scores: "scores",
  scaled: "scaled", weights: "weights", output: "output", concatenated: "all heads", w_o: "Wᴼ", result: "result" };

// The matrices that a step reads, as [name, how a cell (i, j) of the result uses it: its row, column or cell].
export function inputsOf(step) {
  if (SOURCES[step]) return [[SOURCES[step][0], "row"], [SOURCES[step][1], "column"]];
  if (step === "scores") return [["q", "row"], ["k", "row-of-column"]];
  if (step === "scaled") return [["scores", "cell"]];
  if (step === "weights") return [["scaled", "row"]];
  if (step === "output") return [["weights", "row"], ["v", "column"]];
  if (step === "concatenated") return [["output", "block"]];
  return [];
}

const MOST_TERMS = 4;

// a₁·b₁ + a₂·b₂ + …: all of them where they are few, else the largest.
function products(a, b, names) {
  const terms = a.map((x, i) => [i, x, b[i], x * b[i]]);
  const shown = terms.length <= MOST_TERMS
    ? terms
    : [...terms].sort((s, t) => Math.abs(t[3]) - Math.abs(s[3])).slice(0, MOST_TERMS).sort((s, t) => s[0] - t[0]);
  const text = shown.map(([i, x, y]) => `${short(x)}·${short(y)}${names ? ` (${names[i]})` : ""}`).join(" + ");
  return terms.length <= MOST_TERMS ? text : `${text} + ${terms.length - MOST_TERMS} smaller products`;
}

// Where number (i, j) of a step comes from, in words and figures.
export function origin(data, step, i, j, { factor, temperature }) {
  const token = data.tokens[i], value = short(data[step][i][j]);
  if (step === "x")
    return data.layers === 1
      ? `“${token}” is given as these numbers`
      : data.layer === 1
      ? `number ${j + 1} of “${token}”: its embedding (word, position and segment)`
      : `number ${j + 1} of “${token}”, as layer ${data.layer - 1} left it`;
  if (SOURCES[step]) {
    const [from, w, b] = SOURCES[step], column = data[w].map((r) => r[j]), bias = data[b]?.[j] ?? 0;
    return `row “${token}” of ${NAMES[from]} times column ${j + 1} of ${NAMES[w]}: ${products(data[from][i], column)}${
      bias ? ` + ${short(bias)}` : ""
    } = ${value}`;
  }
  if (step === "scores")
    return `the query of “${token}” times the key of “${data.tokens[j]}”: ${products(data.q[i], data.k[j])} = ${value}`;
  if (step === "scaled")
    return data.scaled[i][j] === null
      ? "a token does not see what comes after it"
      : `${short(data.scores[i][j])} · ${short(factor)} = ${value}   (1/√${data.d_k} is ${
        short(1 / Math.sqrt(data.d_k))
      })`;
  if (step === "weights") {
    const row = data.scaled[i].map((x) => (x === null ? 0 : Math.exp(x / temperature))), sum = row.reduce((a, b) =>
      a + b, 0);
    return `e^${short(data.scaled[i][j])}${temperature === 1 ? "" : `/${short(temperature)}`} = ${
      short(row[j])
    }, and the row’s sum is ${short(sum)}: ${short(row[j])} / ${short(sum)} = ${value}`;
  }
  if (step === "output")
    return `shares of “${token}” times number ${j + 1} of each value: ${
      products(data.weights[i], data.v.map((r) => r[j]), data.tokens)
    } = ${value}`;
  const width = data.v[0].length;
  return `number ${(j % width) + 1} of head ${data.head_numbers[Math.floor(j / width)]}’s output for “${token}”`;
}
