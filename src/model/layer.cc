#include "model/layer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/random.h"

namespace bertie {
namespace {

enum Site : uint32_t { kAttention, kAttentionOut, kActivation, kFeedForward, kElsewhere };

Dropout dropout_at(float rate, uint64_t seed, size_t place, Site site) {
  const auto words = philox({uint32_t(place), site, 0x4D61736B, 0}, {uint32_t(seed), uint32_t(seed >> 32)});
  return {rate, uint64_t{words[0]} << 32 | words[1]};
}

RowDropout rows_at(const DropoutSeed& dropout, float rate, size_t place, Site site) {
  if (dropout.rows.empty() || rate == 0) return {};
  return {dropout_at(rate, dropout.seed, place, site), dropout.rows};
}

struct AttentionSizes {
  size_t query, key_value, context, heads;  // columns of each
};
KeptAttention take_attention(Pass& pass, size_t rows, size_t source_rows, const AttentionSizes& sizes) {
  return {.query = pass.take_apart(rows, sizes.query),
          .key_value = pass.take_apart(source_rows, sizes.key_value),
          .context = pass.take_apart(rows, sizes.context),
          .log_sums = {pass.arena.take<float>(rows * sizes.heads), rows * sizes.heads},
          .norm = {}};
}

}  // namespace

void number_rows(std::span<const int32_t> offsets, uint32_t first_sequence, std::vector<uint64_t>& rows) {
  rows.resize(size_t(offsets.back()));
  for (size_t s = 0; s + 1 < offsets.size(); ++s)
    for (int32_t t = offsets[s]; t < offsets[s + 1]; ++t)
      rows[size_t(t)] = uint64_t{first_sequence + s} << 32 | uint32_t(t - offsets[s]);
}

RowDropout mask_for(const DropoutSeed& dropout, float rate, size_t place) {
  return rows_at(dropout, rate, place, kElsewhere);
}

Layer::Masks Layer::masks(size_t at) const {
  const DropoutRates& rates = shape.dropout;
  Masks m;
  // Approximations of the softmax have no weights to drop.
  if (!dropout.rows.empty() && rates.attention > 0 && shape.attention.compute.kind == Compute::Kind::kSoftmax)
    m.attention = dropout_at(rates.attention, dropout.seed, at, kAttention);
  m.attention_out = rows_at(dropout, rates.attention_out, at, kAttentionOut);
  m.activation = rows_at(dropout, rates.activation, at, kActivation);
  m.feed_forward = rows_at(dropout, rates.feed_forward, at, kFeedForward);
  return m;
}

KeptLayer Layer::take_kept() const {
  const auto rows = size_t(offsets.back()), behind = rows_behind();
  KeptLayer kept;
  const size_t c = shape.hidden;
  kept.attention = take_attention(pass, rows, 0, {3 * width(), 0, width(), heads()});
  kept.attention.norm = pass.take_normalized(behind, c);
  if (w.has_cross()) {
    kept.cross = take_attention(pass, behind, size_t(source.offsets.back()), {c, 2 * c, c, shape.heads});
    kept.cross.norm = pass.take_normalized(behind, c);
  }
  kept.up = pass.take_apart(behind, shape.inner);
  kept.norm = pass.take_normalized(behind, shape.hidden);
  return kept;
}

Matrix<float> Layer::narrowed(Matrix<float> m) const {
  return wanted.empty() || m.empty() ? m : m.slice_rows(0, wanted.size());
}

LayerStates Layer::narrowed(const LayerStates& s) const {
  return {.x = s.x,
          .y = narrowed(s.y),
          .h = narrowed(s.h),
          .c = narrowed(s.c),
          .sum = s.sum,
          .middle = narrowed(s.middle),
          .next_sum = narrowed(s.next_sum)};
}

KeptLayer Layer::narrowed(KeptLayer kept) const {
  kept.attention.norm = {narrowed(kept.attention.norm.x), kept.attention.norm.rho.first(rows_behind())};
  kept.up = narrowed(kept.up);
  return kept;
}

// The rows of what attention left, or read, that go on.
Matrix<const float> Layer::behind(Matrix<const float> all) const {
  return wanted.empty() ? all : pass.gather_rows(all, wanted);
}

// The gradient of rows that went on, which are the first, to where they had been; all others have none.
void Layer::widen(Matrix<float> gradient) const {
  if (pass.counting() || gradient.empty()) return;
  for (size_t i = wanted.size(), row = gradient.rows(); row-- > 0;) {
    const bool went_on = i > 0 && size_t(wanted[i - 1]) == row;
    if (went_on && --i != row)
      std::copy_n(gradient.row(i), gradient.cols(), gradient.row(row));
    else if (!went_on)
      std::fill_n(gradient.row(row), gradient.cols(), 0.0f);
  }
}

// The spans that the heads have, in tokens.
std::span<float> Layer::take_spans() const {
  if (!w.mechanism.spans) return {};
  const std::span<float> spans(pass.arena.take<float>(heads()), heads());
  for (size_t h = 0; h < heads() && !pass.counting(); ++h)
    spans[h] = std::clamp(w.mechanism.spans[h], 0.0f, 1.0f) * float(shape.positions);
  return spans;
}

Pass::Attention Layer::self_attention(Matrix<const float> qkv, std::span<const float> spans) const {
  const size_t c = width(), h = heads(), d = c / h;
  const AttentionConfig& config = shape.attention;
  const MechanismWeights& m = w.mechanism;
  Score score = Score::scaled_by(scale);
  if (config.score == Score::Kind::kDot) score = Score::dot();
  if (config.score == Score::Kind::kGeneral) score = Score::general({m.w, h * d, d});
  if (config.score == Score::Kind::kAdditive)
    score = Score::additive({m.w1, h * config.score_size, d}, {m.w2, h * config.score_size, d},
                            {m.v, h, config.score_size});
  if (config.compute.kind == Compute::Kind::kLinear) score = {};  // its features have no scale
  Look look = config.look;
  look.global = config.global;
  look.spans = spans;
  static constexpr std::array<float, kMostHeads> kAnySpans{};
  if (pass.counting() && m.spans) look.spans = std::span(kAnySpans).first(h);
  Compute compute = config.compute;
  if (m.e)
    compute.e = {m.e, config.linformer_rows, shape.positions},
    compute.f = {m.f, config.linformer_rows, shape.positions};
  return {.q = qkv.slice_cols(0, c),
          .k = qkv.slice_cols(c, c),
          .v = qkv.slice_cols(2 * c, c),
          .options = {.heads = h,
                      .score = score,
                      .look = look,
                      .compute = compute,
                      .dropout = masks(place).attention,
                      .q_offsets = offsets,
                      .k_offsets = offsets},
          .first_sequence = dropout.first_sequence};
}

Pass::Attention Layer::cross_attention(Matrix<const float> query, Matrix<const float> key_value) const {
  return {.q = query,
          .k = key_value.slice_cols(0, shape.hidden),
          .v = key_value.slice_cols(shape.hidden, shape.hidden),
          .options = {.heads = shape.heads,
                      .score = Score::scaled_by(scale),
                      .dropout = masks(cross_place).attention,
                      .q_offsets = offsets,
                      .k_offsets = source.offsets},
          .first_sequence = dropout.first_sequence};
}

// A head that is off adds nothing: the columns that W^O takes of it are 0, and so is their gradient.
void Layer::clear_heads_off(Matrix<float> context) const {
  const size_t d = shape.hidden / shape.heads;
  for (const size_t head : off) pass.fill(context.slice_cols(head * d, d), 0);
}

// The products behind attention and feed-forward network, with the sum and norm that end a half.
Pass::ResidualNorm Layer::self_output(const LayerStates& s, Matrix<const float> context,
                                      Matrix<const float> residual) const {
  return {.x = context,
          .layer = w.attention_out,
          .residual = residual,
          .norm = w.attention_norm,
          .y = s.h,
          .sum = shape.norm_first ? s.middle : Matrix<float>(),
          .dropout = masks(place).attention_out};
}

Pass::ResidualNorm Layer::cross_output(const LayerStates& s, Matrix<const float> context) const {
  return {.x = context,
          .layer = w.cross.out,
          .residual = s.h,
          .norm = w.cross.norm,
          .y = s.c,
          .dropout = masks(cross_place).attention_out};
}

Pass::ResidualNorm Layer::output(const LayerStates& s, Matrix<const float> inner) const {
  return {.x = inner,
          .layer = w.down,
          .residual = shape.norm_first ? s.middle : s.c,
          .norm = w.output_norm,
          .y = s.y,
          .sum = shape.norm_first ? s.next_sum : Matrix<float>(),
          .dropout = masks(place).feed_forward};
}

// Sequence by sequence: new keys and values go into the cache, and queries stand at the end of all of them.
void Layer::cached_attention(const Pass::Attention& all, Matrix<float> context) const {
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    const auto first = size_t(offsets[s]), count = size_t(offsets[s + 1]) - first;
    if (count == 0) continue;
    const size_t keys = cache->sequences[s].length + count;
    const Matrix<float> k = cache->table(s, number, 0, keys).slice_cols(0, width());
    const Matrix<float> v = cache->table(s, number, 1, keys).slice_cols(0, width());
    pass.copy(all.k.slice_rows(first, count), k.slice_rows(keys - count, count));
    pass.copy(all.v.slice_rows(first, count), v.slice_rows(keys - count, count));
    Pass::Attention one = all;
    one.q = all.q.slice_rows(first, count), one.k = k, one.v = v;
    one.options.q_offsets = one.options.k_offsets = {};
    one.options.look.queries_at_end = true;
    pass.attention(one, context.slice_rows(first, count), {}, {});
  }
}

