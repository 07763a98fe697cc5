#include "bertie/encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "core/parallel.h"
#include "tasks/batches.h"
#include "tasks/modules.h"
#include "tasks/reader.h"

namespace bertie {

struct Encoder::Shared {
  Reader reader;
  Modules modules;
};

struct Encoder::State {
  State(std::shared_ptr<const Shared> s, int threads, size_t length)
      : shared(std::move(s)), run(shared->reader.model, threads), max_length(length) {}
  std::shared_ptr<const Shared> shared;
  Run run;
  size_t max_length;
  // Reused from call to call.
  Encoding encoding;
  Sequences sequences;
  Batches batches;
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
  Reader reader = load_reader(directory);
  const Config& config = reader.model.config();
  Modules modules = load_modules(directory, config.hidden);
  if (modules.lowercase && !reader.tokenizer.lowercase())
    throw Error(fmt::format("{}: sentence_bert_config.json asks to lowercase texts for a cased tokenizer",
                            directory.string()),
                "lowercase the texts yourself and set do_lower_case to false there");
  const size_t length = bertie::max_length(modules, config.max_tokens(), reader.tokenizer.model_max_length());
  auto shared = std::make_shared<const Shared>(Shared{std::move(reader), std::move(modules)});
  return Encoder(std::make_unique<State>(std::move(shared), threads, length));
}

size_t Encoder::dimension() const { return state_->shared->modules.output_size(model().config().hidden); }
size_t Encoder::max_length() const { return state_->max_length; }
const Pooling& Encoder::pooling() const { return state_->shared->modules.pooling; }
const Tokenizer& Encoder::tokenizer() const { return state_->shared->reader.tokenizer; }
const Model& Encoder::model() const { return state_->shared->reader.model; }
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

  size_t truncated = 0;
  s.sequences.clear();
  for (std::string_view text : texts) {
    tokenizer().encode_into(text, {.max_length = s.max_length}, s.encoding);
    truncated += s.encoding.truncated;
    s.sequences.add(s.encoding);
  }
  Team inline_team;
  s.batches.run(s.run, s.sequences, {}, [&](size_t i, Matrix<const float> rows) {
    std::vector<float>& vector = s.pooled;
    vector.resize(modules.pooled_size(hidden));
    pool(rows, modules.pooling, vector);
    for (const DenseModule& dense : modules.dense) {
      std::vector<float> next(dense.linear.outputs);
      kernels::linear_forward({vector.data(), 1, vector.size()}, dense.linear, dense.activation,
                              {next.data(), 1, next.size()}, inline_team);
      vector = std::move(next);
    }
    if (modules.pooling.normalize) normalize(vector);
    std::copy(vector.begin(), vector.end(), out.row(i));
  });
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
