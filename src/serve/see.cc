// What the page draws beside attention itself: all heads at once, and one head under every mechanism.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/atlas.h"
#include "bertie/bench.h"
#include "bertie/explain.h"
#include "bertie/json_writer.h"
#include "io/base64.h"
#include "serve/heads.h"

namespace bertie::serve {
namespace {

constexpr size_t kMechanismSide = 128;  // of a mechanism's picture, in cells
constexpr size_t kMostMechanismTokens = 512, kMostLength = 8192;
constexpr double kMeasureSeconds = 0.02;  // for each mechanism: somebody waits for the page

struct Asked {
  std::string text;
  std::optional<std::string> pair;

  Attention attend(const TextModel& model) const {
    return pair ? model.attend(text, *pair) : model.attend(text);
  }
};

Asked asked_of(const Fields& fields) { return {fields.string("text"), pair_of(fields)}; }

size_t tokens_of(Call& call, const TextModel& model, const Asked& asked) {
  return length_of(call, model, asked.text, asked.pair);
}

Async<HttpReply> atlas_of_text(Call& call) {
  const Fields fields = call.fields();
  fields.only({"model", "text", "pair", "without"});
  const ModelPointer model = call.service.models.find(fields.string("model", ""));
  const Config& config = model->all.model().config();
  const Asked asked = asked_of(fields);
  const size_t n = tokens_of(call, model->all, asked);
  check_weights(config.depth(), config.heads, n);
  heads_off_of(fields, config);  // whatever is wrong with them, before the work
  const AttentionCache::Key key{model, attention_key(fields)};
  AttentionCache::Pointer attention = call.service.attention_cache.find(key);
  const bool known = attention != nullptr;
  const std::string reply = co_await call.run_alone<std::string>(model, n, [&](const TextModel& m) {
    if (!known) attention = std::make_shared<const Attention>(asked.attend(model_for(m, fields)));
    const Atlas all = atlas(*attention, {.threads = m.threads()});
    AtlasJsonOptions options{.model = model->name, .text = asked.text};
    if (asked.pair) options.pair = *asked.pair;
    return to_json(all, *attention, options);
  });
  if (!known) call.service.attention_cache.keep(key, attention);
  co_return json_reply(reply);
}

// The mean over the heads of a layer, or of all: (n, n), as JSON or for NumPy.
Async<HttpReply> mean_of_heads(Call& call) {
  const Fields fields = call.fields();
  fields.only({"model", "text", "pair", "layer", "without", "format", "precision"});
  const ModelPointer model = call.service.models.find(fields.string("model", ""));
  const Config& config = model->all.model().config();
  const Asked asked = asked_of(fields);
  const size_t layer = fields.whole("layer", 0, 1, config.depth());
  const NumberFormat format = number_format_of(fields, {"float32", "float16"});
  const size_t n = tokens_of(call, model->all, asked);
  check_weights(config.depth(), config.heads, n);
  heads_off_of(fields, config);
  const AttentionCache::Pointer known = call.service.attention_cache.find({model, attention_key(fields)});
  std::vector<std::string> tokens;
  const Grid mean = co_await call.run_alone<Grid>(model, n, [&](const TextModel& m) {
    const Attention made = known ? Attention() : asked.attend(model_for(m, fields));
    const Attention& all = known ? *known : made;
    tokens = all.tokens;
    Grid sum(n, n);
    size_t count = 0;  // heads that were pruned have zeros
    for (size_t l = layer ? layer - 1 : 0; l < (layer ? layer : all.layers); ++l) {
      count += config.heads_of(l).size();
      for (size_t head = 0; head < all.heads; ++head) {
        const Matrix<const float> weights = all.at(l, head);
        for (size_t i = 0; i < n * n; ++i) sum.values[i] += weights.data()[i];
      }
    }
    for (float& w : sum.values) w /= float(count);
    return sum;
  });
  if (format.npy) co_return npy_reply(mean, format.precision);
  JsonWriter out;
  out.begin_object().field("model", model->name).field("tokens", tokens);
  out.field("weights", Matrix<const float>(mean)).end_object();
  co_return json_reply(out.take());
}

// What a mechanism looks into while it runs: options are views.
struct Mechanism {
  const char* name;
  const char* about;
  AttentionOptions options;
};

// How far mechanisms look: so little that a sentence shows the pattern, or as they are for long texts.
struct Reach {
  size_t around, block, stride;
  float span[1], ramp;
};
constexpr Reach kInPictures{.around = 3, .block = 2, .stride = 4, .span = {4}, .ramp = 4};
constexpr Reach kInMeasurements{.around = 128, .block = 64, .stride = 128, .span = {128}, .ramp = 32};

std::vector<Mechanism> mechanisms_with(const Reach& reach, double scale) {
  const auto look = [&](Look l) {
    return AttentionOptions{.score = Score::scaled_by(float(scale)), .look = l};
  };
  return {
      {"full", "every token sees every token", look(Look::full())},
      {"causal", "a token sees itself and what came before it, as in GPT-2", look(Look::causal())},
      {"window", "three tokens to each side", look(Look::window(reach.around))},
      {"big-bird", "blocks of two: the block and its neighbors, the first block, and one at random",
       look(Look::big_bird({.block = reach.block, .window = 3, .global = 1, .random = 1}))},
      {"strided", "the last four tokens, and every fourth before", look(Look::strided(reach.stride))},
      {"adaptive-span", "four tokens on both sides, fading over four more",
       look(Look::adaptive_span(reach.span, reach.ramp, true))},
      {"linear", "φ(q)·φ(k) in place of e^(q·k): no pair of tokens is ever looked at",
       AttentionOptions{.compute = Compute::linear()}},
  };
}

// The rows again and again, to a length at which time can be measured.
Grid repeated(const Grid& rows, size_t length) {
  Grid out(length, rows.cols);
  for (size_t r = 0; r < length; ++r)
    std::copy_n(&rows.values[r % rows.rows * rows.cols], rows.cols, &out.values[r * rows.cols]);
  return out;
}

double best_seconds(const std::function<void()>& work) {
  double best = INFINITY;
  const Stopwatch all;
  do {
    const Stopwatch one;
    work();
    best = std::min(best, one.seconds());
  } while (all.seconds() < kMeasureSeconds);
  return best;
}

std::string run_mechanisms(const AttentionSteps& s, size_t length) {
  const size_t n = s.n();
  const Grid q = repeated(s.q, length), k = repeated(s.k, length), v = repeated(s.v, length);
  Grid full, out(n, s.v.cols), long_out(length, s.v.cols);
  std::vector<float> weights(n * n);
  JsonWriter json;
  json.begin_object().field("tokens", s.tokens).field("layer", s.layer + 1).field("head", s.head + 1);
  json.field("length", length).field("side", std::min(n, kMechanismSide)).key("mechanisms").begin_array();
  const std::vector<Mechanism> drawn = mechanisms_with(kInPictures, s.scale),
                               measured = mechanisms_with(kInMeasurements, s.scale);
  for (size_t which = 0; which < drawn.size(); ++which) {
    const Mechanism& m = drawn[which];
    attention(s.q, s.k, s.v, out, weights, m.options);
    if (full.values.empty()) full = out;  // the first one is full attention
    double difference = 0, size = 0;
    for (size_t i = 0; i < out.values.size(); ++i) {
      difference += std::pow(double(out.values[i]) - double(full.values[i]), 2);
      size += std::pow(double(full.values[i]), 2);
    }
    Workspace workspace;
    AttentionOptions options = measured[which].options;
    options.workspace = &workspace;
    const double seconds = best_seconds([&] { attention(q, k, v, long_out, options); });
    const bool pairwise = m.options.compute.kind == Compute::Kind::kSoftmax;
    json.begin_object().field("name", m.name).field("about", m.about);
    json.field("pairs", pairwise ? visible_pairs(m.options.look, 1, n) : 0.0);
    json.field("pairs_at_length", pairwise ? visible_pairs(options.look, 1, length) : 0.0);
    json.field("seconds", seconds).field("difference", size > 0 ? std::sqrt(difference / size) : 0.0);
    const std::vector<uint8_t> picture = weight_picture({weights.data(), n, n}, kMechanismSide);
    json.field("picture", io::base64(std::as_bytes(std::span(picture)))).end_object();
  }
  return json.end_array().end_object().take();
}

Async<HttpReply> mechanisms(Call& call) {
  const Fields fields = call.fields();
  fields.only({"model", "text", "pair", "layer", "head", "length"});
  const ModelPointer model = call.service.models.find(fields.string("model", ""));
  const Config& config = model->all.model().config();
  const Asked asked = asked_of(fields);
  const WhichHead which{fields.whole("layer", 1, 1, config.depth()) - 1,
                        fields.whole("head", 1, 1, config.heads) - 1};
  const size_t length = fields.whole("length", 1024, 16, kMostLength);
  const size_t n = tokens_of(call, model->all, asked);
  if (n > kMostMechanismTokens)
    throw RequestError(
        413, fmt::format("{} tokens; mechanisms are compared for up to {}", n, kMostMechanismTokens), "text");
  // What is measured costs as much as so many tokens that go through the model.
  const size_t work = std::min(n + length, call.service.limits.piece);
  const std::string reply = co_await call.run_alone<std::string>(model, work, [&](const TextModel& m) {
    return run_mechanisms(
        asked.pair ? explain(m, asked.text, *asked.pair, which) : explain(m, asked.text, which), length);
  });
  co_return json_reply(reply);
}

constexpr Route route(std::string_view path, Async<HttpReply> (*run)(Call&)) {
  return {.method = "POST", .path = path, .run = run, .style = ErrorStyle::kTei, .has_body = true};
}
constexpr Route kRoutes[] = {route("/atlas", atlas_of_text), route("/mean", mean_of_heads),
                             route("/mechanisms", mechanisms)};

}  // namespace

std::span<const Route> see_routes() { return kRoutes; }

}  // namespace bertie::serve