void Layer::self_forward(const LayerStates& s, const KeptAttention* kept, std::span<float> weights) const {
  const Arena::Scope scope(pass.arena);
  const size_t rows = s.x.rows();
  const Matrix<float> qkv = kept ? kept->query : pass.take_apart(rows, 3 * width());
  const Matrix<float> context = kept ? kept->context : pass.take_apart(rows, width());
  pass.linear(s.x, w.qkv, Activation::kNone, qkv);
  const Pass::Attention attention = self_attention(qkv, take_spans());
  if (cache)
    cached_attention(attention, context);
  else
    pass.attention(attention, context, kept ? kept->log_sums : std::span<float>(), weights);
  clear_heads_off(context);
  Pass::ResidualNorm end = self_output(s, behind(context), behind(shape.norm_first ? s.sum : s.x));
  end.kept = kept ? &kept->norm : nullptr;
  pass.residual_norm(end);
}

void Layer::cross_forward(const LayerStates& s, const KeptAttention* kept, std::span<float> weights) const {
  const Arena::Scope scope(pass.arena);
  const size_t rows = s.x.rows();
  const Matrix<float> query = kept ? kept->query : pass.take(rows, shape.hidden);
  const Matrix<float> context = kept ? kept->context : pass.take_apart(rows, shape.hidden);
  pass.linear(s.h, w.cross.query, Activation::kNone, query);
  Matrix<const float> key_value;
  if (source.key_value) {
    key_value = *source.key_value;
  } else {
    const Matrix<float> own = kept ? kept->key_value : pass.take(source.states.rows(), 2 * shape.hidden);
    pass.linear(source.states, w.cross.key_value, Activation::kNone, own);
    key_value = own;
  }
  pass.attention(cross_attention(query, key_value), context, kept ? kept->log_sums : std::span<float>(),
                 weights);
  Pass::ResidualNorm end = cross_output(s, context);
  end.kept = kept ? &kept->norm : nullptr;
  pass.residual_norm(end);
}

