// Hidden states, pooled vectors and attention weights against Hugging Face transformers, which made
// tests/golden/models (tools/make_goldens.py).
#include <gtest/gtest.h>

#include "bertie/model.h"
#include "support/data.h"
#include "support/targets.h"
#include "support/tensors.h"

namespace bertie {
namespace {

constexpr double kTolerance = 2e-5;

std::vector<std::string> golden_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() / "tests/golden/models"))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path dir() const { return test::source_dir() / "tests/golden/models" / GetParam(); }
};

std::span<const float> flat(Matrix<const float> m) { return {m.data(), m.rows() * m.cols()}; }

TEST_P(Golden, HiddenStatesPoolerAndEveryAttentionWeightEqualTransformers) {
  test::on_every_target([&] {
    const test::Expected expected(dir() / "expected.safetensors");
    const auto ids = expected.ints("ids"), types = expected.ints("types"), offsets = expected.ints("offsets");
    const Model model = Model::load(dir());
    EXPECT_EQ(model.has_pooler(), expected.has("pooled"));
    bertie::Run run(model, 2);
    const Output& out =
        run.forward({.ids = ids, .types = types, .offsets = offsets},
                    {.hidden_states = true, .pooled = model.has_pooler(), .all_attention = true});
    ASSERT_EQ(out.hidden_states.size(), model.config().layers + 1);
    for (size_t l = 0; l <= model.config().layers; ++l)
      EXPECT_TRUE(
          test::near(flat(out.hidden_states[l]), expected.floats("hidden." + std::to_string(l)), kTolerance))
          << "hidden state " << l;
    if (model.has_pooler()) {
      EXPECT_TRUE(test::near(flat(out.pooled), expected.floats("pooled"), kTolerance));
    }
    for (size_t l = 0; l < model.config().layers; ++l) {
      std::vector<float> weights;
      for (size_t s = 0; s + 1 < offsets.size(); ++s)
        for (size_t h = 0; h < model.config().heads; ++h) {
          const auto w = flat(out.attention(l, s, h));
          weights.insert(weights.end(), w.begin(), w.end());
        }
      EXPECT_TRUE(test::near(weights, expected.floats("attention." + std::to_string(l)), kTolerance))
          << "layer " << l;
    }
  });
}

TEST_P(Golden, TheFastPathGivesTheSameLastHiddenState) {
  const test::Expected expected(dir() / "expected.safetensors");
  const auto ids = expected.ints("ids"), types = expected.ints("types"), offsets = expected.ints("offsets");
  const Model model = Model::load(dir());
  bertie::Run run(model, 1);
  const size_t layers = model.config().layers;
  EXPECT_TRUE(test::near(flat(run.forward({.ids = ids, .types = types, .offsets = offsets}).last_hidden),
                         expected.floats("hidden." + std::to_string(layers)), kTolerance));
  const Output& out =
      run.forward({.ids = ids, .types = types, .offsets = offsets}, {.attention = {layers - 1}});
  EXPECT_TRUE(
      test::near(flat(out.last_hidden), expected.floats("hidden." + std::to_string(layers)), kTolerance));
  EXPECT_NO_THROW(out.attention(layers - 1, 0, 0));
  if (layers > 1) {
    EXPECT_THROW(out.attention(0, 0, 0), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::ValuesIn(golden_models()),
                         [](const auto& p) { return p.param; });

}  // namespace
}  // namespace bertie
