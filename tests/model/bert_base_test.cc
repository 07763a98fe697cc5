// Google's bert-base-uncased with its real weights against Hugging Face transformers
// (tests/golden/bert-base-uncased, made by tools/make_bert_base_golden.py): every attention weight of every
// layer and head. Runs where the model is: $BERTIE_BERT_BASE, or models/bert-base-uncased in $BERTIE_DATA, a
// folder with config.json and model.safetensors.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "bertie/model.h"
#include "support/data.h"
#include "support/tensors.h"

namespace bertie {
namespace {

TEST(BertBase, EqualsTransformersInEveryAttentionWeight) {
  const char* const named = std::getenv("BERTIE_BERT_BASE");
  const std::filesystem::path folder = named ? named : test::data("models/bert-base-uncased");
  if (!std::filesystem::exists(folder))
    GTEST_SKIP() << folder
                 << " is not here, and $BERTIE_BERT_BASE names no other folder of bert-base-uncased";
  const Model model = Model::load(folder);
  const test::Expected expected(test::source_dir() / "tests/golden/bert-base-uncased/expected.safetensors");
  bertie::Run run(model);
  for (const std::string text : {"0.", "1."}) {
    const auto ids = expected.ints(text + "ids"), types = expected.ints(text + "types");
    const size_t n = ids.size();
    const int32_t offsets[] = {0, int32_t(n)};
    std::vector<int32_t> mask;
    for (size_t t = 0; t < n; ++t)
      if (ids[t] == 103) mask.push_back(int32_t(t));
    const Output& out = run.forward({.ids = ids, .types = types, .offsets = offsets},
                                    {.all_attention = true,
                                     .head = mask.empty() ? std::optional<Head>() : Head::kMaskedLm,
                                     .rows = mask});
    std::vector<float> weights;
    for (size_t l = 0; l < 12; ++l)
      for (size_t h = 0; h < 12; ++h) {
        const Matrix<const float> head = out.attention(l, 0, h);
        weights.insert(weights.end(), head.data(), head.data() + n * n);
      }
    EXPECT_TRUE(test::near(weights, expected.floats(text + "attention"), 2e-5));
    const std::span<const float> hidden(out.last_hidden.data(), n * 768);
    EXPECT_TRUE(test::near(hidden, expected.floats(text + "hidden"), 2e-5));
    if (mask.empty()) continue;
    EXPECT_TRUE(test::near(out.logits[0], expected.floats(text + "masked"), 1e-4));
    EXPECT_EQ(std::max_element(out.logits[0].begin(), out.logits[0].end()) - out.logits[0].begin(), 3007)
        << "Paris is the capital of France";
  }
}

}  // namespace
}  // namespace bertie
