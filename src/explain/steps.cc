#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "bertie/error.h"
#include "bertie/explain.h"
#include "core/arena.h"
#include "core/parallel.h"
#include "kernels/gemm.h"
#include "model/access.h"
#include "tasks/text_model_state.h"

namespace bertie {
namespace {

void need(bool holds, std::string_view what) {
  if (!holds) throw Error(fmt::format("explain: {}", what));
}

// y = x·wᵀ + b by the model's own kernel, so that a model's numbers come out to the bit.
Grid project(Matrix<const float> x, Matrix<const float> w, std::span<const float> b) {
  const Block packed(kernels::packed_floats(w.rows(), w.cols()) * sizeof(float));
  const Block bias(kernels::panels_for(w.rows()) * kernels::kPanel * sizeof(float));
  const kernels::Linear linear{
      .packed = packed.as<float>(), .bias = bias.as<float>(), .inputs = w.cols(), .outputs = w.rows()};
  kernels::pack_rows(w, 0, linear);
  std::copy(b.begin(), b.end(), linear.bias);
  Grid y(x.rows(), w.rows());
  Team team;
  kernels::linear_forward(x, linear, kernels::Activation::kNone, y, team);
  return y;
}

Grid copy_of(Matrix<const float> m) {
  Grid grid(m.rows(), m.cols());
  for (size_t r = 0; r < m.rows(); ++r) std::copy_n(m.row(r), m.cols(), &grid.values[r * m.cols()]);
  return grid;
}

Grid transposed(Matrix<const float> m) {
  Grid grid(m.cols(), m.rows());
  for (size_t r = 0; r < m.rows(); ++r)
    for (size_t c = 0; c < m.cols(); ++c) grid(c, r) = m(r, c);
  return grid;
}

std::vector<float> bias_or_zeros(std::span<const float> bias, size_t first, size_t count) {
  if (bias.empty()) return std::vector<float>(count);
  const auto part = bias.subspan(first, count);
  return {part.begin(), part.end()};
}

void check(Matrix<const float> x, const MultiHead& w, size_t heads, size_t head) {
  need(heads > 0, "heads is 0; it must be 1 or more");
  if (head >= heads)
    throw Error(fmt::format("explain: there is no head {}: heads are 0 to {}", head, heads - 1));
  need(!x.empty(), "x is empty");
  for (const auto& [matrix, name] : {std::pair(w.wq, "wq"), {w.wk, "wk"}, {w.wv, "wv"}})
    if (matrix.cols() != x.cols())
      throw Error(fmt::format("explain: {} has {} columns but x has {}", name, matrix.cols(), x.cols()));
  need(!w.wq.empty() && w.wq.rows() == w.wk.rows(), "wq and wk must have the same number of rows, not 0");
  need(!w.wv.empty() && w.wq.rows() % heads == 0 && w.wv.rows() % heads == 0,
       "the heads must divide the rows of wq, wk and wv");
  need(!w.wo.empty() && w.wo.cols() == w.wv.rows(), "wo must have as many columns as wv has rows");
  const auto fits = [](std::span<const float> bias, size_t size) {
    return bias.empty() || bias.size() == size;
  };
  need(fits(w.bq, w.wq.rows()) && fits(w.bk, w.wk.rows()) && fits(w.bv, w.wv.rows()) &&
           fits(w.bo, w.wo.rows()),
       "each bias must have as many numbers as its matrix has rows");
}

}  // namespace

namespace {

struct Heads {
  size_t heads, head;  // how many, and which is wanted
  bool causal = false;
  double scale = 1;
  std::span<const size_t> off = {};  // those that give nothing to W^O
};

AttentionSteps steps_of(Matrix<const float> x, const MultiHead& w, const Heads& of) {
  const auto [heads, head, causal, scale, off] = of;
  check(x, w, heads, head);
  const size_t n = x.rows(), d = w.wq.rows() / heads, dv = w.wv.rows() / heads;
  const Grid q = project(x, w.wq, w.bq), k = project(x, w.wk, w.bk), v = project(x, w.wv, w.bv);

  AttentionSteps s;
  s.head = s.place = head, s.heads = heads;
  s.numbers.resize(heads);
  std::iota(s.numbers.begin(), s.numbers.end(), size_t{0});
  s.causal = causal, s.scale = scale;
  s.x = copy_of(x);
  s.w_q = transposed(w.wq.slice_rows(head * d, d));
  s.w_k = transposed(w.wk.slice_rows(head * d, d));
  s.w_v = transposed(w.wv.slice_rows(head * dv, dv));
  s.b_q = bias_or_zeros(w.bq, head * d, d);
  s.b_k = bias_or_zeros(w.bk, head * d, d);
  s.b_v = bias_or_zeros(w.bv, head * dv, dv);
  s.q = copy_of(Matrix<const float>(q).slice_cols(head * d, d));
  s.k = copy_of(Matrix<const float>(k).slice_cols(head * d, d));
  s.v = copy_of(Matrix<const float>(v).slice_cols(head * dv, dv));

  s.scores = s.scaled = s.weights = Grid(n, n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      double score = 0;
      for (size_t c = 0; c < d; ++c) score += double(s.q(i, c)) * double(s.k(j, c));
      s.scores(i, j) = float(score);
      s.scaled(i, j) = causal && j > i ? -std::numeric_limits<float>::infinity() : float(score * scale);
    }
  // All heads at once, as in the model: the concatenation is how their outputs lie in memory.
  s.concatenated = Grid(n, heads * dv);
  std::vector<float> weights(heads * n * n);
  attention(q, k, v, s.concatenated, weights,
            {.heads = heads,
             .score = Score::scaled_by(float(scale)),
             .look = causal ? Look::causal() : Look::full()});
  std::copy_n(&weights[head * n * n], n * n, s.weights.values.data());
  s.output = copy_of(Matrix<const float>(s.concatenated).slice_cols(head * dv, dv));
  for (const size_t silent : off)
    for (size_t i = 0; i < n; ++i) std::fill_n(&s.concatenated(i, silent * dv), dv, 0.0f);

  s.w_o = transposed(w.wo);
  s.b_o = bias_or_zeros(w.bo, 0, w.wo.rows());
  s.result = project(s.concatenated, w.wo, w.bo);
  return s;
}

}  // namespace

AttentionSteps explain(Matrix<const float> x, const MultiHead& w, size_t heads, size_t head) {
  need(heads > 0 && w.wq.rows() >= heads, "the heads must divide the rows of wq, wk and wv");
  return steps_of(x, w, {heads, head, false, 1 / std::sqrt(double(w.wq.rows() / heads))});
}

namespace {

AttentionSteps explain(const TextModel& model, const Encoding& encoding, WhichHead which) {
  const Config& config = model.model().config();
  if (which.layer >= config.depth() || which.head >= config.heads)
    throw Error(fmt::format("no layer {}, head {}: the model has {} layers of {} heads", which.layer,
                            which.head, config.depth(), config.heads));
  if (encoding.size() == 0)
    throw Error("the text has no tokens, so there is nothing to explain", "a text with at least one word");
  if (encoding.size() > config.max_tokens())
    throw Error(fmt::format("the text has {} tokens, but the model has positions for {}", encoding.size(),
                            config.max_tokens()),
                "give a shorter text");
  if (!config.attention.is_standard(config.causal()))
    throw Error("this model's attention is not softmax(Q·Kᵀ/√D)·V over all tokens, and has other steps",
                "`attend` shows its weights, where it has any");
  // The layers below run the kernel that TextModel::attend runs: x and the weights are then its, to the bit.
  Capture capture{.hidden_states = true};
  for (size_t layer = 0; layer < which.layer; ++layer) capture.attention.push_back(layer);
  const auto worker = TextModelAccess::worker(model);
  const int32_t offsets[2] = {0, int32_t(encoding.size())};
  const Output& output =
      worker->run.forward({.ids = encoding.ids, .types = encoding.types, .offsets = offsets}, capture);
  check_finite(output.hidden_states[which.layer]);

  const Weights& w = weights_of(model.model());
  const LayerWeights& layer = w.layer(which.layer);
  Grid x = copy_of(output.hidden_states[which.layer]);
  if (w.family->norm_first) {
    Team team;
    kernels::layer_norm_forward(
        x, which.layer == 0 ? w.trunk.embeddings.norm : w.layer(which.layer - 1).output_norm, x, team);
  }
  const std::vector<size_t> there = config.heads_of(which.layer);
  const auto place = std::find(there.begin(), there.end(), which.head);
  if (place == there.end())
    throw Error(fmt::format("{}-{} was pruned, and has no steps", which.layer + 1, which.head + 1),
                "another head; layers and heads count from 1 here", "head");
  if (layer.qkv.is_int8())
    throw Error("the steps are of numbers in fp32, and this model's are 8-bit integers",
                "the model that it was made from", "precision");
  const size_t c = config.hidden, a = config.attention_size(which.layer);
  Grid qkv(3 * a, c), wo(c, a);
  kernels::unpack_rows(layer.qkv, 0, qkv);
  kernels::unpack_rows(layer.attention_out, 0, wo);
  const Matrix<const float> rows = qkv;
  const std::span<const float> bias(layer.qkv.bias, 3 * a);
  const std::vector<std::vector<size_t>> off = places_of_heads(model.heads_off(), config);
  AttentionSteps steps = steps_of(x,
                                  {.wq = rows.slice_rows(0, a),
                                   .wk = rows.slice_rows(a, a),
                                   .wv = rows.slice_rows(2 * a, a),
                                   .wo = wo,
                                   .bq = bias.subspan(0, a),
                                   .bk = bias.subspan(a, a),
                                   .bv = bias.subspan(2 * a, a),
                                   .bo = std::span(layer.attention_out.bias, c)},
                                  {.heads = there.size(),
                                   .head = size_t(place - there.begin()),
                                   .causal = w.trunk.shape.attention.look.kind == Look::Kind::kCausal,
                                   .scale = score_scale(config, which.layer),
                                   .off = off.empty() ? std::span<const size_t>() : off[which.layer]});
  check_finite(steps.weights), check_finite(steps.result);
  steps.layer = which.layer, steps.layers = config.depth(), steps.head = which.head, steps.numbers = there;
  steps.ids = encoding.ids;
  for (int32_t id : encoding.ids) steps.tokens.emplace_back(model.tokenizer().token(id));
  return steps;
}

}  // namespace

AttentionSteps explain(const TextModel& model, std::string_view text, WhichHead which) {
  return explain(model, model.tokenizer().encode(text), which);
}

AttentionSteps explain(const TextModel& model, std::string_view a, std::string_view b, WhichHead which) {
  return explain(model, model.tokenizer().encode(a, b), which);
}

}  // namespace bertie