void Layer::feed_forward(const LayerStates& s, const KeptLayer* kept) const {
  const Arena::Scope scope(pass.arena);
  const Matrix<float> inner = pass.take_apart(s.c.rows(), shape.inner);
  pass.linear(s.c, w.up, shape.activation, inner, kept ? kept->up : Matrix<float>());
  pass.dropout(masks(place).activation, inner);
  Pass::ResidualNorm end = output(s, inner);
  end.kept = kept ? &kept->norm : nullptr;
  pass.residual_norm(end);
}

void Layer::forward(const LayerStates& all, const KeptLayer* kept, const AttentionRoom& weights) const {
  const LayerStates s = narrowed(all);
  if (kept && !kept->sum.empty()) pass.copy(s.sum, kept->sum);
  self_forward(s, kept ? &kept->attention : nullptr, weights.self);
  if (w.has_cross()) cross_forward(s, kept ? &kept->cross : nullptr, weights.cross);
  feed_forward(s, kept);
}

void Layer::backward(const LayerStates& all, const KeptLayer& kept, const Gradients& to,
                     bool recompute) const {
  const LayerStates s = narrowed(all);
  if (recompute) {
    if (!kept.sum.empty()) pass.copy(kept.sum, s.sum);
    self_forward(s, &kept.attention, {});
    if (w.has_cross()) cross_forward(s, &kept.cross, {});
    pass.linear(s.c, w.up, Activation::kNone, kept.up);
  } else {
    pass.normalized_output(kept.attention.norm, w.attention_norm, s.h);
    if (w.has_cross()) pass.normalized_output(kept.cross.norm, w.cross.norm, s.c);
  }
  const Gradients behind{to.w, narrowed(to.d), narrowed(to.carry), to.d_source, {}};
  feed_forward_backward(s, kept, behind);
  if (w.has_cross()) cross_backward(s, kept.cross, behind);
  self_backward(s, kept.attention, to);
}

