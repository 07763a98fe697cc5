// Models in 8-bit integers: what they compute, their files, and files that are not such.
#include "kernels/int8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "bertie/error.h"
#include "bertie/model.h"
#include "bertie/similarity.h"
#include "bertie/transformer.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/access.h"
#include "model/gradient_run.h"
#include "model/quantize.h"
#include "support/data.h"
#include "support/sentences.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using test::Packed;
using test::Sentence;

const Config kSmall{
    .layers = 2, .hidden = 192, .heads = 3, .intermediate = 400, .vocabulary = 150, .positions = 64};

Packed some_sentences(const Config& config, uint64_t seed = 4) {
  Random random(seed);
  std::vector<Sentence> sentences;
  for (size_t n : {1, 9, 16}) sentences.push_back(test::random_sentence(random, n, config));
  return Packed(sentences, std::max<size_t>(config.types, 1));
}

Config of_type(const char* type) {
  Config config = kSmall;
  config.model_type = type;
  return config;
}

std::vector<float> hidden_of(const Model& model, const Packed& batch, int threads = 1) {
  bertie::Run run(model, threads);
  return test::copy_of(run.forward(batch.batch()).last_hidden);
}

TEST(ModelInInt8, IsCloseToFp32InEveryFamily) {
  size_t models = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() / "tests/golden/families")) {
    const std::string name = entry.path().filename().string();
    if (name.find("-masked-lm-") == name.npos && name.find("gpt2-causal-lm-") == name.npos) continue;
    const Model exact = Model::load(entry.path());
    const Packed batch = some_sentences(exact.config());
    const Model model = exact.quantized(batch.batch());
    EXPECT_EQ(model.format(), WeightFormat::kInt8);
    const Capture capture{.head = exact.config().causal() ? Head::kCausalLm : Head::kMaskedLm};
    bertie::Run a(exact, 2), b(model, 2);
    const Output &x = a.forward(batch.batch(), capture), &y = b.forward(batch.batch(), capture);
    // These models are narrow: a row of weights is rounded to a few values, and no input is exact.
    double mean = 0;
    for (size_t t = 0; t < x.last_hidden.rows(); ++t) {
      const float c = cosine(x.last_hidden[t], y.last_hidden[t]);
      EXPECT_GT(c, 0.98f) << name << ", token " << t;
      EXPECT_GT(cosine(x.logits[t], y.logits[t]), 0.98f) << name << ", token " << t;
      mean += double(c) / double(x.last_hidden.rows());
    }
    EXPECT_GT(mean, 0.998) << name;
    ++models;
  }
  EXPECT_GT(models, 10u);
}

TEST(ModelInInt8, ASentenceHasTheSameBitsInAnyBatchAndWithAnyThreads) {
  const Model model = Model::random(kSmall, 3, {}, WeightFormat::kInt8);
  const Packed batch = some_sentences(kSmall);
  const std::vector<float> all = hidden_of(model, batch);
  EXPECT_TRUE(test::same_bits(hidden_of(model, batch, 3), all));
  bertie::Run run(model, 2);
  for (size_t s = 0; s < batch.batch().size(); ++s) {
    const auto first = size_t(batch.batch().offsets[s]), count = size_t(batch.batch().offsets[s + 1]) - first;
    const int32_t offsets[] = {0, int32_t(count)};
    const Matrix<const float> alone = run.forward({.ids = batch.batch().ids.subspan(first, count),
                                                   .types = batch.batch().types.subspan(first, count),
                                                   .offsets = offsets})
                                          .last_hidden;
    EXPECT_TRUE(test::same_bits(test::copy_of(alone),
                                std::span(all).subspan(first * kSmall.hidden, count * kSmall.hidden)));
  }
}

