// What a process holds after many passes of all shapes: the weights, and not much more.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "bertie/bench.h"
#include "bertie/text_model.h"
#include "core/random.h"
#include "support/data.h"

namespace bertie {
namespace {

// Peak resident bytes beyond those before the model was loaded, less the weights.
void check(const std::filesystem::path& folder, size_t passes, uint32_t most_words) {
  if (!resident_peak()) GTEST_SKIP() << "the system does not say how much memory a process holds";
  if (!count_resident_peak_anew())
    GTEST_SKIP() << "the system does not count anew";  // what other tests held is none
  const size_t before = *resident_peak();
  const TextModel model = load(folder);
  Random random(1);
  for (size_t i = 0; i < passes; ++i) {
    std::vector<std::string> texts(1 + random.below(8));
    for (std::string& text : texts)
      for (uint32_t n = 1 + random.below(most_words); n > 0; --n) text += "bank ";
    model.embed(texts);
  }
  const double held = double(*resident_peak() - before), weights = double(model.model().bytes());
  testing::Test::RecordProperty("beyond_weights_mb", std::to_string((held - weights) / 1e6));
  EXPECT_LE(held, weights + 64e6) << held / 1e6 << " MB with weights of " << weights / 1e6;
}

TEST(Memory, IsTheWeightsAndLittleMoreAfterManyShapes) {
  check(test::source_dir() / "models/bertie-mini", 300, 120);
}

TEST(Memory, IsTheWeightsAndLittleMoreAfterTenThousandShapes) {
  if (!std::getenv("BERTIE_SLOW_TESTS")) GTEST_SKIP() << "only with BERTIE_SLOW_TESTS set";
  BERTIE_NEEDS(test::data("models/all-MiniLM-L6-v2"));
  check(test::data("models/all-MiniLM-L6-v2"), 10'000, 60);
}

}  // namespace
}  // namespace bertie
