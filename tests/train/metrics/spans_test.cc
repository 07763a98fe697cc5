// The span of an answer, as run_squad.py and postprocess_qa_predictions find it.
#include "tasks/answer_windows.h"
#include "train/metrics/golden_metrics.h"

namespace bertie {
namespace {

using nlohmann::json;

// A window of one-letter tokens: token t of the context is its code point number t.
struct MadeUpWindow {
  explicit MadeUpWindow(const json& window) : before(window["before"]) {
    uint32_t place = uint32_t(before);
    for (size_t t = 0; t < window["context"].size(); ++t) {
      const bool context = window["context"][t] == 1;
      ids.push_back(int32_t(t)), words.push_back(context ? int32_t(place) : -1);
      texts.push_back(context ? 1 : t == 0 ? -1 : 0);
      offsets.push_back(context ? Offset{place, place + 1} : Offset{});
      place += context;
      logits.push_back(window["start"][t]), logits.push_back(window["end"][t]);
    }
  }
  AnswerWindow view() const { return {ids, words, texts, offsets, {logits.data(), ids.size(), 2}, before}; }

  std::vector<int32_t> ids, words;
  std::vector<int8_t> texts;
  std::vector<Offset> offsets;
  std::vector<float> logits;
  size_t before;
};

TEST(BestSpan, IsTheOneThatBertsScriptFinds) {
  const json cases = test::golden_metrics("spans");
  size_t found = 0, several = 0;
  for (const json& one : cases) {
    std::vector<MadeUpWindow> made;
    std::vector<AnswerWindow> windows;
    for (const json& window : one["windows"]) made.emplace_back(window);
    for (const MadeUpWindow& window : made) windows.push_back(window.view());
    const BestSpan best = best_span(windows, {.n_best = one["n_best"],
                                              .max_answer_tokens = one["max_tokens"],
                                              .null_competes = one["null_competes"]});
    EXPECT_EQ(best.null_score, one["null_score"].get<float>());
    EXPECT_EQ(best.found, !one["found"].is_null()) << one.dump();
    if (!best.found || one["found"].is_null()) continue;
    const json& expected = one["found"];
    const AnswerWindow& window = windows[expected["window"].get<size_t>()];
    const Offset place{window.offsets[expected["start"].get<size_t>()].begin,
                       window.offsets[expected["end"].get<size_t>()].end};
    EXPECT_EQ(best.score, expected["score"].get<float>()) << one.dump();
    EXPECT_EQ(best.offset.begin, place.begin) << one.dump();
    EXPECT_EQ(best.offset.end, place.end);
    EXPECT_NEAR(best.probability, expected["probability"].get<double>(), 1e-12);
    ++found, several += windows.size() > 1;
  }
  EXPECT_GT(found, 30u);
  EXPECT_GT(several, 15u);
}

TEST(BestSpan, OfNoWindowsIsNone) {
  EXPECT_FALSE(best_span({}, {}).found);
  EXPECT_EQ(best_span({}, {.null_competes = true}).probability, 0);
}

}  // namespace
}  // namespace bertie
