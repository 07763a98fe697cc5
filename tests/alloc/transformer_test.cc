// After warm-up, encoding and decoding take no memory from anywhere.
#include "bertie/transformer.h"

#include <gtest/gtest.h>

#include "alloc/allocations.h"
#include "support/sentences.h"

namespace bertie {
namespace {

using test::allocations_of;

TEST(Allocations, OfEncodingAndDecodingAreNoneAfterWarmUp) {
#if !BERTIE_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "a sanitizer has malloc";
#endif
  const TransformerConfig config{.encoder_layers = 2,
                                 .decoder_layers = 2,
                                 .hidden = 48,
                                 .encoder_heads = 4,
                                 .decoder_heads = 3,
                                 .encoder_ffn = 100,
                                 .decoder_ffn = 90,
                                 .vocabulary = 100,
                                 .positions = 100};
  const Transformer model = Transformer::random(config);
  Random random(1);
  const auto batch = [&](size_t sentences, size_t most) {
    std::vector<test::Sentence> texts(sentences);
    for (auto& text : texts) text.assign(most ? random.below(uint32_t(most)) : config.positions, 5);
    return test::Packed(texts);
  };
  const test::Packed longest = batch(4, 0), next_tokens(std::vector<test::Sentence>(4, {5}));
  const TransformerCapture everything{.hidden_states = true, .attention = true};
  const TransformerCapture captures[] = {{}, {.attention = true}, {.logits = false}, everything};
  for (int threads : {1, 2}) {
    TransformerRun run(model, threads);
    EXPECT_GE(allocations_of([&] { run.encode(longest.batch(), everything); }), 1u)
        << "or nothing is counted";
    run.decode(longest.batch(), everything);
    for (int i = 0; i < 10; ++i) {
      const size_t sentences = random.below(5);
      const test::Packed sources = batch(sentences, 90), targets = batch(sentences, 90);
      for (const TransformerCapture& capture : captures) {
        ASSERT_EQ(allocations_of([&] { run.encode(sources.batch(), capture); }), 0u);
        ASSERT_EQ(allocations_of([&] { run.decode(targets.batch(), capture); }), 0u);
      }
    }
    // Token by token, once the cache has grown.
    run.encode(longest.batch());
    Cache cache(model, 4);
    run.decode(longest.batch(), {}, cache);
    for (size_t s = 0; s < 4; ++s) cache.keep(s, 0);
    for (int i = 0; i < 20; ++i)
      ASSERT_EQ(allocations_of([&] { run.decode(next_tokens.batch(), {}, cache); }), 0u);
  }
}

}  // namespace
}  // namespace bertie
