// What must hold of every task whatever the texts: many are as one by one, nothing is lost, nothing crashes.
#include <fmt/format.h>

#include <set>
#include <thread>

#include "support/expect_error.h"
#include "tasks/golden_tasks.h"
#include "text/unicode/unicode.h"

namespace bertie {

bool operator==(const Scored& a, const Scored& b) { return a.label == b.label && a.score == b.score; }
bool operator==(const Fill& a, const Fill& b) {
  return a.id == b.id && a.token == b.token && a.sequence == b.sequence && a.score == b.score;
}
bool operator==(const Entity& a, const Entity& b) {
  return a.label == b.label && a.score == b.score && a.word == b.word && a.place == b.place &&
         a.first_token == b.first_token && a.tokens == b.tokens;
}
bool operator==(const Answer& a, const Answer& b) {
  return a.text == b.text && a.score == b.score && a.place == b.place;
}

namespace {

using test::expect_error;
using test::golden_task;

Pipeline load(const std::string& name, int threads = 1) { return Pipeline::load(golden_task(name), threads); }

// Texts of all lengths, some longer than the models take, some strange.
std::vector<std::string> odd_texts() {
  const std::string words[] = {"harbour",          "Anna",       "1912,", "Zoë", "naïve", "日本",
                               "\xF0\x9F\x8E\xBB", "e\u0301tude"};
  std::vector<std::string> texts{"",       " ",          ".", "\xFF\xFE", "a\xC3", std::string("nul\0l", 5),
                                 "[MASK]", "[SEP] [CLS]"};
  for (size_t n = 1; n < 400; n = n * 3 / 2 + 1) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += words[(i * 7 + n) % std::size(words)] + (i % 5 ? " " : "");
    texts.push_back(text);
  }
  for (size_t i = 0; i < 300; ++i) texts.push_back(fmt::format("Text {} of the harbour", i));
  return texts;
}

std::vector<std::string_view> views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

TEST(ManyTexts, AreAsOneByOneAndInTheirOrder) {
  const std::vector<std::string> texts = odd_texts();
  Pipeline classifier = load("text-classification-bert", 2), tagger = load("token-classification-bert", 2),
           filler = load("fill-mask-bert", 2), judge = load("next-sentence-bert", 2),
           answerer = load("question-answering-bert", 2);
  std::vector<std::string> masked;
  std::vector<TextPair> pairs;
  std::vector<Question> questions;
  for (size_t i = 0; i < texts.size(); ++i) {
    masked.push_back((i % 3 ? "The [MASK] and " : "[MASK] [MASK] [MASK] ") + texts[i]);
    pairs.push_back({texts[i], texts[(i * 31 + 7) % texts.size()]});
    questions.push_back({"Who came to the harbour?", texts[i]});
  }
  const auto labels = classifier.classify(views(texts));
  const auto pair_labels = classifier.classify(pairs);
  const auto entities = tagger.tag(views(texts));
  const auto fills = filler.fill_mask(views(masked), 3);
  const auto follows = judge.next_sentence(pairs);
  const AnswerOptions three{.top = 3, .may_be_empty = true};
  const auto answers = answerer.answer(questions, three);
  for (size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(texts[i]);
    EXPECT_EQ(classifier.classify(texts[i]), labels[i]);
    EXPECT_EQ(classifier.classify(pairs[i].a, pairs[i].b), pair_labels[i]);
    EXPECT_EQ(tagger.tag(texts[i]), entities[i]);
    EXPECT_EQ(filler.fill_mask(masked[i], 3), fills[i]);
    EXPECT_EQ(judge.next_sentence(pairs[i].a, pairs[i].b), follows[i]);
    EXPECT_EQ(answerer.answer(questions[i].question, questions[i].context, three), answers[i]);
  }
}

TEST(ManyTexts, NoneGiveNothing) {
  EXPECT_TRUE(load("text-classification-bert").classify(std::span<const TextPair>()).empty());
  EXPECT_TRUE(load("token-classification-bert").tag(std::span<const std::string_view>()).empty());
  EXPECT_TRUE(load("fill-mask-bert").fill_mask(std::span<const std::string_view>()).empty());
  EXPECT_TRUE(load("question-answering-bert").answer(std::span<const Question>()).empty());
  EXPECT_TRUE(load("next-sentence-bert").next_sentence({}).empty());
}

TEST(ManyTexts, AreTheSameForAnyNumberOfThreadsAndForCopies) {
  const std::vector<std::string> texts = odd_texts();
  Pipeline one = load("token-classification-distilbert", 1),
           three = load("token-classification-distilbert", 3);
  const auto expected = one.tag(views(texts));
  EXPECT_EQ(three.tag(views(texts)), expected);
  Pipeline copy = one;
  EXPECT_EQ(&copy.model().weights(), &one.model().weights()) << "a copy has weights of its own";
  std::vector<std::vector<Entity>> elsewhere;
  std::thread other([&] { elsewhere = copy.tag(views(texts)); });
  EXPECT_EQ(one.tag(views(texts)), expected);
  other.join();
  EXPECT_EQ(elsewhere, expected);
  one = std::move(copy);
  EXPECT_EQ(one.tag(views(texts)), expected);
}

TEST(ManyTexts, ProgressGoesFromNothingToAllAndMayStopTheWork) {
  const std::vector<std::string> texts = odd_texts();
  Pipeline pipeline = load("token-classification-bert");
  size_t calls = 0, last = 0;
  pipeline.on_progress([&](size_t done, size_t of) {
    EXPECT_GE(done, last);
    EXPECT_EQ(of, texts.size());
    last = done;
    ++calls;
  });
  const auto all = pipeline.tag(views(texts));
  EXPECT_GT(calls, 2u);
  EXPECT_EQ(last, texts.size());
  pipeline.on_progress([](size_t, size_t) { throw Error("enough"); });
  expect_error("enough", [&] { pipeline.tag(views(texts)); });
  pipeline.on_progress({});
  EXPECT_EQ(pipeline.tag(views(texts)), all) << "and it can be used again";
}

TEST(Tag, EveryTokenOfALongTextComesOnce) {
  for (const char* name : {"token-classification-bert", "token-classification-distilbert"}) {
    Pipeline pipeline = load(name);
    for (const std::string& text : odd_texts()) {
      const Encoding encoding = pipeline.tokenizer().encode(text);
      for (size_t stride : {size_t{0}, size_t{1}, size_t{10}, size_t{31}}) {
        const auto tokens =
            pipeline.tag(text, {.group = Group::kNone, .stride = stride, .keep_outside = true});
        size_t next = 0;
        for (size_t t = 0; t < encoding.size(); ++t) {
          if (encoding.special(t)) continue;
          ASSERT_LT(next, tokens.size()) << text;
          EXPECT_EQ(tokens[next].first_token, t);
          EXPECT_EQ(tokens[next++].place, encoding.offsets[t]);
        }
        EXPECT_EQ(next, tokens.size());
      }
    }
  }
}

TEST(Tag, EntitiesAreInOrderAndDoNotOverlap) {
  Pipeline pipeline = load("token-classification-bert");
  for (const std::string& text : odd_texts())
    for (Group group : {Group::kSimple, Group::kFirst, Group::kAverage, Group::kMax}) {
      uint32_t end = 0;
      for (const Entity& e : pipeline.tag(text, {.group = group})) {
        EXPECT_NE(e.label, "O");
        EXPECT_GE(e.place.begin, end) << text;
        end = e.place.end;
      }
      EXPECT_LE(end, text::count_points(text));
    }
}

TEST(Tag, AStrideThatLeavesNoStepIsAnError) {
  Pipeline pipeline = load("token-classification-bert");
  expect_error("cannot share", [&] { pipeline.tag(odd_texts()[13] + odd_texts()[18], {.stride = 46}); });
}

TEST(Answer, IsCutFromTheContextOrSaysThereIsNone) {
  Pipeline pipeline = load("question-answering-bert");
  for (const std::string& context : odd_texts())
    for (const Answer& answer : pipeline.answer("Who?", context, {.top = 5})) {
      EXPECT_FALSE(answer.text.empty());
      EXPECT_EQ(text_at(context, answer.place), answer.text);
      EXPECT_GT(answer.score, 0);
    }
  EXPECT_TRUE(pipeline.answer("Who?", "").empty());
  const auto none = pipeline.answer("Who?", "", {.may_be_empty = true});
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].text, "");
  EXPECT_FLOAT_EQ(none[0].score, 1);
}

