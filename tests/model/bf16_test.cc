// Models whose layers are held in bf16: what they compute, and what they take.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "bertie/model.h"
#include "bertie/transformer.h"
#include "model/access.h"
#include "support/data.h"
#include "support/sentences.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using test::Packed;
using test::Sentence;

constexpr WeightFormat kFormats[] = {WeightFormat::kFloat32, WeightFormat::kBFloat16};
const Config kMiniLm{.layers = 6, .hidden = 384, .heads = 12, .intermediate = 1536, .vocabulary = 500};
const Config kSmall{
    .layers = 2, .hidden = 36, .heads = 3, .intermediate = 50, .vocabulary = 100, .positions = 64};

Packed some_sentences(const Config& config) {
  Random random(4);
  std::vector<Sentence> sentences;
  for (size_t n : {1, 9, 16}) sentences.push_back(test::random_sentence(random, n, config));
  return Packed(sentences, std::max<size_t>(config.types, 1));
}

// |a - b| / |b|
double relative_error(std::span<const float> a, std::span<const float> b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i)
    difference += std::pow(double(a[i]) - double(b[i]), 2), norm += double(b[i]) * double(b[i]);
  return std::sqrt(difference / norm);
}

// Rounding changes a weight by 2^-8 of it at most, and by about half of that in the mean. The errors of a
// product's terms are independent, so the product is off by no larger a share; a residual and a LayerNorm
// keep the share; and the 2·L products that are added to the hidden states, each in error by itself, make it
// √(2·L) times as large.
TEST(ModelInBf16, IsAsCloseToFp32AsItsRoundingAllows) {
  size_t models = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() / "tests/golden/families")) {
    const std::string name = entry.path().filename().string();
    if (name.find("-masked-lm-") == name.npos && name.find("gpt2-causal-lm-") == name.npos) continue;
    std::vector<std::vector<float>> hidden, logits;
    Config config;
    bool stored_in_bf16 = false;
    for (WeightFormat format : kFormats) {
      const Model model = Model::load(entry.path(), {.format = format});
      config = model.config(), stored_in_bf16 = weights_of(model).word.dtype == io::DType::kBF16;
      const Packed batch = some_sentences(config);
      bertie::Run run(model, 2);
      const Output& out =
          run.forward(batch.batch(), {.head = config.causal() ? Head::kCausalLm : Head::kMaskedLm});
      hidden.push_back(test::copy_of(out.last_hidden)), logits.push_back(test::copy_of(out.logits));
    }
    const double bound = 0x1p-8 * std::sqrt(2.0 * double(config.depth()));
    EXPECT_LE(relative_error(hidden[1], hidden[0]), bound) << name;
    // Files in bf16 lose nothing.
    EXPECT_EQ(bool(test::same_bits(hidden[1], hidden[0])), stored_in_bf16) << name;
    EXPECT_LE(relative_error(logits[1], logits[0]), bound + 0x1p-8) << name << ": one more product";
    ++models;
  }
  EXPECT_GT(models, 10u);
}

// Its file holds the rounded weights, of which fp32 makes the same layers.
TEST(ModelInBf16, IsTheModelOfItsRoundedWeightsToTheBit) {
  for (const char* type : {"bert", "albert", "gpt2"}) {
    Config config = kSmall;
    config.model_type = type;
    const Packed batch = some_sentences(config);
    const Model model = Model::random(config, 3, {}, WeightFormat::kBFloat16);
    const test::TempFolder folder;
    model.save(folder.path());
    std::vector<std::vector<float>> hidden;
    for (WeightFormat format : kFormats) {
      bertie::Run run(Model::load(folder.path(), {.format = format}), 1);
      hidden.push_back(test::copy_of(run.forward(batch.batch()).last_hidden));
    }
    bertie::Run run(model, 1);
    for (const auto& h : hidden)
      EXPECT_TRUE(test::same_bits(h, test::copy_of(run.forward(batch.batch()).last_hidden))) << type;
  }
}

TEST(ModelInBf16, TakesHalfTheMemoryForItsLayers) {
  const Model wide = Model::random(kMiniLm), half = Model::random(kMiniLm, 1, {}, WeightFormat::kBFloat16);
  const Weights &a = weights_of(wide), &b = weights_of(half);
  size_t layers = 0;
  for (size_t l = 0; l < kMiniLm.layers; ++l)
    for (auto linear :
         {&LayerWeights::qkv, &LayerWeights::attention_out, &LayerWeights::up, &LayerWeights::down}) {
      const size_t bytes = (a.layer(l).*linear).packed_bytes();
      EXPECT_EQ((b.layer(l).*linear).packed_bytes(), bytes / 2);
      layers += bytes;
    }
  // A large block ends at a multiple of 2 MiB.
  EXPECT_NEAR(double(a.memory.size()) - double(b.memory.size()), double(layers) / 2, 0x1p21);
  EXPECT_EQ(b.decoder().packed_bytes(), a.decoder().packed_bytes() / 2)
      << "the language model's last product";
  EXPECT_EQ(half.parameters(), wide.parameters());
}

TEST(TransformerInBf16, IsTheModelOfItsRoundedWeightsAndSmaller) {
  const TransformerConfig config{.encoder_layers = 2,
                                 .decoder_layers = 2,
                                 .hidden = 64,
                                 .encoder_heads = 4,
                                 .decoder_heads = 4,
                                 .encoder_ffn = 128,
                                 .decoder_ffn = 128,
                                 .vocabulary = 100,
                                 .positions = 40};
  const test::TempFolder exact, rounded;
  Transformer::random(config, 3).save(exact.path());
  const Transformer half = Transformer::load(exact.path(), {.format = WeightFormat::kBFloat16});
  half.save(rounded.path());
  const Transformer wide = Transformer::load(rounded.path());
  EXPECT_LT(weights_of(half).memory.size(), weights_of(wide).memory.size());
  const std::vector<int32_t> ids{5, 6, 7, 8}, offsets{0, 4};
  const auto encoded = [&](const Transformer& model) {
    TransformerRun run(model, 1);
    return test::copy_of(run.encode({.ids = ids, .offsets = offsets}).last_hidden);
  };
  EXPECT_TRUE(test::same_bits(encoded(half), encoded(wide)));
  EXPECT_FALSE(test::same_bits(encoded(half), encoded(Transformer::load(exact.path()))));
}

}  // namespace
}  // namespace bertie