TEST(ModelInInt8, ItsFileHoldsTheSameModelAndAQuarterOfTheBytes) {
  for (const char* type : {"bert", "albert", "gpt2", "roberta", "distilbert"}) {
    Config config = of_type(type);
    config.hidden = 384, config.intermediate = 1536;
    const Packed batch = some_sentences(config);
    const Model exact = Model::random(config, 3), model = exact.quantized(batch.batch());
    const test::TempFolder folder, whole;
    model.save(folder.path()), exact.save(whole.path());
    for (WeightFormat asked : {WeightFormat::kFloat32, WeightFormat::kBFloat16, WeightFormat::kInt8}) {
      const Model loaded = Model::load(folder.path(), {.strict = true, .format = asked});
      EXPECT_EQ(loaded.format(), WeightFormat::kInt8);
      EXPECT_TRUE(test::same_bits(hidden_of(loaded, batch), hidden_of(model, batch))) << type;
    }
    const auto bytes = [](const test::TempFolder& f) {
      return double(std::filesystem::file_size(f.path() / "model.safetensors"));
    };
    // Positions and heads, which stay fp32, are a larger share than in BERT; most of all beside one shared
    // layer.
    EXPECT_LT(bytes(folder), (config.model_type == "albert" ? 0.4 : 0.32) * bytes(whole)) << type;
  }
}

TEST(ModelInInt8, InputsThatAreFarLargerThanTheOthersStayExact) {
  kernels::Linear layer{.inputs = 200, .outputs = 1};
  std::vector<float> x(2 * 200, 0.5f);
  x[17] = -80, x[200 + 150] = 60;
  InputRanges ranges;
  ranges.see(layer, {x.data(), 2, 200});
  EXPECT_EQ(ranges.largest(layer, 2), (std::vector<uint32_t>{17, 150}));
  EXPECT_EQ(InputRanges().largest(layer, 2), (std::vector<uint32_t>{0, 1}));
}

// A model some of whose states are a hundred times as large as the others, as BERT's are.
TEST(ModelInInt8, IsCloseToFp32WhereFewStatesAreFarLarger) {
  Config config = kSmall;
  config.hidden = 384, config.heads = 6, config.intermediate = 768, config.vocabulary = 300;
  for (bool tied : {true, false}) {
    config.tied = tied;
    const test::TempFolder folder;
    Model::random(config, 3, {Head::kMaskedLm}).save(folder.path());
    const io::SafeTensors files = io::SafeTensors::open(folder.path());
    std::vector<io::TensorSource> sources;
    for (const io::TensorInfo& t : files.tensors())
      sources.push_back({t.name, t.shape, [&t = t](size_t first, std::span<float> out) {
                           io::to_float(t, first, out);
                           if (!t.name.ends_with("output.LayerNorm.weight")) return;
                           for (size_t k : {7, 200})
                             if (k >= first && k < first + out.size()) out[k - first] = 60;
                         }});
    const test::TempFolder large;
    io::write_safetensors(large.path() / "model.safetensors", io::DType::kF32, sources);
    std::filesystem::copy_file(folder.path() / "config.json", large.path() / "config.json");
    const Model exact = Model::load(large.path());
    const Packed batch = some_sentences(config);
    const Model model = exact.quantized(batch.batch());
    const Capture capture{.head = Head::kMaskedLm};
    bertie::Run a(exact, 1), b(model, 1);
    const Output &x = a.forward(batch.batch(), capture), &y = b.forward(batch.batch(), capture);
    for (size_t t = 0; t < x.last_hidden.rows(); ++t) {
      // Without the two large ones, which any model would get right.
      std::vector<float> p(x.last_hidden[t].begin(), x.last_hidden[t].end());
      std::vector<float> q(y.last_hidden[t].begin(), y.last_hidden[t].end());
      for (size_t k : {7, 200}) p[k] = q[k] = 0;
      EXPECT_GT(cosine(p, q), 0.998f) << "token " << t;
      EXPECT_GT(cosine(x.logits[t], y.logits[t]), 0.995f) << "token " << t << (tied ? ", tied" : "");
    }
    // They are what stays exact.
    const kernels::Int8Layer layer(weights_of(model).layer(1).qkv);
    for (uint32_t k : {7u, 200u})
      EXPECT_NE(std::find(layer.columns().begin(), layer.columns().end(), k), layer.columns().end()) << k;
  }
}

