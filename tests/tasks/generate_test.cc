// Generation: what is chosen, when it ends, and text that is whole at every moment.
#include <fmt/format.h>

#include <cmath>

#include "bertie/text_model.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "tasks/golden_tasks.h"
#include "text/unicode/unicode.h"

namespace bertie {
namespace {

using test::expect_error;

// A small GPT-2 with random weights that reads letters.
class Letters {
 public:
  static constexpr size_t kPositions = 24;
  Letters() {
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char c = 'a'; c <= 'z'; ++c) vocabulary.append(1, c).append("\n");
    folder_.write("vocab.txt", vocabulary);
    Config config{.model_type = "gpt2",
                  .layers = 2,
                  .hidden = 32,
                  .heads = 2,
                  .intermediate = 64,
                  .vocabulary = 31,
                  .positions = kPositions,
                  .types = 0,
                  .layer_norm_eps = 1e-5,
                  .activation = "gelu_new",
                  .pad_id = -1,
                  .bos_id = 3,
                  .eos_id = 3,
                  .architecture = "GPT2LMHeadModel"};
    Model::random(config, 4, {Head::kCausalLm}).save(folder_.path());
  }
  TextModel load(int threads = 1) const { return bertie::load(folder_.path(), {.threads = threads}); }

 private:
  test::TempFolder folder_;
};

// The next token's logits, reading everything again.
std::vector<float> logits_after(const Model& model, const std::vector<int32_t>& ids) {
  Run run(model, 1);
  const int32_t offsets[2] = {0, int32_t(ids.size())};
  const auto logits = run.forward({.ids = ids, .offsets = offsets}, {.head = Head::kCausalLm}).logits;
  return {logits.row(ids.size() - 1), logits.row(ids.size() - 1) + logits.cols()};
}

TEST(Generate, GreedyTakesTheLikeliestAndPenaltiesCount) {
  const Letters letters;
  const TextModel model = letters.load();
  for (double penalty : {1.0, 1.3, 0.5}) {
    const Generation made =
        model.generate("a b c", {.max_new_tokens = 12, .repetition_penalty = penalty, .stop_ids = {-2}});
    std::vector<int32_t> ids = model.tokenizer().encode("a b c").ids;
    EXPECT_EQ(made.prompt_tokens, ids.size());
    ASSERT_EQ(made.ids.size(), 12u);
    for (int32_t id : made.ids) {
      std::vector<float> logits = logits_after(model.model(), ids);
      for (size_t v = 0; v < logits.size(); ++v)
        if (std::count(ids.begin(), ids.end(), int32_t(v)))
          logits[v] *= float(logits[v] < 0 ? penalty : 1 / penalty);
      for (float other : logits) EXPECT_LE(other, logits[size_t(id)] + 1e-4f);
      ids.push_back(id);
    }
    EXPECT_EQ(made.finish_reason, FinishReason::kMaxNewTokens);
  }
}

TEST(Generate, DrawsTheSameForASeedOnAnyThreadsAndOtherwiseForAnother) {
  const Letters letters;
  const TextModel one = letters.load(1), three = letters.load(3);
  const GenerateOptions wild{.max_new_tokens = 15, .temperature = 2, .seed = 5, .stop_ids = {-2}};
  const auto ids = one.generate("a", wild).ids;
  EXPECT_EQ(one.generate("a", wild).ids, ids);
  EXPECT_EQ(three.generate("a", wild).ids, ids);
  EXPECT_EQ(TextModel(one).generate("a", wild).ids, ids);
  GenerateOptions other = wild;
  other.seed = 6;
  EXPECT_NE(one.generate("a", other).ids, ids);
}

TEST(Generate, DrawsAsOftenAsProbabilitiesSay) {
  const Letters letters;
  const TextModel model = letters.load();
  const auto ids = model.tokenizer().encode("q").ids;
  const std::vector<float> logits = logits_after(model.model(), ids);
  std::vector<double> p;
  double sum = 0;
  for (float x : logits) p.push_back(std::exp(double(x) / 0.5)), sum += p.back();
  std::vector<size_t> drawn(p.size());
  constexpr size_t kDraws = 3000;
  for (uint64_t seed = 0; seed < kDraws; ++seed)
    ++drawn[size_t(model.generate("q", {.max_new_tokens = 1, .temperature = 0.5, .seed = seed}).ids[0])];
  for (size_t v = 0; v < p.size(); ++v) {
    const double expected = kDraws * p[v] / sum;
    EXPECT_NEAR(double(drawn[v]), expected, 5 * std::sqrt(expected) + 3) << v;  // five standard deviations
  }
}

TEST(Generate, TopKAndTopPLeaveOnlyTheLikeliest) {
  const Letters letters;
  const TextModel model = letters.load();
  const auto greedy = model.generate("x y", {.max_new_tokens = 10, .stop_ids = {-2}}).ids;
  EXPECT_EQ(model.generate("x y", {.max_new_tokens = 10, .temperature = 3, .top_k = 1, .stop_ids = {-2}}).ids,
            greedy);
  EXPECT_EQ(
      model.generate("x y", {.max_new_tokens = 10, .temperature = 3, .top_p = 1e-6, .stop_ids = {-2}}).ids,
      greedy);
  std::vector<float> sorted = logits_after(model.model(), model.tokenizer().encode("x y").ids);
  const std::vector<float> logits = sorted;
  std::sort(sorted.rbegin(), sorted.rend());
  double all = 0, first = 0;
  for (float x : sorted) all += std::exp(double(x));
  for (size_t k = 0; k < 4; ++k) first += std::exp(double(sorted[k]));
  std::vector<bool> by_k(logits.size()), by_p(logits.size());
  for (uint64_t seed = 0; seed < 300; ++seed) {
    by_k[size_t(
        model.generate("x y", {.max_new_tokens = 1, .temperature = 1, .top_k = 4, .seed = seed}).ids[0])] =
        true;
    by_p[size_t(
        model
            .generate("x y",
                      {.max_new_tokens = 1, .temperature = 1, .top_p = first / all - 1e-4, .seed = seed})
            .ids[0])] = true;
  }
  for (size_t v = 0; v < logits.size(); ++v) {
    EXPECT_EQ(by_k[v], logits[v] >= sorted[3]);
    EXPECT_EQ(by_p[v], logits[v] >= sorted[3]);
  }
}

TEST(Generate, StopsAtTheModelsLengthAndReadsTheEndOfALongPrompt) {
  const Letters letters;
  const TextModel model = letters.load();
  const Generation full = model.generate("a b", {.max_new_tokens = 1000, .stop_ids = {-2}});
  EXPECT_EQ(full.finish_reason, FinishReason::kModelLength);
  EXPECT_EQ(full.prompt_tokens + full.ids.size(), Letters::kPositions + 1);
  EXPECT_EQ(full.prompt_truncated, 0u);
  std::string prompt;
  for (int i = 0; i < 100; ++i) prompt += std::string(1, char('a' + i % 26)) + " ";
  const Generation made = model.generate(prompt, {.max_new_tokens = 4, .stop_ids = {-2}});
  EXPECT_EQ(made.prompt_tokens, Letters::kPositions - 4);
  EXPECT_EQ(made.prompt_truncated + made.prompt_tokens, model.tokenizer().encode(prompt).size());
  EXPECT_EQ(made.ids.size(), 4u);
  EXPECT_EQ(made.finish_reason, FinishReason::kMaxNewTokens);
}

TEST(Generate, StopsWhereItIsTold) {
  const Letters letters;
  const TextModel model = letters.load();
  const auto free = model.generate("m", {.max_new_tokens = 10, .temperature = 2, .stop_ids = {-2}}).ids;
  const int32_t last = free[5];
  const auto until = size_t(std::find(free.begin(), free.end(), last) - free.begin()) + 1;
  const Generation made = model.generate("m", {.max_new_tokens = 10, .temperature = 2, .stop_ids = {last}});
  EXPECT_EQ(made.ids, std::vector<int32_t>(free.begin(), free.begin() + ptrdiff_t(until)));
  EXPECT_EQ(made.finish_reason, FinishReason::kEndOfText);
  size_t calls = 0;
  const Generation stopped = model.generate(
      "m", {.max_new_tokens = 20, .temperature = 2, .stop_ids = {-2}, .on_text = [&](std::string_view) {
              return ++calls < 3;
            }});
  EXPECT_EQ(stopped.finish_reason, FinishReason::kByCaller);
  EXPECT_EQ(calls, 3u);
  EXPECT_EQ(model.generate("m", {.max_new_tokens = 0}).ids.size(), 0u);
}

TEST(Generate, RefusesWhatMakesNoSense) {
  const Letters letters;
  const TextModel model = letters.load();
  expect_error("temperature", [&] { model.generate("a", {.temperature = -1}); });
  expect_error("temperature", [&] { model.generate("a", {.temperature = std::nan("")}); });
  expect_error("top_p", [&] { model.generate("a", {.top_p = 0}); });
  expect_error("repetition_penalty", [&] { model.generate("a", {.repetition_penalty = 0}); });
}

// The golden model's vocabulary has a token for each byte, and wild drawing makes every kind of broken UTF-8.
TEST(Generate, TextComesInWholeCharacters) {
  const TextModel model = load(test::golden_task("text-generation-gpt2"), {.threads = 1});
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::string told;
    const Generation made = model.generate(
        "naïve",
        {.max_new_tokens = 40, .temperature = 4, .seed = seed, .on_text = [&](std::string_view piece) {
           EXPECT_TRUE(text::valid_utf8(piece));
           EXPECT_FALSE(piece.empty());
           told += piece;
           return true;
         }});
    EXPECT_EQ(told, made.text);
    EXPECT_EQ(made.text, model.tokenizer().decode(made.ids));
  }
}

TEST(Generate, BeginsFromNothingAsAfterAnEndOfText) {
  const TextModel model = load(test::golden_task("text-generation-gpt2"), {.threads = 1});
  const Generation made = model.generate("", {.max_new_tokens = 5});
  EXPECT_EQ(made.prompt_tokens, 1u);
  EXPECT_EQ(made.ids, model.generate("<|endoftext|>", {.max_new_tokens = 5}).ids);
}

}  // namespace
}  // namespace bertie
