#include "bertie/encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "bertie/error.h"
#include "core/parallel.h"
#include "tasks/modules.h"

namespace bertie {

struct Encoder::Shared {
  Tokenizer tokenizer;
  Model model;
  Modules modules;
};

struct Encoder::State {
  State(std::shared_ptr<const Shared> s, int threads, size_t length)
      : shared(std::move(s)), run(shared->model, threads), max_length(length) {}
  std::shared_ptr<const Shared> shared;
  Run run;
  size_t max_length;
  // Reused from call to call.
  Encoding encoding;
  std::vector<int32_t> ids, offsets;
  std::vector<float> pooled;
};

Matrix<const float> Attention::at(size_t layer, size_t head) const {
  if (layer >= layers || head >= heads)
    throw Error(
        fmt::format("no layer {}, head {}: the model has {} layers of {} heads", layer, head, layers, heads));
  return {weights.data() + (layer * heads + head) * n() * n(), n(), n()};
}

Encoder::Encoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Encoder::Encoder(const Encoder& o)
    : state_(std::make_unique<State>(o.state_->shared, o.state_->run.threads(), o.state_->max_length)) {}
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder& Encoder::operator=(Encoder other) noexcept { return state_.swap(other.state_), *this; }
Encoder::~Encoder() = default;

Encoder Encoder::load(const std::filesystem::path& directory, int threads) {
  const std::filesystem::path folder = transformer_folder(directory);
  Model model = Model::load(folder);
  Tokenizer tokenizer = Tokenizer::load(folder);
  if (tokenizer.vocab_size() > model.config().vocabulary)
    throw Error(fmt::format("{}: the vocabulary has {} tokens but the model has embeddings for {}",
                            directory.string(), tokenizer.vocab_size(), model.config().vocabulary),
                "the tokenizer's files and the weights belong to different models");
  Modules modules = load_modules(directory, model.config().hidden);
  if (modules.lowercase && !tokenizer.lowercase())
    throw Error(fmt::format("{}: sentence_bert_config.json asks to lowercase texts for a cased tokenizer",
                            directory.string()),
                "lowercase the texts yourself and set do_lower_case to false there");
  const size_t length = bertie::max_length(modules, model.config().max_tokens(), tokenizer.model_max_length());
  auto shared = std::make_shared<Shared>(Shared{std::move(tokenizer), std::move(model), std::move(modules)});
  return Encoder(std::make_unique<State>(std::move(shared), threads, length));
}

size_t Encoder::dimension() const { return state_->shared->modules.output_size(model().config().hidden); }
size_t Encoder::max_length() const { return state_->max_length; }
const Pooling& Encoder::pooling() const { return state_->shared->modules.pooling; }
const Tokenizer& Encoder::tokenizer() const { return state_->shared->tokenizer; }
const Model& Encoder::model() const { return state_->shared->model; }
int Encoder::threads() const { return state_->run.threads(); }

void Encoder::set_max_length(size_t tokens) {
  if (tokens < 3 || tokens > model().config().max_tokens())
    throw Error(fmt::format("max_length {} is out of range: this model takes 3 to {} tokens", tokens,
                            model().config().max_tokens()));
  state_->max_length = tokens;
}

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

}  // namespace

size_t Encoder::embed(std::span<const std::string_view> texts, Matrix<float> out) {
  if (out.rows() != texts.size() || out.cols() != dimension())
    throw Error(fmt::format("embed: out must be {} × {}, not {} × {}", texts.size(), dimension(), out.rows(),
                            out.cols()));
  State& s = *state_;
  const Modules& modules = s.shared->modules;
  const size_t hidden = model().config().hidden;

  // All token ids, one text after the other.
  size_t truncated = 0;
  std::vector<int32_t> ids;
  std::vector<size_t> starts{0};
  for (std::string_view text : texts) {
    tokenizer().encode_into(text, {.max_length = s.max_length}, s.encoding);
    truncated += s.encoding.truncated;
    ids.insert(ids.end(), s.encoding.ids.begin(), s.encoding.ids.end());
    starts.push_back(ids.size());
  }
  const auto length = [&](size_t i) { return starts[i + 1] - starts[i]; };

  // Batches of some 2,000 tokens keep activations in the cache; neighbours of like length share one.
  constexpr size_t kBatchTokens = 2048;
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return length(a) > length(b); });
  Team inline_team;
  for (size_t first = 0; first < order.size();) {
    s.ids.clear();
    s.offsets.assign(1, 0);
    size_t last = first;
    while (last < order.size() && (last == first || s.ids.size() + length(order[last]) <= kBatchTokens)) {
      const size_t i = order[last++];
      s.ids.insert(s.ids.end(), ids.begin() + ptrdiff_t(starts[i]), ids.begin() + ptrdiff_t(starts[i + 1]));
      s.offsets.push_back(int32_t(s.ids.size()));
    }
    const Output& output = s.run.forward({.ids = s.ids, .offsets = s.offsets});
    for (size_t b = 0; first + b < last; ++b) {
      const auto begin = size_t(s.offsets[b]), end = size_t(s.offsets[b + 1]);
      std::vector<float>& vector = s.pooled;
      vector.resize(modules.pooled_size(hidden));
      pool(output.last_hidden.slice_rows(begin, end - begin), modules.pooling, vector);
      for (const DenseModule& dense : modules.dense) {
        std::vector<float> next(dense.linear.outputs);
        kernels::linear_forward({vector.data(), 1, vector.size()}, dense.linear, dense.activation,
                                {next.data(), 1, next.size()}, inline_team);
        vector = std::move(next);
      }
      if (modules.pooling.normalize) normalize(vector);
      std::copy(vector.begin(), vector.end(), out.row(order[first + b]));
    }
    first = last;
  }
  return truncated;
}

std::vector<float> Encoder::embed(std::string_view text, bool* truncated) {
  std::vector<float> v(dimension());
  const size_t cut = embed(std::span(&text, 1), Matrix<float>(v.data(), 1, v.size()));
  if (truncated) *truncated = cut > 0;
  return v;
}

namespace {

Attention attend(Run& run, const Tokenizer& tokenizer, const Config& config, Encoding encoding) {
  if (encoding.size() > config.max_tokens())
    throw Error(fmt::format("the text has {} tokens, but the model has positions for {}", encoding.size(),
                            config.max_tokens()),
                "give a shorter text");
  Attention a;
  a.layers = config.depth(), a.heads = config.heads;
  const size_t n = encoding.size();
  const int32_t offsets[2] = {0, int32_t(n)};
  const Output& output = run.forward({.ids = encoding.ids, .types = encoding.types, .offsets = offsets},
                                     {.all_attention = true});
  a.weights.reserve(a.layers * a.heads * n * n);
  for (size_t l = 0; l < a.layers; ++l) {
    const Matrix<const float> first = output.attention(l, 0, 0);  // the layer's heads follow each other
    a.weights.insert(a.weights.end(), first.data(), first.data() + config.heads * n * n);
  }
  for (int32_t id : encoding.ids) a.tokens.emplace_back(tokenizer.token(id));
  a.encoding = std::move(encoding);
  return a;
}

}  // namespace

Attention Encoder::attend(std::string_view text) {
  return bertie::attend(state_->run, tokenizer(), model().config(), tokenizer().encode(text));
}

Attention Encoder::attend(std::string_view a, std::string_view b) {
  return bertie::attend(state_->run, tokenizer(), model().config(), tokenizer().encode(a, b));
}

}  // namespace bertie