TEST(Answer, BestAnswersDifferAndAreInOrder) {
  Pipeline pipeline = load("question-answering-bert");
  for (const std::string& context : odd_texts()) {
    const auto answers = pipeline.answer("Who?", context, {.top = 7});
    std::set<std::string> texts;
    for (size_t k = 0; k < answers.size(); ++k) {
      EXPECT_TRUE(texts.insert(answers[k].text).second) << answers[k].text;
      if (k > 0) {
        EXPECT_LE(answers[k].score, answers[k - 1].score);
      }
    }
    EXPECT_LE(answers.size(), 7u);
  }
}

TEST(Answer, LongQuestionsAreCutAndCounted) {
  Pipeline pipeline = load("question-answering-bert");
  std::string question = "Who came";
  for (int i = 0; i < 100; ++i) question += " to the harbour";
  const std::string_view context = "Anna came to the harbour in 1912.";
  const auto cut = pipeline.answer(question, context, {.max_question = 2});
  EXPECT_EQ(pipeline.truncated(), 1u);
  const auto whole = pipeline.answer("Who came", context);
  EXPECT_EQ(pipeline.truncated(), 0u);
  EXPECT_EQ(cut, whole);
  expect_error("top and max_tokens", [&] { pipeline.answer("Who?", context, {.top = 0}); });
  expect_error("too long", [&] { pipeline.answer("Who?", context, {.max_length = 1000}); });
}

