// A causal model that reads on from a cache gives what it gives when it reads all at once, and continues a
// text as transformers does.
#include <gtest/gtest.h>

#include <algorithm>

#include "bertie/error.h"
#include "bertie/model.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/tensors.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;

Model tiny_gpt2(size_t positions = 40) {
  return Model::random({.model_type = "gpt2",
                        .layers = 3,
                        .hidden = 24,
                        .heads = 3,
                        .intermediate = 50,
                        .vocabulary = 90,
                        .positions = positions});
}

std::vector<float> row_of(Matrix<const float> m, size_t r) { return {m.row(r), m.row(r) + m.cols()}; }

TEST(Cache, ReadingInPiecesEqualsReadingAtOnce) {
  const Model model = tiny_gpt2();
  const std::vector<std::vector<int32_t>> texts{{5, 7, 1, 80, 33, 2, 9, 9, 12, 4, 61}, {3}, {8, 8, 8, 21, 0}};
  bertie::Run run(model, 2);
  std::vector<std::vector<float>> at_once;
  for (const auto& ids : texts) {
    const std::vector<int32_t> offsets{0, int32_t(ids.size())};
    const Output& out = run.forward({.ids = ids, .offsets = offsets}, {.head = Head::kCausalLm});
    at_once.push_back(row_of(out.logits, ids.size() - 1));
  }
  // The first tokens of all together, then the rest in steps of different lengths.
  Cache cache(model, texts.size());
  std::vector<size_t> done(texts.size());
  std::vector<std::vector<float>> in_pieces(texts.size());
  for (size_t step = 1; done != std::vector<size_t>{11, 1, 5}; ++step) {
    std::vector<int32_t> ids, offsets{0}, rows;
    for (size_t s = 0; s < texts.size(); ++s) {
      const size_t count = std::min(texts[s].size() - done[s], 1 + (s + step) % 3);
      ids.insert(ids.end(), texts[s].begin() + ptrdiff_t(done[s]),
                 texts[s].begin() + ptrdiff_t(done[s] + count));
      done[s] += count;
      offsets.push_back(int32_t(ids.size()));
    }
    const Output& out = run.forward({.ids = ids, .offsets = offsets}, {.head = Head::kCausalLm}, cache);
    for (size_t s = 0; s < texts.size(); ++s) {
      EXPECT_EQ(cache.length(s), done[s]);
      if (offsets[s + 1] > offsets[s]) in_pieces[s] = row_of(out.logits, size_t(offsets[s + 1]) - 1);
    }
  }
  for (size_t s = 0; s < texts.size(); ++s) EXPECT_TRUE(test::near(in_pieces[s], at_once[s], 1e-6)) << s;
}

TEST(Cache, GoesBackToWhatItKept) {
  const Model model = tiny_gpt2();
  bertie::Run run(model, 1);
  Cache cache(model);
  const auto last = [&](std::vector<int32_t> ids) {
    const std::vector<int32_t> offsets{0, int32_t(ids.size())};
    return row_of(run.forward({.ids = ids, .offsets = offsets}, {.head = Head::kCausalLm}, cache).logits,
                  ids.size() - 1);
  };
  last({1, 2, 3});
  const std::vector<float> first = last({4});
  cache.keep(0, 3);
  EXPECT_NE(last({5}), first);
  cache.keep(0, 3);
  EXPECT_EQ(last({4}), first);
  cache.keep(0, 0);
  EXPECT_EQ(cache.length(0), 0u);
}

TEST(Cache, SaysWhatItCannotDo) {
  const Model model = tiny_gpt2(8);
  bertie::Run run(model, 1);
  Cache cache(model);
  const std::vector<int32_t> ids{1, 2, 3, 4, 5}, offsets{0, 5}, two{0, 2, 5};
  run.forward({.ids = ids, .offsets = offsets}, {}, cache);
  test::expect_error("has 10 tokens, but the model has positions for 8",
                     [&] { run.forward({.ids = ids, .offsets = offsets}, {}, cache); });
  EXPECT_EQ(cache.length(0), 5u) << "a batch that was refused changes nothing";
  test::expect_error("2 sequences, but the cache has 1",
                     [&] { run.forward({.ids = ids, .offsets = two}, {}, cache); });
  cache.keep(0, 0);
  test::expect_error("cannot be captured with a cache",
                     [&] { run.forward({.ids = ids, .offsets = offsets}, {.all_attention = true}, cache); });
  test::expect_error("no use for a cache", [] {
    Cache(Model::random({.layers = 1, .hidden = 4, .heads = 1, .intermediate = 4, .vocabulary = 5}));
  });
  Cache other(Model::random({.model_type = "gpt2",
                             .layers = 1,
                             .hidden = 4,
                             .heads = 1,
                             .intermediate = 4,
                             .vocabulary = 5,
                             .positions = 8}));
  test::expect_error("another model", [&] { run.forward({.ids = ids, .offsets = offsets}, {}, other); });
  Cache shorter(tiny_gpt2(4));
  test::expect_error("another model", [&] { run.forward({.ids = ids, .offsets = offsets}, {}, shorter); });
}

TEST(GreedyGeneration, GivesTransformersIds) {
  size_t checked = 0;
  for (const auto& entry : fs::directory_iterator(test::source_dir() / "tests/golden/families")) {
    const test::Expected expected(entry.path() / "expected.safetensors");
    if (!expected.has("generate.prompts") || entry.path().filename().string().starts_with("marian")) continue;
    SCOPED_TRACE(entry.path().filename());
    const Model model = Model::load(entry.path());
    const auto prompts = expected.ints("generate.prompts"),
               prompt_offsets = expected.ints("generate.prompt_offsets"),
               want = expected.ints("generate.ids"), want_offsets = expected.ints("generate.offsets");
    for (size_t i = 0; i + 1 < prompt_offsets.size(); ++i) {
      bertie::Run run(model, 1);
      Cache cache(model);
      std::vector<int32_t> next(prompts.begin() + prompt_offsets[i], prompts.begin() + prompt_offsets[i + 1]);
      const std::vector<int32_t> expected_ids(want.begin() + want_offsets[i],
                                              want.begin() + want_offsets[i + 1]);
      std::vector<int32_t> made;
      while (made.size() < expected_ids.size()) {
        const std::vector<int32_t> offsets{0, int32_t(next.size())}, rows{int32_t(next.size()) - 1};
        const Output& out =
            run.forward({.ids = next, .offsets = offsets}, {.head = Head::kCausalLm, .rows = rows}, cache);
        const auto logits = out.logits[0];
        next = {int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin())};
        made.push_back(next[0]);
      }
      EXPECT_EQ(made, expected_ids);
      ++checked;
    }
  }
  EXPECT_GE(checked, 9u);
}

}  // namespace
}  // namespace bertie
