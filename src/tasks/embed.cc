// Texts to vectors.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "tasks/text_model_state.h"

namespace bertie {
namespace {

// One sentence's rows to one vector of pooled_size numbers. In double, so that long texts lose nothing.
// No tokens, no vector: zeros.
void pool(Matrix<const float> rows, const Pooling& p, std::span<float> pooled) {
  const size_t hidden = rows.cols(), n = rows.rows();
  float* out = pooled.data();
  if (n == 0) return std::fill(pooled.begin(), pooled.end(), 0.0f);
  if (p.cls) out = std::copy_n(rows.row(0), hidden, out);
  if (p.max)
    for (size_t c = 0; c < hidden; ++c) {
      float best = rows(0, c);
      for (size_t t = 1; t < n; ++t) best = std::max(best, rows(t, c));
      *out++ = best;
    }
  for (auto [on, divisor] :
       {std::pair(p.mean, double(n)), std::pair(p.mean_sqrt_length, std::sqrt(double(n)))}) {
    if (!on) continue;
    for (size_t c = 0; c < hidden; ++c) {
      double sum = 0;
      for (size_t t = 0; t < n; ++t) sum += rows(t, c);
      *out++ = float(sum / divisor);
    }
  }
}

void normalize(std::span<float> v) {
  double squares = 0;
  for (float x : v) squares += double(x) * double(x);
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& x : v) x = float(x / length);
}

// Pooling, dense modules, normalization: (n, C) to one vector, into `out`.
void sentence_vector(Matrix<const float> rows, const Modules& modules, std::vector<float>& scratch,
                     float* out) {
  Team inline_team;
  scratch.resize(modules.pooled_size(rows.cols()));
  pool(rows, modules.pooling, scratch);
  for (const DenseModule& dense : modules.dense) {
    std::vector<float> next(dense.linear.outputs);
    kernels::linear_forward({scratch.data(), 1, scratch.size()}, dense.linear, dense.activation,
                            {next.data(), 1, next.size()}, inline_team);
    scratch = std::move(next);
  }
  check_finite({scratch.data(), 1, scratch.size()});
  if (modules.pooling.normalize) normalize(scratch);
  std::copy(scratch.begin(), scratch.end(), out);
}

}  // namespace

std::vector<EmbeddedRow> TextModel::embed(const Texts& texts, Matrix<float> out,
                                          const EmbedOptions& options) const {
  if (state_->loaded->modules_error) throw *state_->loaded->modules_error;
  if (out.rows() != texts.size() || out.cols() != dimension())
    throw Error(fmt::format("embed: out must be {} × {}, not {} × {}", texts.size(), dimension(), out.rows(),
                            out.cols()));
  const Modules& modules = state_->loaded->modules;
  const auto worker = state_->workers->take();
  std::vector<EmbeddedRow> report(texts.size());
  run_work(
      *worker,
      {.head = {},
       .inputs = texts.size(),
       .add =
           [&](size_t i) {
             add_cut(*worker, tokenizer(), texts[i], state_->embed_length());
             report[i] = {.tokens = worker->encoding.size(), .truncated = worker->encoding.truncated};
           },
       .use = [&](size_t i, size_t,
                  Matrix<const float> rows) { sentence_vector(rows, modules, worker->scores, out.row(i)); },
       .progress = options.progress});
  return report;
}

std::vector<Embedding> TextModel::embed(const Texts& texts, const EmbedOptions& options) const {
  std::vector<Embedding> all(texts.size());
  const size_t size = dimension();
  std::vector<float> values(texts.size() * size);
  const std::vector<EmbeddedRow> rows = embed(texts, {values.data(), texts.size(), size}, options);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = {.values = {values.begin() + ptrdiff_t(i * size), values.begin() + ptrdiff_t((i + 1) * size)},
              .tokens = rows[i].tokens,
              .truncated = rows[i].truncated};
  return all;
}

Embedding TextModel::embed(std::string_view text) const {
  Embedding one{.values = std::vector<float>(dimension())};
  const EmbeddedRow row = embed(Texts(std::span(&text, 1)), {one.values.data(), 1, one.values.size()})[0];
  one.tokens = row.tokens, one.truncated = row.truncated;
  return one;
}

}  // namespace bertie
