// A word's vectors in several sentences: where it is found, what its vector is, how places are grouped.
#include "bertie/senses.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bertie/similarity.h"
#include "support/expect_error.h"
#include "tasks/golden_tasks.h"

namespace bertie {
namespace {

using test::expect_error;

TextModel model() { return load(test::golden_task("sentence-similarity-bert"), {.threads = 1}); }

std::vector<std::string> words_of(const Senses& s) {
  std::vector<std::string> words;
  for (const Senses::Place& place : s.places) words.push_back(std::to_string(place.text) + place.word);
  return words;
}
using Words = std::vector<std::string>;

TEST(Senses, FindTheWordInSmallLettersAndCapitalsAndItsFormsWhereItIsNot) {
  const TextModel m = model();
  EXPECT_EQ(words_of(senses(m, "bank", {"The bank near the river BANK, a bank-note.", "Bank!"})),
            (Words{"0bank", "0BANK", "0bank", "1Bank"}));
  EXPECT_EQ(words_of(senses(m, "bank", {"Two banks, one banker and an embankment."})),
            (Words{"0banks"}));
  EXPECT_EQ(words_of(senses(m, "bank", {"A banana, a band, banned bandits and bankers were banked; banking."})),
            (Words{"0banked", "0banking"}));
  EXPECT_EQ(words_of(senses(m, "banks", {"One bank."})), (Words{"0bank"}));
  EXPECT_EQ(words_of(senses(m, "stop", {"stopped, stopping, stops, stoop"})), (Words{"0stopped", "0stopping", "0stops"}));
  EXPECT_EQ(words_of(senses(m, "take", {"taking and taken, takes; tank"})), (Words{"0taking", "0taken", "0takes"}));
  EXPECT_EQ(words_of(senses(m, "naïve", {"a naive NAIVE idea"})), (Words{"0naive", "0NAIVE"}));
  EXPECT_EQ(words_of(senses(m, "Carry", {"She carried it; he carries on."})),
            (Words{"0carried", "0carries"}));
  EXPECT_EQ(words_of(senses(m, "river bank", {"the River bank and the bank"})), (Words{"0River bank"}));
  EXPECT_EQ(words_of(senses(m, "ö", {"Ö und ö, öl"})), (Words{"0Ö", "0ö"}));
  EXPECT_EQ(words_of(senses(m, "銀行", {"銀行に行く"})), (Words{"0銀行"})) << "no spaces between words";
  EXPECT_EQ(places_of_word("two banks", "bank").size(), 1u);
  EXPECT_TRUE(places_of_word("a river", "bank").empty() && places_of_word("a river", "").empty());
  expect_error("text 2 does not have the word \"bank\"", [&] { senses(m, "bank", {"a bank", "a river"}); });
  expect_error("no word", [&] { senses(m, " . ", {"a ."}); });
  std::string long_text = "bank";
  for (size_t i = 0; i < 200; ++i) long_text += " bank";
  expect_error("has positions for", [&] { senses(m, "bank", {"bank", std::string_view(long_text)}); });
}

TEST(Senses, VectorsAreMeansOfTheHiddenStatesOfTheWordsTokens) {
  const TextModel m = model();
  const std::string text = "An unforgettable evening: unforgettable!";
  const Senses s = senses(m, "unforgettable", {std::string_view(text)});
  ASSERT_EQ(s.places.size(), 2u);
  EXPECT_EQ(s.layers, m.model().config().layers);
  const Encoding encoding = m.tokenizer().encode(text);
  bertie::Run run(m.model(), 1);
  const int32_t offsets[] = {0, int32_t(encoding.size())};
  const Output& out = run.forward({.ids = encoding.ids, .types = encoding.types, .offsets = offsets},
                                  {.hidden_states = true});
  for (size_t p = 0; p < 2; ++p) {
    std::vector<size_t> tokens;
    for (size_t t = 0; t < encoding.size(); ++t)
      if (!encoding.special(t) && encoding.offsets[t].begin >= s.places[p].offset.begin &&
          encoding.offsets[t].end <= s.places[p].offset.end)
        tokens.push_back(t);
    EXPECT_GT(tokens.size(), 1u) << "a word of several pieces";
    for (size_t layer = 0; layer <= s.layers; ++layer)
      for (size_t c = 0; c < s.dimension; ++c) {
        double mean = 0;
        for (const size_t t : tokens) mean += double(out.hidden_states[layer](t, c)) / double(tokens.size());
        ASSERT_NEAR(s.at(layer)(p, c), mean, 1e-5);
      }
  }
  EXPECT_EQ(s.cosine(2, 0, 1), cosine(s.at(2)[0], s.at(2)[1]));
  EXPECT_EQ(s.cosines(1)[1], s.cosine(1, 0, 1));
  expect_error("no layer", [&] { s.at(s.layers + 1); });
  expect_error("no place", [&] { s.cosine(0, 0, 2); });
}

Senses made(std::vector<std::vector<float>> layers) {
  Senses s{.places = std::vector<Senses::Place>(layers[0].size() / 2),
           .layers = layers.size() - 1,
           .dimension = 2,
           .vectors = {}};
  for (const std::vector<float>& layer : layers)
    s.vectors.insert(s.vectors.end(), layer.begin(), layer.end());
  return s;
}
const std::vector<float> kTwoSenses{1, 0, 0.9f, 0.1f, 0.8f, 0.3f, 0, 1, 0.1f, 0.9f};
const std::vector<float> kOneSense{1, 0, 1, 0.1f, 1, 0.2f, 1, 0.3f, 1, 0.4f};

// The numbers are scikit-learn's silhouette_score with metric="cosine", and its PCA.
TEST(Senses, SilhouetteAndPlaneAreThoseOfScikitLearn) {
  const Senses s = made({kTwoSenses});
  EXPECT_NEAR(s.silhouette(0, {0, 0, 0, 1, 1}), 0.9693517493, 1e-6);
  EXPECT_NEAR(s.silhouette(0, {0, 0, 1, 1, 1}), 0.4760837158, 1e-6);
  EXPECT_NEAR(s.silhouette(0, {0, 0, 1, 2, 2}), 0.7367227857, 1e-6);
  const std::vector<float> plane = s.plane(0);
  const double expected[] = {0.63619099, -0.02147149, 0.49477902,  -0.01984254, 0.28347553,
                             0.05330688, -0.77792875, -0.00518195, -0.63651678, -0.0068109};
  const double sign[] = {plane[0] * expected[0] < 0 ? -1.0 : 1.0, plane[1] * expected[1] < 0 ? -1.0 : 1.0};
  for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(plane[i] * sign[i % 2], expected[i], 1e-5) << i;
}

TEST(Senses, GroupsAreThoseThatAreMostDistinct) {
  const Senses s = made({kOneSense, kOneSense, kTwoSenses, kOneSense});
  EXPECT_EQ(s.clusters(2), (std::vector<size_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(s.clearest_layer(), 2u);
  EXPECT_EQ(made({{1, 0, 0, 1}}).clusters(0), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(made({{1, 0}}).clusters(0), (std::vector<size_t>{0}));
  EXPECT_EQ(made({{1, 0, 0, 1}, {1, 0, 1, 1}}).clearest_layer(), 1u);
  const std::vector<size_t> same = made({{1, 0, 1, 0, 1, 0}}).clusters(0);
  EXPECT_EQ(same.size(), 3u) << "places that do not differ at all are no trouble";
}

}  // namespace
}  // namespace bertie
