// all-MiniLM-L6-v2 with its real weights, against Hugging Face transformers (tests/golden/minilm, made by
// tools/make_goldens.py) and against ONNX Runtime.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "bertie/text_model.h"
#include "io/file.h"
#include "io/json.h"
#include "support/data.h"
#include "support/numbers.h"
#include "support/tensors.h"

namespace bertie {
namespace {

constexpr double kTolerance = 2e-5;

std::filesystem::path directory() { return test::data("models/all-MiniLM-L6-v2"); }
nlohmann::json read_json(const std::filesystem::path& file) {
  return io::parse_json(io::MappedFile(file).text(), file.string());
}

TEST(MiniLm, EqualsTransformersInEveryLayerHeadAndSentenceVector) {
  BERTIE_NEEDS(directory());
  const TextModel encoder = load(directory());
  const size_t layers = 6, heads = 12, hidden = 384;
  const auto texts = read_json(test::source_dir() / "tests/golden/minilm/texts.json");
  const test::Expected expected(test::source_dir() / "tests/golden/minilm/expected.safetensors");
  ASSERT_GE(texts.size(), 12u);
  bertie::Run run(encoder.model());
  int whole = 0;  // texts of which every number is compared
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i]["text"], name = std::to_string(i) + ".";
    SCOPED_TRACE(text.substr(0, 60));
    const size_t max_tokens = texts[i]["max_tokens"];
    const Encoding e = encoder.tokenizer().encode(text, {.max_length = max_tokens});
    ASSERT_EQ(e.ids, expected.ints(name + "ids"));
    const size_t n = e.size();
    const std::vector<int32_t> offsets{0, int32_t(n)};
    const Output& out = run.forward({.ids = e.ids, .types = e.types, .offsets = offsets},
                                    {.hidden_states = true, .pooled = true, .all_attention = true});

    std::vector<float> rows, weights, all_rows, all_weights;
    const auto append = [](std::vector<float>& to, std::span<const float> from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    const auto sums = expected.doubles(name + "hidden_sums"),
               squares = expected.doubles(name + "attention_squares");
    for (size_t l = 0; l <= layers; ++l) {
      append(rows, out.hidden_states[l][0]);
      append(rows, out.hidden_states[l][n - 1]);
      // What an error of kTolerance in every number could do to the sums.
      double sum = 0, square = 0;
      for (float x : test::copy_of(out.hidden_states[l])) sum += x, square += double(x) * double(x);
      const double count = double(n * hidden);
      EXPECT_NEAR(sum, sums[2 * l], kTolerance * count) << "layer " << l;
      EXPECT_NEAR(square, sums[2 * l + 1], 2 * kTolerance * std::sqrt(count * square)) << "layer " << l;
    }
    for (size_t l = 0; l < layers; ++l) {
      for (size_t h : {l, l + 6}) {
        append(weights, out.attention(l, 0, h)[0]);
        append(weights, out.attention(l, 0, h)[n / 2]);
      }
      for (size_t h = 0; h < heads; ++h) {
        double square = 0;
        for (float w : test::copy_of(out.attention(l, 0, h))) square += double(w) * double(w);
        EXPECT_NEAR(square, squares[l * heads + h], 2 * kTolerance * double(n))
            << "layer " << l << " head " << h;
      }
    }
    EXPECT_TRUE(test::near(rows, expected.floats(name + "hidden"), kTolerance));
    EXPECT_TRUE(test::near(weights, expected.floats(name + "attention"), kTolerance));
    EXPECT_TRUE(test::near(out.pooled[0], expected.floats(name + "pooled"), kTolerance));
    if (expected.has(name + "all_hidden")) {
      ++whole;
      for (size_t l = 0; l <= layers; ++l) append(all_rows, test::copy_of(out.hidden_states[l]));
      for (size_t l = 0; l < layers; ++l)
        for (size_t h = 0; h < heads; ++h) append(all_weights, test::copy_of(out.attention(l, 0, h)));
      EXPECT_TRUE(test::near(all_rows, expected.floats(name + "all_hidden"), kTolerance));
      EXPECT_TRUE(test::near(all_weights, expected.floats(name + "all_attention"), kTolerance));
    }
    const Embedding sentence = encoder.with_max_length(max_tokens).embed(text);
    EXPECT_TRUE(test::near(sentence.values, expected.floats(name + "sentence"), kTolerance));
  }
  EXPECT_EQ(whole, 1);
}

TEST(MiniLm, AgreesWithOnnxRuntimeOnTheUnroundedWeights) {
  BERTIE_NEEDS(directory());
  const auto file = test::data("refs/minilm-onnxruntime.json");
  BERTIE_NEEDS(file);
  const TextModel encoder = load(directory());
  bertie::Run run(encoder.model());
  const auto items = read_json(file)["items"];
  ASSERT_FALSE(items.empty());
  // Those are the numbers of the unrounded weights. What rounding them to fp16 does, transformers shows: its
  // results on the rounded weights are in the goldens, and Bertie may not be farther off than they are.
  const test::Expected transformers(test::source_dir() / "tests/golden/minilm/expected.safetensors");
  test::Worst sentence, hidden, hidden_of_transformers;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& item = items[i];
    const std::string text = item["text"];
    const Encoding e = encoder.tokenizer().encode(text);
    EXPECT_EQ(e.ids, item["input_ids"].get<std::vector<int32_t>>());
    ASSERT_EQ(e.ids, transformers.ints(fmt::format("{}.ids", i)));
    EXPECT_EQ(encoder.attend(text).tokens, item["tokens"].get<std::vector<std::string>>());
    const auto vector = encoder.embed(text).values;
    const auto expected = item["mean_pooled_normalized"].get<std::vector<double>>();
    ASSERT_EQ(vector.size(), expected.size());
    for (size_t c = 0; c < vector.size(); ++c) sentence.see(std::abs(vector[c] - expected[c]));

    const std::vector<int32_t> offsets{0, int32_t(e.size())};
    const auto last = run.forward({.ids = e.ids, .offsets = offsets}).last_hidden;
    const auto golden = transformers.floats(fmt::format("{}.hidden", i));  // (7, 2, 384)
    const float* const golden_last = golden.data() + 6 * 2 * 384;
    const auto first_row = item["last_hidden_state_token0"].get<std::vector<double>>();
    ASSERT_EQ(first_row.size(), 384u);
    for (size_t c = 0; c < 384; ++c) {
      hidden.see(std::abs(last(0, c) - first_row[c]));
      hidden_of_transformers.see(std::abs(golden_last[c] - first_row[c]));
    }
    const auto last_row = item["last_hidden_state_last_token_first8"].get<std::vector<double>>();
    for (size_t c = 0; c < last_row.size(); ++c) {
      hidden.see(std::abs(last(last.rows() - 1, c) - last_row[c]));
      hidden_of_transformers.see(std::abs(golden_last[384 + c] - last_row[c]));
    }
  }
  EXPECT_LE(sentence.error, 1e-3);
  EXPECT_LE(hidden.error, hidden_of_transformers.error + kTolerance);
  EXPECT_LE(hidden_of_transformers.error, 2e-3) << "the references are of another model";
  std::printf("ONNX Runtime: sentence vectors within %.1e, hidden states within %.2e (transformers: %.2e)\n",
              sentence.error, hidden.error, hidden_of_transformers.error);
}

