// Every mechanism of attention as a model's: gradients by differences of the loss, one batch by heart, saved
// and loaded, and generation with a cache.
#include <gtest/gtest.h>

#include <cmath>

#include "bertie/error.h"
#include "bertie/model.h"
#include "core/random.h"
#include "io/json.h"
#include "model/attention_config.h"
#include "model/learner.h"
#include "model/learning.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

struct Mechanism {
  std::string name;
  AttentionConfig attention;
  bool causal = false;
};
void PrintTo(const Mechanism& m, std::ostream* out) { *out << m.name; }

std::vector<Mechanism> mechanisms() {
  const auto look = [](const Look& l) { return AttentionConfig{.look = l}; };
  const auto compute = [](const Compute& c) { return AttentionConfig{.compute = c}; };
  AttentionConfig span = look(Look::adaptive_span({}, 4, true)), back = look(Look::adaptive_span({}, 4));
  span.span = back.span = 0.2;
  AttentionConfig longformer = look(Look::window_and_global(2, {}));
  longformer.global = {0, 9};  // beyond the end of some sequences
  AttentionConfig linformer = compute(Compute::linformer({}, {}));
  linformer.linformer_rows = 6;
  return {{"window", look(Look::window(3))},
          {"longformer", longformer},
          {"big_bird", look(Look::big_bird({.block = 4, .window = 1, .global = 1, .random = 1, .seed = 3}))},
          {"backwards", look(Look::causal())},
          {"adaptive_span", span},
          {"linear", compute(Compute::linear())},
          {"performer", compute(Compute::performer({.features = 32, .seed = 1}))},
          {"linformer", linformer},
          {"nystrom", compute(Compute::nystrom({.landmarks = 4, .iterations = 6}))},
          {"dot", {.score = Score::Kind::kDot}},
          {"general", {.score = Score::Kind::kGeneral}},
          {"additive", {.score = Score::Kind::kAdditive, .score_size = 5}},
          {"causal_window", look(Look::window(3, 0)), true},
          {"strided", look(Look::strided(4)), true},
          {"fixed", look(Look::fixed(4, 1)), true},
          {"causal_span", back, true},
          {"causal_linear", compute(Compute::linear()), true}};
}

Config config_of(const Mechanism& m, size_t hidden) {
  Config c;
  c.layers = 2, c.hidden = hidden, c.heads = 2, c.intermediate = 2 * hidden, c.vocabulary = 40,
  c.positions = 24;
  c.dropout = 0.1;
  c.attention_dropout = 0.1;
  if (m.causal)
    c.model_type = "gpt2", c.types = 0, c.layer_norm_eps = 1e-5, c.pad_id = -1, c.bos_id = c.eos_id = 39;
  c.attention = m.attention;
  return c;
}

Head head_of(const Mechanism& m) { return m.causal ? Head::kCausalLm : Head::kMaskedLm; }

// Sequences with something to say at every third token.
struct Example {
  std::vector<int32_t> ids, offsets{0}, rows, targets;
  LossTerm term;

  explicit Example(const Mechanism& m) {
    Random random(5);
    for (int32_t n : {21, 9, 14, 2}) {
      for (int32_t i = 0; i < n; ++i) {
        if (i % 3 == 1) rows.push_back(int32_t(ids.size())), targets.push_back(int32_t(random.below(40)));
        ids.push_back(int32_t(random.below(39)));
      }
      offsets.push_back(int32_t(ids.size()));
    }
    term = {.head = head_of(m), .rows = rows, .targets = targets, .scale = 1 / float(rows.size())};
  }
  TrainingBatch training(std::optional<uint64_t> seed = {}) const {
    return {.batch = {.ids = ids, .offsets = offsets}, .terms = {&term, 1}, .dropout_seed = seed};
  }
};

class Mechanisms : public testing::TestWithParam<Mechanism> {};