TEST(Classify, LongTextsAreCutAndCounted) {
  Pipeline pipeline = load("text-classification-bert");
  std::string text = "harbour";
  for (int i = 0; i < 1000; ++i) text += " harbour";
  const std::string_view texts[] = {"short", text, text};
  const auto labels = pipeline.classify(texts);
  EXPECT_EQ(pipeline.truncated(), 2u);
  pipeline.classify("short");
  EXPECT_EQ(pipeline.truncated(), 0u);
  pipeline.set_max_length(5);
  EXPECT_EQ(pipeline.classify(text), pipeline.classify("harbour harbour harbour"));
  expect_error("out of range", [&] { pipeline.set_max_length(1000); });
  float sum = 0;
  for (const Scored& s : labels[1]) sum += s.score;
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST(FillMask, SaysWhatTheMaskIsCalled) {
  Pipeline pipeline = load("fill-mask-bert");
  const auto hint = [&](const auto& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(hint([&] { pipeline.fill_mask("no mask here"); }),
            "the text has no mask | write [MASK] where a word is missing");
  const std::string_view two[] = {"a [MASK]", "none"};
  const auto filled = pipeline.fill_mask(two);
  EXPECT_EQ(filled[0].size(), 1u);
  EXPECT_TRUE(filled[1].empty());
  std::string far;
  for (int i = 0; i < 100; ++i) far += "harbour ";
  expect_error("in the part that the model can read", [&] { pipeline.fill_mask(far + "[MASK]"); });
}

TEST(FillMask, TargetsAreTheOnlyCandidatesAndEachCountsOnce) {
  Pipeline pipeline = load("fill-mask-bert");
  const std::vector<std::string> targets{"The", "the", "bank", "bank"};
  const auto fills = pipeline.fill_mask("It is [MASK].", 5, targets);
  ASSERT_EQ(fills[0].size(), 2u);
  const auto all = pipeline.fill_mask("It is [MASK].", pipeline.model().config().vocabulary);
  for (const Fill& fill : fills[0])
    EXPECT_EQ(std::count(all[0].begin(), all[0].end(), fill), 1)
        << "a target's probability is among all tokens";
  double sum = 0;
  for (const Fill& fill : all[0]) sum += fill.score;
  EXPECT_NEAR(sum, 1, 1e-5);
  const std::vector<std::string> unknown{"\u2603"};
  expect_error("the vocabulary could spell", [&] { pipeline.fill_mask("It is [MASK].", 5, unknown); });
}

TEST(FillMask, ManyMasksInOneText) {
  Pipeline pipeline = load("fill-mask-bert");
  std::string text;
  for (int i = 0; i < 40; ++i) text += "[MASK] ";
  EXPECT_EQ(pipeline.fill_mask(text, 1).size(), 40u);
}

TEST(Tasks, AWrongCheckpointSaysWhatItCanDoAndHow) {
  Pipeline pipeline = load("token-classification-bert");
  try {
    pipeline.classify("text");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "this checkpoint (BertForTokenClassification) cannot classify texts");
    EXPECT_NE(error.hint().find("bertie tag"), std::string::npos) << error.hint();
  }
  expect_error("cannot fill masks", [&] { pipeline.fill_mask("[MASK]"); });
  expect_error("cannot answer questions", [&] { pipeline.answer("a", "b"); });
  expect_error("cannot continue texts", [&] { pipeline.generate("a"); });
  expect_error("cannot judge", [&] { pipeline.next_sentence("a", "b"); });
  expect_error("cannot tag tokens", [&] { load("fill-mask-bert").tag("a"); });
}

TEST(Generate, ManyPromptsGoOnAsEachWouldAlone) {
  Pipeline pipeline = Pipeline::load(test::source_dir() / "tests/golden/tasks/text-generation-gpt2", 2);
  std::vector<std::string> prompts;
  for (int i = 0; i < 19; ++i) prompts.push_back(i % 5 == 4 ? "" : "The harbour " + std::to_string(i * i));
  const std::vector<std::string_view> views(prompts.begin(), prompts.end());
  for (const GenerateOptions& options :
       {GenerateOptions{.max_new_tokens = 12}, {.max_new_tokens = 80, .temperature = 1.5, .seed = 5}}) {
    const std::vector<Generated> together = pipeline.generate(views, options);
    ASSERT_EQ(together.size(), views.size());
    for (size_t i = 0; i < views.size(); ++i) {
      const Generated alone = pipeline.generate(views[i], options);
      EXPECT_EQ(together[i].ids, alone.ids) << i;
      EXPECT_EQ(together[i].text, alone.text) << i;
      EXPECT_EQ(together[i].ended, alone.ended) << i;
    }
  }
  EXPECT_TRUE(pipeline.generate(std::span<const std::string_view>()).empty());
  expect_error("on_text is for one prompt",
               [&] { pipeline.generate(views, {.on_text = [](std::string_view) { return true; }}); });
}

}  // namespace
}  // namespace bertie