void Layer::feed_forward_backward(const LayerStates& s, const KeptLayer& kept, const Gradients& to) const {
  const Arena::Scope scope(pass.arena);
  Pass::ResidualNorm end = output(s, kept.up);
  end.kept = &kept.norm;
  const Matrix<float> masked = pass.take(to.d.rows(), to.d.cols());
  const Matrix<const float> d_out =
      pass.residual_norm_backward(end, to.w.output_norm, to.d, to.carry, masked);
  const Matrix<float> d_inner = pass.take_apart(s.c.rows(), shape.inner);
  const RowDropout mask = masks(place).activation;
  pass.linear_backward_input(d_out, w.down, d_inner);
  pass.dropout(mask, d_inner);
  if (!pass.counting())  // kept.up becomes f(u)
    kernels::activation_backward(shape.activation, kept.up, d_inner, kept.up, pass.team());
  pass.dropout(mask, kept.up);
  pass.linear_backward_weights(kept.up, d_out, to.w.down);
  pass.linear_backward(s.c, d_inner, w.up, to.w.up, to.d,
                       to.carry.empty() ? Accumulate::kYes : Accumulate::kNo);
}

void Layer::cross_backward(const LayerStates& s, const KeptAttention& kept, const Gradients& to) const {
  const Arena::Scope scope(pass.arena);
  const size_t rows = s.x.rows(), c = shape.hidden;
  Pass::ResidualNorm end = cross_output(s, kept.context);
  end.kept = &kept.norm;
  const Matrix<const float> d_out =
      pass.residual_norm_backward(end, to.w.cross.norm, to.d, {}, pass.take(rows, c));
  const Matrix<float> d_context = pass.take(rows, c), d_query = pass.take(rows, c);
  const Matrix<float> d_key_value = pass.take(kept.key_value.rows(), 2 * c);
  pass.linear_backward(kept.context, d_out, w.cross.out, to.w.cross.out, d_context);
  pass.attention_backward(
      cross_attention(kept.query, kept.key_value), kept.context, kept.log_sums, d_context,
      {.q = d_query, .k = d_key_value.slice_cols(0, c), .v = d_key_value.slice_cols(c, c)});
  pass.linear_backward(s.h, d_query, w.cross.query, to.w.cross.query, to.d, Accumulate::kYes);
  pass.linear_backward(source.states, d_key_value, w.cross.key_value, to.w.cross.key_value, to.d_source,
                       Accumulate::kYes);
}

void Layer::self_backward(const LayerStates& s, const KeptAttention& kept, const Gradients& to) const {
  const Arena::Scope scope(pass.arena);
  const size_t rows = s.x.rows(), c = width(), h = heads(), d = c / h;
  const Matrix<const float> context = behind(kept.context);
  Pass::ResidualNorm end = self_output(s, context, {});
  end.kept = &kept.norm;
  const Matrix<const float> d_out = pass.residual_norm_backward(
      end, to.w.attention_norm, narrowed(to.d), narrowed(to.carry), pass.take(rows_behind(), shape.hidden));
  const Matrix<float> d_context = pass.take_apart(rows, c), d_qkv = pass.take_apart(rows, 3 * c);
  pass.linear_backward(context, d_out, w.attention_out, to.w.attention_out, narrowed(d_context));
  if (!wanted.empty()) widen(d_context), widen(to.carry.empty() ? to.d : to.carry);
  clear_heads_off(d_context);
  if (to.on_context && !pass.counting()) to.on_context(d_context);

  const std::span<float> spans = take_spans();
  const std::span<float> d_spans(pass.arena.take<float>(spans.size()), spans.size());
  if (!pass.counting()) std::fill(d_spans.begin(), d_spans.end(), 0.0f);
  const MechanismWeights& m = to.w.mechanism;
  const AttentionConfig& config = shape.attention;
  const auto matrix = [](float* numbers, size_t matrix_rows, size_t cols) {
    return numbers ? Matrix<float>(numbers, matrix_rows, cols) : Matrix<float>();
  };
  pass.attention_backward(self_attention(kept.query, spans), kept.context, kept.log_sums, d_context,
                          {.q = d_qkv.slice_cols(0, c),
                           .k = d_qkv.slice_cols(c, c),
                           .v = d_qkv.slice_cols(2 * c, c),
                           .w = matrix(m.w, h * d, d),
                           .w1 = matrix(m.w1, h * config.score_size, d),
                           .w2 = matrix(m.w2, h * config.score_size, d),
                           .additive_v = matrix(m.v, h, config.score_size),
                           .spans = d_spans,
                           .e = matrix(m.e, config.linformer_rows, shape.positions),
                           .f = matrix(m.f, config.linformer_rows, shape.positions)});
  for (size_t i = 0; i < d_spans.size() && !pass.counting(); ++i)
    m.spans[i] += d_spans[i] * float(shape.positions);
  pass.linear_backward(s.x, d_qkv, w.qkv, to.w.qkv, to.d,
                       to.carry.empty() ? Accumulate::kYes : Accumulate::kNo);
}

}  // namespace bertie