TEST(ModelInInt8, WeightsThatAreNotFiniteAreErrors) {
  const test::TempFolder folder, spoiled;
  Model::random(kSmall, 3).save(folder.path());
  const io::SafeTensors files = io::SafeTensors::open(folder.path());
  for (const char* part : {"key.weight", "word_embeddings.weight"}) {
    std::vector<io::TensorSource> sources;
    for (const io::TensorInfo& t : files.tensors())
      sources.push_back({t.name, t.shape, [&t = t, part](size_t first, std::span<float> out) {
                           io::to_float(t, first, out);
                           if (t.name.ends_with(part) && first == 0) out[3] = NAN;
                         }});
    io::write_safetensors(spoiled.path() / "model.safetensors", io::DType::kF32, sources);
    std::filesystem::copy_file(folder.path() / "config.json", spoiled.path() / "config.json",
                               std::filesystem::copy_options::overwrite_existing);
    try {
      Model::load(spoiled.path(), {.format = WeightFormat::kInt8});
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("not finite"), std::string::npos) << error.what();
    }
  }
}

TEST(ModelInInt8, DoesNotLearnAndIsNotPruned) {
  const Model model = Model::random(kSmall, 3, {}, WeightFormat::kInt8);
  EXPECT_THROW(model.pruned(std::vector<WhichHead>{{0, 1}}), Error);
  EXPECT_THROW(GradientRun(model, 1), Error);
  EXPECT_EQ(model.quantized(some_sentences(kSmall).batch()).format(), WeightFormat::kInt8);
  EXPECT_THROW(
      Model::random(kSmall, 3, {}, WeightFormat::kBFloat16).quantized(some_sentences(kSmall).batch()), Error);
}

// Whole numbers, scales and columns that `quantize` does not write: an Error that names the tensor, and no
// product of them.
TEST(ModelInInt8, FilesThatNobodyWroteAreErrors) {
  const Model model = Model::random(kSmall, 3, {}, WeightFormat::kInt8);
  const test::TempFolder folder;
  model.save(folder.path());
  const auto refused = [&](const std::string& part, size_t element, float value) {
    const io::SafeTensors files = io::SafeTensors::open(folder.path());
    std::vector<io::TensorSource> sources;
    bool found = false;
    for (const io::TensorInfo& t : files.tensors())
      sources.push_back({t.name, t.shape,
                         [&, &t = t](size_t first, std::span<float> out) {
                           io::as_stored(t, first, out);
                           if (!t.name.ends_with(part) || found) return;
                           out[element] = value, found = true;
                         },
                         t.dtype});
    const test::TempFolder spoiled;
    io::write_safetensors(spoiled.path() / "model.safetensors", io::DType::kF32, sources);
    std::filesystem::copy_file(folder.path() / "config.json", spoiled.path() / "config.json");
    EXPECT_TRUE(found) << part;
    try {
      Model::load(spoiled.path());
      ADD_FAILURE() << part << " " << value;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused("word_embeddings.weight", 0, -128);
  refused("word_embeddings.weight", 5, 127);
  refused("word_embeddings.weight_scale", 5, NAN);
  refused("query.weight", 0, -128);
  refused("query.weight", 5, 127);
  refused("query.weight_scale", 3, -1);
  refused("query.weight_scale", 3, NAN);
  refused("query.exact_columns", 1, 192);
  refused("query.exact_columns", 1, -1);
  refused("query.exact_columns", 1, 0);
}

TEST(ModelInInt8, IsNotForTheEncoderDecoder) {
  const test::TempFolder folder;
  Transformer::random({.encoder_layers = 1,
                       .decoder_layers = 1,
                       .hidden = 32,
                       .encoder_heads = 2,
                       .decoder_heads = 2,
                       .encoder_ffn = 64,
                       .decoder_ffn = 64,
                       .vocabulary = 50,
                       .positions = 20})
      .save(folder.path());
  try {
    Transformer::load(folder.path(), {.format = WeightFormat::kInt8});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("int8"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace bertie
