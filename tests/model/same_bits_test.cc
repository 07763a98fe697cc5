// The same sentence gives bitwise the same result alone, in any batch, in any order, with any number of
// threads, and from several threads that share one model.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>
#include <thread>

#include "bertie/model.h"
#include "support/sentences.h"
#include "support/targets.h"

namespace bertie {
namespace {

using test::kEverything;
using test::Packed;
using test::seen;
using test::Seen;
using test::Sentence;

const Config kSmall{
    .layers = 2, .hidden = 36, .heads = 3, .intermediate = 50, .vocabulary = 100, .positions = 64};
// all-MiniLM-L6-v2's shape, with fewer words and layers to save time.
const Config kMiniLm{.layers = 2, .hidden = 384, .heads = 12, .intermediate = 1536, .vocabulary = 500};

std::vector<Seen> run_batch(Run& run, const Model& model, const std::vector<Sentence>& sentences) {
  const Packed packed(sentences, model.config().types);
  const Output& out = run.forward(packed.batch(), kEverything);
  std::vector<Seen> results;
  for (size_t s = 0; s < sentences.size(); ++s) results.push_back(seen(model, out, packed, s));
  return results;
}

void shuffle(std::vector<size_t>& order, Random& random) {
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(uint32_t(i))]);
}

void check_any_batch_and_order(const Config& config, std::span<const size_t> lengths, int threads, int rounds,
                               WeightFormat format = WeightFormat::kFloat32) {
  const Model model = Model::random(config, 3, {}, format);
  bertie::Run run(model, threads);
  Random random(4);
  std::vector<Sentence> sentences;
  std::vector<Seen> alone;
  for (size_t n : lengths) {
    sentences.push_back(test::random_sentence(random, n, config));
    alone.push_back(run_batch(run, model, {sentences.back()}).front());
  }
  std::vector<size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (int round = 0; round < rounds; ++round) {
    shuffle(order, random);
    const size_t count = 1 + random.below(uint32_t(order.size()));
    std::vector<Sentence> some;
    for (size_t i = 0; i < count; ++i) some.push_back(sentences[order[i]]);
    const auto together = run_batch(run, model, some);
    for (size_t i = 0; i < count; ++i)
      ASSERT_TRUE(test::same_bits(together[i], alone[order[i]]))
          << "sentence of " << some[i].size() << " tokens, number " << i << " of " << count;
  }
}

TEST(SameBits, AloneAndInAnyBatchAndOrderOfASmallModel) {
  test::on_every_target([&] {
    const size_t lengths[] = {1, 2, 3, 0, 5, 7, 14, 15, 16, 31, 33, 64};
    check_any_batch_and_order(kSmall, lengths, 2, 15);
  });
}

TEST(SameBits, AloneAndInAnyBatchAndOrderAtMiniLmsShape) {
  const size_t lengths[] = {1, 4, 9, 17, 40, 65, 128, 300};
  check_any_batch_and_order(kMiniLm, lengths, 2, 4);
}

TEST(SameBits, AloneAndInAnyBatchAndOrderWithWeightsInBf16) {
  const size_t lengths[] = {1, 2, 0, 7, 15, 33, 64};
  test::on_every_target([&] { check_any_batch_and_order(kSmall, lengths, 2, 8, WeightFormat::kBFloat16); });
  const size_t longer[] = {1, 17, 65, 300};
  check_any_batch_and_order(kMiniLm, longer, 2, 3, WeightFormat::kBFloat16);
}

TEST(SameBits, OfOneSentenceHoldForAnyCompanyAtAll) {
  const Model model = Model::random(kSmall, 9);
  bertie::Run run(model, 1);
  Random fixed(1);
  const Sentence sentence = test::random_sentence(fixed, 11, kSmall);
  const Seen alone = run_batch(run, model, {sentence}).front();
  const auto token = rc::gen::inRange<int32_t>(0, int32_t(kSmall.vocabulary));
  const auto company =
      rc::gen::scale(0.3, rc::gen::container<std::vector<Sentence>>(rc::gen::container<Sentence>(token)));
  const bool holds = rc::check("a sentence's result does not depend on its batch", [&] {
    const auto before = *company, after = *company;
    std::vector<Sentence> batch = before;
    batch.push_back(sentence);
    batch.insert(batch.end(), after.begin(), after.end());
    for (const Sentence& s : batch) RC_PRE(s.size() <= kSmall.positions);
    RC_ASSERT(bool(test::same_bits(run_batch(run, model, batch)[before.size()], alone)));
  });
  EXPECT_TRUE(holds);
}

TEST(SameBits, WithOneTwoAndThreeThreads) {
  for (const Config& config : {kSmall, kMiniLm}) {
    const Model model = Model::random(config, 5);
    Random random(6);
    std::vector<Sentence> sentences;
    for (size_t n : {3, 64, 1, 20, 0, 33}) sentences.push_back(test::random_sentence(random, n, config));
    bertie::Run one(model, 1), two(model, 2), three(model, 3);
    const auto expected = run_batch(one, model, sentences);
    for (bertie::Run* run : {&two, &three}) {
      const auto actual = run_batch(*run, model, sentences);
      for (size_t s = 0; s < sentences.size(); ++s)
        EXPECT_TRUE(test::same_bits(actual[s], expected[s])) << run->threads() << " threads";
    }
  }
}

TEST(SameBits, OnTheFastPathInAnyBatchAndWithAnyThreads) {
  // Without attention weights another kernel runs; it has to keep the promise too.
  const Model model = Model::random(kMiniLm, 5);
  Random random(6);
  std::vector<Sentence> sentences;
  for (size_t n : {512, 20, 7, 130}) sentences.push_back(test::random_sentence(random, n, kMiniLm));
  const Packed all(sentences);
  bertie::Run one(model, 1), two(model, 2);
  const auto together = test::copy_of(one.forward(all.batch()).last_hidden);
  EXPECT_TRUE(test::same_bits(test::copy_of(two.forward(all.batch()).last_hidden), together));
  for (size_t s = 0; s < sentences.size(); ++s) {
    const Packed alone(std::span<const Sentence>(sentences).subspan(s, 1));
    EXPECT_TRUE(test::same_bits(
        test::copy_of(two.forward(alone.batch()).last_hidden),
        std::span(together).subspan(size_t(all.offsets[s]) * 384, sentences[s].size() * 384)));
  }
}

TEST(SameBits, FromFourThreadsThatShareAModel) {
  const Model model = Model::random(kSmall, 7);
  Random random(8);
  std::vector<Sentence> sentences;
  for (size_t n : {3, 64, 1, 20, 7}) sentences.push_back(test::random_sentence(random, n, kSmall));
  bertie::Run run(model, 1);
  const auto expected = run_batch(run, model, sentences);
  std::atomic<int> different{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      bertie::Run own(model, 1 + t % 2);
      for (int round = 0; round < 5; ++round) {
        const auto actual = run_batch(own, model, sentences);
        for (size_t s = 0; s < sentences.size(); ++s)
          if (!test::same_bits(actual[s], expected[s])) ++different;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(different, 0);
}

}  // namespace
}  // namespace bertie