TEST_P(Mechanisms, GradientIsTheLosssSlope) {
  const Example example(GetParam());
  for (const std::optional<uint64_t> seed : {std::optional<uint64_t>(), std::optional<uint64_t>(7)}) {
    const auto learner = make_learner(config_of(GetParam(), 16), {head_of(GetParam())}, 1, {.threads = 2});
    Random random(3);
    for (const Segment& s : learner->segments())
      for (size_t i = 0; i < s.count; ++i) {
        float& p = learner->parameters()[s.first + i];
        // Spans are kept away from where a token comes into sight, which is a kink.
        if (!s.name.ends_with("spans") && (p != 0 || !s.decays)) p += 0.15f * random.normal();
        if (s.name.ends_with("spans")) p = (4.5f + 2.0f * float(i % 2)) / 24;
      }
    test::expect_slope(*learner, example.training(seed));
  }
}

TEST_P(Mechanisms, LearnABatchByHeart) {
  const Example example(GetParam());
  Config config = config_of(GetParam(), 64);
  config.dropout = config.attention_dropout = 0;
  const auto learner = make_learner(config, {head_of(GetParam())}, 1, {.threads = 2});
  const std::span<float> p = learner->parameters();
  std::vector<float> m(p.size()), v(p.size());
  double loss = 0;
  for (int step = 1; step <= 300; ++step) {  // Adam, in its own words
    loss = test::learn(*learner, example.training());
    const double rate = 3e-3 * std::min(1.0, step / 20.0), c1 = 1 - std::pow(0.9, step),
                 c2 = 1 - std::pow(0.999, step);
    for (size_t i = 0; i < p.size(); ++i) {
      const float g = learner->gradients()[i];
      m[i] = 0.9f * m[i] + 0.1f * g, v[i] = 0.999f * v[i] + 0.001f * g * g;
      p[i] -= float(rate * (m[i] / c1) / (std::sqrt(v[i] / c2) + 1e-8));
    }
  }
  EXPECT_LT(loss, 2e-2);
}

TEST_P(Mechanisms, AreSavedWithTheModelAndComeBack) {
  const Example example(GetParam());
  const Config config = config_of(GetParam(), 16);
  const Model model = Model::random(config, 3, {head_of(GetParam())});
  const test::TempFolder folder;
  model.save(folder.path());
  const Model again = Model::load(folder.path());
  bertie::Run a(model, 1), b(again, 2);
  const Batch batch = example.training().batch;
  const Output& x = a.forward(batch, {.all_attention = true, .head = head_of(GetParam())});
  const Output& y = b.forward(batch, {.head = head_of(GetParam())});
  for (size_t r = 0; r < x.logits.rows(); ++r)
    for (size_t c = 0; c < x.logits.cols(); ++c) ASSERT_NEAR(x.logits(r, c), y.logits(r, c), 1e-5);
  double rows = 0;
  for (size_t i = 0; i < 21; ++i)
    for (size_t j = 0; j < 21; ++j) rows += double(x.attention(1, 0, 1)(i, j));
  EXPECT_NEAR(rows, 21, GetParam().name == "nystrom" || GetParam().name == "linformer" ? 25 : 1e-3);
}

TEST_P(Mechanisms, GiveTheSameBitsInAnyBatch) {
  const Example example(GetParam());
  const Model model = Model::random(config_of(GetParam(), 16), 3, {head_of(GetParam())});
  bertie::Run all(model, 2), alone(model, 1);
  const Output& x = all.forward(example.training().batch);
  for (size_t s = 0; s + 1 < example.offsets.size(); ++s) {
    const auto first = size_t(example.offsets[s]), n = size_t(example.offsets[s + 1]) - first;
    const int32_t offsets[] = {0, int32_t(n)};
    const Output& y = alone.forward({.ids = std::span(example.ids).subspan(first, n), .offsets = offsets});
    for (size_t t = 0; t < n; ++t)
      for (size_t c = 0; c < 16; ++c) ASSERT_EQ(x.last_hidden(first + t, c), y.last_hidden(t, c));
  }
}

