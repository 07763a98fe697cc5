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

// "models/plain", "families/albert-base-0", …
std::vector<std::string> golden_models() {
  std::vector<std::string> names;
  for (const std::string folder : {"models", "families"})
    for (const auto& entry :
         std::filesystem::directory_iterator(test::source_dir() / "tests/golden" / folder))
      if (const std::string name = entry.path().filename().string(); !name.starts_with("marian"))
        names.push_back(folder + "/" + name);
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path dir() const { return test::source_dir() / "tests/golden" / GetParam(); }
};

// Batches of a golden file: a family without token types has none there.
struct Inputs {
  std::vector<int32_t> ids, types, offsets;
  explicit Inputs(const test::Expected& expected)
      : ids(expected.ints("ids")), offsets(expected.ints("offsets")) {
    if (expected.has("types")) types = expected.ints("types");
  }
  Batch batch() const { return {.ids = ids, .types = types, .offsets = offsets}; }
};

// Which of the golden file's logits belong to which head.
std::vector<std::pair<Head, std::string>> heads_of(const Model& model, const test::Expected& expected) {
  std::vector<std::pair<Head, std::string>> heads;
  if (expected.has("logits.mlm"))
    return {{Head::kMaskedLm, "logits.mlm"}, {Head::kNextSentence, "logits.nsp"}};
  for (Head head : {Head::kMaskedLm, Head::kNextSentence, Head::kClassify, Head::kTag, Head::kAnswer})
    if (expected.has("logits") && model.has(head)) heads.emplace_back(head, "logits");
  // A GPT-2 whose head is tied can always continue a text; the other heads come first.
  if (expected.has("logits") && heads.empty() && model.has(Head::kCausalLm))
    heads.emplace_back(Head::kCausalLm, "logits");
  return heads;
}

std::span<const float> flat(Matrix<const float> m) { return {m.data(), m.rows() * m.cols()}; }

TEST_P(Golden, HiddenStatesPoolerAndEveryAttentionWeightEqualTransformers) {
  test::on_every_target([&] {
    const test::Expected expected(dir() / "expected.safetensors");
    const Inputs inputs(expected);
    const std::vector<int32_t>& offsets = inputs.offsets;
    const Model model = Model::load(dir());
    const bool pooled = expected.has("pooled");
    EXPECT_TRUE(model.has_pooler() || !pooled);
    bertie::Run run(model, 2);
    const Output& out =
        run.forward(inputs.batch(), {.hidden_states = true, .pooled = pooled, .all_attention = true});
    const size_t depth = model.config().depth();
    ASSERT_EQ(out.hidden_states.size(), depth + 1);
    for (size_t l = 0; l <= depth; ++l)
      EXPECT_TRUE(
          test::near(flat(out.hidden_states[l]), expected.floats("hidden." + std::to_string(l)), kTolerance))
          << "hidden state " << l;
    if (pooled) {
      EXPECT_TRUE(test::near(flat(out.pooled), expected.floats("pooled"), kTolerance));
    }
    for (size_t l = 0; l < depth; ++l) {
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

TEST_P(Golden, LogitsOfEveryHeadEqualTransformers) {
  const test::Expected expected(dir() / "expected.safetensors");
  const Inputs inputs(expected);
  const Model model = Model::load(dir());
  const auto heads = heads_of(model, expected);
  EXPECT_EQ(heads.empty(), !expected.has("logits") && !expected.has("logits.mlm"));
  for (const auto& [head, name] : heads)
    test::on_every_target([&] {
      bertie::Run run(model, 2);
      EXPECT_TRUE(test::near(flat(run.forward(inputs.batch(), {.head = head}).logits), expected.floats(name),
                             kTolerance))
          << name;
    });
}

TEST_P(Golden, TheFastPathGivesTheSameLastHiddenState) {
  const test::Expected expected(dir() / "expected.safetensors");
  const Inputs inputs(expected);
  const Model model = Model::load(dir());
  bertie::Run run(model, 1);
  const size_t layers = model.config().depth();
  const auto want = expected.floats("hidden." + std::to_string(layers));
  EXPECT_TRUE(test::near(flat(run.forward(inputs.batch()).last_hidden), want, kTolerance));
  const Output& out = run.forward(inputs.batch(), {.attention = {layers - 1}});
  EXPECT_TRUE(test::near(flat(out.last_hidden), want, kTolerance));
  EXPECT_NO_THROW(out.attention(layers - 1, 0, 0));
  if (layers > 1) {
    EXPECT_THROW(out.attention(0, 0, 0), Error);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::ValuesIn(golden_models()), [](const auto& p) {
  std::string name = p.param.substr(p.param.find('/') + 1);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace bertie
