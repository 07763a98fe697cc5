// What a Run takes and refuses, and the memory it holds.
#include <gtest/gtest.h>

#include "bertie/error.h"
#include "bertie/model.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/sentences.h"

namespace bertie {
namespace {

using test::expect_error;

const Config kTiny{
    .layers = 2, .hidden = 8, .heads = 2, .intermediate = 12, .vocabulary = 20, .positions = 40, .types = 2};

using Ints = std::vector<int32_t>;

struct RunTest : testing::Test {
  const Output& forward(const Ints& ids, const Ints& types, const Ints& offsets,
                        const Capture& capture = {}) {
    return run.forward({.ids = ids, .types = types, .offsets = offsets}, capture);
  }
  Model model = Model::random(kTiny);
  bertie::Run run{model, 1};
};

TEST_F(RunTest, RefusesIdsOutsideTheVocabulary) {
  expect_error("token id 20 at 1 is outside the vocabulary of 20", [&] { forward({1, 20}, {}, {0, 2}); });
  expect_error("token id -1 at 0", [&] { forward({-1, 3}, {}, {0, 2}); });
  expect_error("token id 2147483647", [&] { forward({2147483647}, {}, {0, 1}); });
  EXPECT_NO_THROW(forward({0, 19}, {}, {0, 2}));
}

TEST_F(RunTest, RefusesTypesTheModelLacks) {
  expect_error("token type 2 at 1 is outside the model's 2 types", [&] { forward({1, 2}, {0, 2}, {0, 2}); });
  expect_error("token type -1 at 0", [&] { forward({1, 2}, {-1, 0}, {0, 2}); });
  expect_error("1 types for 2 ids", [&] { forward({1, 2}, {0}, {0, 2}); });
}

TEST_F(RunTest, RefusesSequencesThatAreTooLong) {
  EXPECT_NO_THROW(forward(Ints(40, 1), {}, {0, 40}));
  expect_error("sequence 1 has 41 tokens, but the model has positions for 40", [&] {
    forward(Ints(43, 1), {}, {0, 2, 43});
  });
}

TEST_F(RunTest, RefusesOffsetsThatDoNotCoverTheIds) {
  expect_error("offsets must go from 0", [&] { forward({1, 2}, {}, {}); });
  expect_error("offsets must go from 0", [&] { forward({1, 2}, {}, {0, 1}); });
  expect_error("offsets must go from 0", [&] { forward({1, 2}, {}, {1, 2}); });
  expect_error("offsets must go from 0", [&] { forward({1, 2}, {}, {0, 3}); });
  expect_error("offsets must go from 0", [&] { forward({1, 2}, {}, {0, -1}); });
  expect_error("offsets go back at sequence 1", [&] { forward({1, 2}, {}, {0, 2, 1, 2}); });
  expect_error("offsets go back at sequence 0", [&] { forward({1, 2}, {}, {0, -2, 2}); });
}

TEST_F(RunTest, RefusesToCaptureWhatIsNotThere) {
  expect_error("layer 2 does not exist", [&] { forward({1}, {}, {0, 1}, {.attention = {2}}); });
  const Model headless = Model::load(test::source_dir() / "tests/golden/models/no_pooler");
  bertie::Run without(headless, 1);
  const Ints ids{1}, offsets{0, 1};
  expect_error("no pooler", [&] { without.forward({.ids = ids, .offsets = offsets}, {.pooled = true}); });
}

TEST_F(RunTest, StillWorksAfterARefusal) {
  const auto before = test::copy_of(forward({1, 2, 3}, {}, {0, 3}).last_hidden);
  EXPECT_THROW(forward({99}, {}, {0, 1}), Error);
  EXPECT_TRUE(test::same_bits(test::copy_of(forward({1, 2, 3}, {}, {0, 3}).last_hidden), before));
}

TEST_F(RunTest, TakesEmptyBatchesAndEmptySequences) {
  EXPECT_EQ(forward({}, {}, {0}, test::kEverything).last_hidden.rows(), 0u);
  const Output& out = forward({}, {}, {0, 0, 0}, test::kEverything);
  EXPECT_EQ(out.pooled.rows(), 2u);
  EXPECT_EQ(out.attention(1, 1, 1).rows(), 0u);
}

TEST_F(RunTest, HandsOutTheAttentionOfKeptLayersOnly) {
  const Output& out = forward({1, 2, 3}, {}, {0, 1, 3}, {.attention = {1}});
  EXPECT_EQ(out.attention(1, 1, 1).rows(), 2u);
  expect_error("layer 0 was not kept", [&] { out.attention(0, 0, 0); });
  expect_error("layer 2 was not kept", [&] { out.attention(2, 0, 0); });
  expect_error("no head 2", [&] { out.attention(1, 0, 2); });
  expect_error("no sequence 2", [&] { out.attention(1, 2, 0); });
  EXPECT_TRUE(out.hidden_states.empty());
  EXPECT_TRUE(out.pooled.empty());
}

TEST_F(RunTest, MeansTypeZeroWhereNoTypesAreGiven) {
  const auto implied = test::copy_of(forward({1, 2, 3}, {}, {0, 3}).last_hidden);
  EXPECT_TRUE(test::same_bits(test::copy_of(forward({1, 2, 3}, {0, 0, 0}, {0, 3}).last_hidden), implied));
  EXPECT_FALSE(test::same_bits(test::copy_of(forward({1, 2, 3}, {0, 1, 0}, {0, 3}).last_hidden), implied));
}

TEST_F(RunTest, SeesTheOrderOfTokens) {
  const auto a = test::copy_of(forward({1, 2, 3}, {}, {0, 3}).last_hidden);
  EXPECT_FALSE(test::same_bits(test::copy_of(forward({1, 3, 2}, {}, {0, 3}).last_hidden), a));
}

TEST(RunMemory, StaysAtWhatTheLargestOfTenThousandBatchesNeeds) {
  const Model model = Model::random(kTiny);
  bertie::Run run(model, 1);
  Random random(1);
  const auto random_batch = [&] {
    std::vector<test::Sentence> sentences(random.below(6));
    for (auto& s : sentences)
      s = test::random_sentence(random, random.below(uint32_t(kTiny.positions + 1)), kTiny);
    return test::Packed(sentences, 2);
  };
  const Capture captures[] = {{}, {.pooled = true}, {.attention = {0}}, test::kEverything};
  // The largest that can come: five sequences as long as can be, everything kept.
  const std::vector<test::Sentence> longest(5, test::Sentence(kTiny.positions, 1));
  bertie::Run bound(model, 1);
  bound.forward(test::Packed(longest, 2).batch(), test::kEverything);
  size_t previous = 0, grown = 0;
  for (int i = 0; i < 10'000; ++i) {
    run.forward(random_batch().batch(), captures[random.below(4)]);
    ASSERT_LE(run.memory(), bound.memory() * 5 / 4 + 4096);  // an arena grows by a quarter more than asked
    ASSERT_GE(run.memory(), previous);
    grown += run.memory() > previous;
    previous = run.memory();
  }
  EXPECT_LT(grown, 30u) << "memory should grow a few times and then stay";
  run.forward(test::Packed(longest, 2).batch(), test::kEverything);
  const size_t largest = run.memory();
  for (int i = 0; i < 100; ++i) run.forward(random_batch().batch(), captures[random.below(4)]);
  EXPECT_EQ(run.memory(), largest);
}

TEST(RunMemory, GrowsByWhatEachTokenIsSaidToTake) {
  for (const char* type : {"bert", "albert", "gpt2"}) {
    const Config config{.model_type = type,
                        .layers = 2,
                        .hidden = 256,
                        .heads = 4,
                        .intermediate = 1024,
                        .vocabulary = 10,
                        .positions = 64};
    const Model model = Model::random(config);
    const auto memory_for = [&](size_t sequences) {
      bertie::Run run(model, 2);
      run.forward(test::Packed(std::vector(sequences, test::Sentence(64, 1)), 1).batch());
      return double(run.memory());
    };
    // An arena grows by a quarter more than asked, to a multiple of 2 MiB.
    const double expected = 1.25 * 64 * 64 * double(bertie::Run::bytes_per_token(model));
    EXPECT_NEAR(memory_for(128) - memory_for(64), expected, 0x1p21) << type;
    EXPECT_GT(expected, 10 * 0x1p21) << "or the test sees nothing";
  }
}

TEST(RunMemory, GrowsWithTheTokensNotWithTheirSquareOnTheFastPath) {
  Config config = kTiny;
  config.positions = 4096;
  const Model model = Model::random(config);
  const auto memory_for = [&](size_t n) {
    bertie::Run run(model, 1);
    const std::vector<test::Sentence> one{test::Sentence(n, 1)};
    run.forward(test::Packed(one, 2).batch());
    return double(run.memory());
  };
  EXPECT_LT(memory_for(4096), 5 * memory_for(1024));
}

}  // namespace
}  // namespace bertie
