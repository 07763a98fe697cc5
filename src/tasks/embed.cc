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

// Pooling and dense modules: (n, C) to one vector, into `out`.
void sentence_vector(Matrix<const float> rows, const Pooling& pooling, std::span<const DenseModule> modules,
                     std::vector<float>& scratch, std::span<float> out) {
  Team inline_team;
  scratch.resize(pooled_size(pooling, rows.cols()));
  pool(rows, pooling, scratch);
  for (const DenseModule& dense : modules) {
    std::vector<float> next(dense.linear.outputs);
    kernels::linear_forward({scratch.data(), 1, scratch.size()}, dense.linear, dense.activation,
                            {next.data(), 1, next.size()}, inline_team);
    scratch = std::move(next);
  }
  check_finite({scratch.data(), 1, scratch.size()});
  std::copy(scratch.begin(), scratch.end(), out.begin());
}

// The mean of windows' vectors, weighed by their tokens; of one it is its own.
void mean_of_windows(Matrix<const float> vectors, std::span<const size_t> tokens, std::span<float> out) {
  if (vectors.rows() == 1) return void(std::copy_n(vectors.row(0), out.size(), out.begin()));
  double all = 0;
  for (const size_t n : tokens) all += double(n);
  for (size_t c = 0; c < out.size(); ++c) {
    double sum = 0;
    for (size_t w = 0; w < vectors.rows(); ++w) sum += double(vectors(w, c)) * double(tokens[w]);
    out[c] = float(sum / all);
  }
}

}  // namespace

void TextModel::State::embed(size_t inputs, Matrix<float> out, const EmbedOptions& options,
                             const std::function<void(Worker&, size_t input)>& add) const {
  if (loaded->modules_error) throw *loaded->modules_error;
  const size_t size = dimension();
  if (out.rows() != inputs || out.cols() != size)
    throw Error(fmt::format("embed: out must be {} × {}, not {} × {}", inputs, size, out.rows(), out.cols()));
  const auto worker = take_worker();
  std::vector<float> vectors;  // of the sequences that are at work
  std::vector<size_t> tokens;
  run_work(*worker, {.head = {},
                     .inputs = inputs,
                     .add = [&](size_t i) { add(*worker, i); },
                     .use =
                         [&](size_t, size_t sequence, Matrix<const float> rows) {
                           vectors.resize(worker->sequences.size() * size),
                               tokens.resize(worker->sequences.size());
                           tokens[sequence] = rows.rows();
                           sentence_vector(rows, pooling(), loaded->modules.dense, worker->scores,
                                           std::span(vectors).subspan(sequence * size, size));
                         },
                     .finish =
                         [&](size_t i, size_t first, size_t end) {
                           const std::span<float> row(out.row(i), size);
                           mean_of_windows({&vectors[first * size], end - first, size},
                                           std::span(tokens).subspan(first, end - first), row);
                           if (options.normalize.value_or(pooling().normalize)) normalize(row);
                         },
                     .progress = options.progress});
}

std::vector<EmbeddedRow> TextModel::embed(const Texts& texts, Matrix<float> out,
                                          const EmbedOptions& options) const {
  std::vector<EmbeddedRow> report(texts.size());
  const size_t most = state_->embed_length();
  std::string with_prefix;
  state_->embed(texts.size(), out, options, [&](Worker& worker, size_t i) {
    std::string_view text = texts[i];
    if (!options.prefix.empty()) text = with_prefix = std::string(options.prefix) + std::string(text);
    tokenizer().encode_into(text, {.max_length = most}, worker.encoding);
    report[i] = {.tokens = worker.encoding.size(), .truncated = worker.encoding.truncated};
    if (!options.windows || !report[i].truncated) return worker.sequences.add(worker.encoding);
    report[i] = {.windows = 0};
    for (const Encoding& window : tokenizer().encode_windows(text, {.max_length = most})) {
      worker.sequences.add(window);
      report[i].tokens += window.size(), ++report[i].windows;
    }
  });
  return report;
}

void TextModel::embed_tokens(std::span<const std::span<const int32_t>> ids, Matrix<float> out,
                             const EmbedOptions& options) const {
  const size_t vocabulary = model().config().vocabulary;
  for (std::span<const int32_t> text : ids) {
    if (text.empty() || text.size() > max_length())
      throw Error(fmt::format("a text has {} tokens; the model takes 1 to {}", text.size(), max_length()), {},
                  "ids");
    for (int32_t id : text)
      if (id < 0 || size_t(id) >= vocabulary)
        throw Error(fmt::format("there is no token {}: the vocabulary has {}, from 0 on", id, vocabulary), {},
                    "ids");
  }
  state_->embed(ids.size(), out, options, [&](Worker& worker, size_t i) { worker.sequences.add(ids[i]); });
}

std::vector<TokenVectors> TextModel::token_vectors(const Texts& texts, const EmbedOptions& options) const {
  std::vector<TokenVectors> all(texts.size());
  const auto worker = state_->take_worker();
  run_work(*worker, {.head = {},
                     .inputs = texts.size(),
                     .add =
                         [&](size_t i) {
                           add_cut(*worker, tokenizer(), texts[i], state_->embed_length());
                           all[i].tokens = worker->encoding.size();
                           all[i].truncated = worker->encoding.truncated;
                         },
                     .use =
                         [&](size_t i, size_t, Matrix<const float> rows) {
                           for (size_t t = 0; t < rows.rows(); ++t) {
                             const std::span<const float> row = rows[t];
                             all[i].values.insert(all[i].values.end(), row.begin(), row.end());
                           }
                           if (options.normalize.value_or(false))
                             for (size_t t = 0; t < rows.rows(); ++t)
                               normalize(std::span(all[i].values).subspan(t * rows.cols(), rows.cols()));
                         },
                     .progress = options.progress});
  return all;
}

std::vector<Embedding> TextModel::embed(const Texts& texts, const EmbedOptions& options) const {
  std::vector<Embedding> all(texts.size());
  const size_t size = dimension();
  std::vector<float> values(texts.size() * size);
  const std::vector<EmbeddedRow> rows = embed(texts, {values.data(), texts.size(), size}, options);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = {.values = {values.begin() + ptrdiff_t(i * size), values.begin() + ptrdiff_t((i + 1) * size)},
              .tokens = rows[i].tokens,
              .truncated = rows[i].truncated,
              .windows = rows[i].windows};
  return all;
}

Embedding TextModel::embed(std::string_view text) const {
  Embedding one{.values = std::vector<float>(dimension())};
  const EmbeddedRow row = embed(Texts(std::span(&text, 1)), {one.values.data(), 1, one.values.size()})[0];
  one.tokens = row.tokens, one.truncated = row.truncated;
  return one;
}

}  // namespace bertie