TEST(MiniLm, ObeysItsModulesJson) {
  BERTIE_NEEDS(directory());
  const TextModel encoder = load(directory(), {.threads = 1});
  EXPECT_TRUE(encoder.pooling().mean);
  EXPECT_FALSE(encoder.pooling().cls || encoder.pooling().max || encoder.pooling().mean_sqrt_length);
  EXPECT_TRUE(encoder.pooling().normalize);
  EXPECT_EQ(encoder.max_length(), 256u);
  EXPECT_EQ(encoder.dimension(), 384u);
  EXPECT_EQ(encoder.threads(), 1);
  std::string text;
  for (int i = 0; i < 255; ++i) text += "word ";
  const Embedding v = encoder.embed(text);
  EXPECT_TRUE(v.truncated);
  EXPECT_EQ(v.tokens, 256u);
  double squares = 0;
  for (float x : v.values) squares += double(x) * double(x);
  EXPECT_NEAR(squares, 1, 1e-6);
}

TEST(MiniLm, PutsLikeNextToLike) {
  BERTIE_NEEDS(directory());
  const TextModel encoder = load(directory(), {.threads = 1});
  const auto dot = [&](std::string_view a, std::string_view b) {
    const auto x = encoder.embed(a).values, y = encoder.embed(b).values;
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  const double like = dot("The weather is lovely today.", "It's so sunny outside!");
  EXPECT_GT(like, dot("The weather is lovely today.", "He drove to the stadium.") + 0.3);
}

TEST(MiniLm, AttendsToTheBankSentence) {
  BERTIE_NEEDS(directory());
  const TextModel encoder = load(directory(), {.threads = 2});
  const Attention a = encoder.attend("The bank deposited the money near the river bank.");
  EXPECT_EQ(a.n(), 12u);
  ASSERT_EQ(a.weights.size(), 6u * 12 * 12 * 12);
  for (size_t l = 0; l < a.layers; ++l)
    for (size_t h = 0; h < a.heads; ++h)
      for (size_t i = 0; i < a.n(); ++i) {
        const auto row = a.at(l, h)[i];
        EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1, 1e-6);
      }
}

}  // namespace
}  // namespace bertie