TEST_P(Mechanisms, ReadOnFromACacheAsIfAllWereReadAtOnce) {
  if (!GetParam().causal) return;
  const Example example(GetParam());
  const Model model = Model::random(config_of(GetParam(), 16), 3, {Head::kCausalLm});
  bertie::Run run(model, 2);
  const size_t n = 21;
  const std::vector<int32_t> all{0, int32_t(n)};
  const std::span<const int32_t> ids = std::span(example.ids).first(n);
  const Output& whole = run.forward({.ids = ids, .offsets = all});
  std::vector<float> expected(whole.last_hidden.row(0), whole.last_hidden.row(0) + n * 16);
  Cache cache(model);
  for (size_t first = 0, count = 1; first < n; first += count, count = std::min<size_t>(5, n - first)) {
    const std::vector<int32_t> offsets{0, int32_t(count)};
    const Output& out = run.forward({.ids = ids.subspan(first, count), .offsets = offsets}, {}, cache);
    for (size_t t = 0; t < count; ++t)
      for (size_t c = 0; c < 16; ++c)
        ASSERT_NEAR(out.last_hidden(t, c), expected[(first + t) * 16 + c], 1e-5) << first + t;
  }
}

INSTANTIATE_TEST_SUITE_P(Attention, Mechanisms, testing::ValuesIn(mechanisms()),
                         [](const auto& instance) { return instance.param.name; });

TEST(AdaptiveSpan, BelowNothingIsNothing) {
  AttentionConfig attention{.look = Look::adaptive_span({}, 4, true)};
  const auto learner = make_learner(config_of({"", attention}, 16), {Head::kMaskedLm}, 1, {.threads = 1});
  for (const Segment& s : learner->segments())
    if (s.name.ends_with("spans"))
      std::fill_n(&learner->parameters()[s.first], s.count, -0.01f);  // by a step
  const test::TempFolder folder;
  learner->save(folder.path());
  const Model model = Model::load(folder.path());
  const std::vector<int32_t> ids{1, 2, 3}, offsets{0, 3};
  EXPECT_NO_THROW(bertie::Run(model, 1).forward({.ids = ids, .offsets = offsets}));
}

TEST(MechanismConfig, ComesBackWhateverItsNumbers) {
  for (const AttentionConfig& attention :
       {AttentionConfig{.look = Look::big_bird({.seed = UINT64_MAX})},
        AttentionConfig{.look = Look::window(SIZE_MAX, 3'000'000'000)},
        AttentionConfig{.compute = Compute::performer({.features = 32, .seed = uint64_t{1} << 63})}}) {
    const Config c = config_of({"", attention}, 16);
    const test::TempFolder folder;
    Model::random(c).save(folder.path());
    EXPECT_EQ(attention_json(Config::load(folder.path()).attention).dump(), attention_json(attention).dump());
  }
}

TEST(MechanismConfig, ACausalLookIsStandardInACausalModel) {
  Config config;
  config.attention.look = Look::causal();
  EXPECT_NE(config.to_json().find("\"attention\":"), std::string::npos);
  config.model_type = "gpt2";
  EXPECT_EQ(config.to_json().find("\"attention\":"), std::string::npos);
}

TEST(MechanismConfig, RefusesWhatDoesNotGoTogether) {
  const auto refused = [](AttentionConfig attention, bool causal) {
    Config c = config_of({"", attention, causal}, 16);
    EXPECT_THROW(c.check("config"), Error);
  };
  refused({.look = Look::window(3, 1)}, true);
  refused({.look = Look::window(3), .compute = Compute::linear()}, false);
  refused({.score = Score::Kind::kAdditive, .compute = Compute::performer()}, false);
  refused({.look = Look::adaptive_span({}, 0)}, false);
  refused({.compute = Compute::nystrom()}, true);
  Config groups = config_of({"", {}}, 16);
  groups.inner_layers = 2;
  EXPECT_THROW(groups.check("config"), Error) << "BERT has no groups of layers";
}

}  // namespace
}  // namespace bertie
