// What must hold of every task whatever the texts: many are as one by one, nothing is lost, nothing crashes.
#include <fmt/format.h>

#include <set>

#include "support/expect_error.h"
#include "tasks/golden_tasks.h"
#include "text/unicode/unicode.h"

namespace bertie {

bool operator==(const Scored& a, const Scored& b) { return a.label == b.label && a.score == b.score; }
bool operator==(const Fill& a, const Fill& b) {
  return a.id == b.id && a.token == b.token && a.sequence == b.sequence && a.score == b.score;
}
bool operator==(const Entity& a, const Entity& b) {
  return a.label == b.label && a.score == b.score && a.text == b.text && a.word == b.word &&
         a.offset == b.offset && a.first_token == b.first_token && a.tokens == b.tokens;
}
bool operator==(const Answer& a, const Answer& b) {
  return a.text == b.text && a.score == b.score && a.offset == b.offset;
}
bool operator==(const Classification& a, const Classification& b) {
  return a.labels == b.labels && a.tokens == b.tokens && a.truncated == b.truncated;
}
bool operator==(const MaskFilling& a, const MaskFilling& b) {
  return a.masks == b.masks && a.tokens == b.tokens && a.truncated == b.truncated;
}
bool operator==(const Tagging& a, const Tagging& b) {
  return a.entities == b.entities && a.windows == b.windows;
}
bool operator==(const Answering& a, const Answering& b) {
  return a.answers == b.answers && a.windows == b.windows && a.question_truncated == b.question_truncated;
}

namespace {

using test::expect_error;
using test::golden_task;

TextModel load(const std::string& name, int threads = 1) {
  return bertie::load(golden_task(name), {.threads = threads});
}

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
  const TextModel classifier = load("text-classification-bert", 2),
                  tagger = load("token-classification-bert", 2), filler = load("fill-mask-bert", 2),
                  judge = load("next-sentence-bert", 2), answerer = load("question-answering-bert", 2);
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
  const auto fills = filler.fill_mask(masked, {.top = 3});
  const auto follows = judge.next_sentence(pairs);
  const AnswerOptions three{.top = 3, .allow_no_answer = true};
  const auto answers = answerer.answer(questions, three);
  for (size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(texts[i]);
    EXPECT_EQ(classifier.classify(texts[i]), labels[i]);
    EXPECT_EQ(classifier.classify(pairs[i].a, pairs[i].b), pair_labels[i]);
    EXPECT_EQ(tagger.tag(texts[i]), entities[i]);
    EXPECT_EQ(filler.fill_mask(masked[i], {.top = 3}), fills[i]);
    EXPECT_EQ(judge.next_sentence(pairs[i].a, pairs[i].b).is_next, follows[i].is_next);
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

TEST(ManyTexts, AreTheSameForAnyNumberOfThreads) {
  const std::vector<std::string> texts = odd_texts();
  const TextModel one = load("token-classification-distilbert", 1);
  EXPECT_EQ(one.with_threads(3).tag(texts), one.tag(texts));
}

TEST(ManyTexts, ProgressGoesFromNothingToAllAndMayStopTheWork) {
  const std::vector<std::string> texts = odd_texts();
  const TextModel model = load("token-classification-bert");
  size_t calls = 0, last = 0;
  const auto all = model.tag(texts, {.progress = [&](size_t done, size_t of) {
                               EXPECT_GE(done, last);
                               EXPECT_EQ(of, texts.size());
                               last = done;
                               ++calls;
                             }});
  EXPECT_GT(calls, 2u);
  EXPECT_EQ(last, texts.size());
  expect_error("enough",
               [&] { model.tag(texts, {.progress = [](size_t, size_t) { throw Error("enough"); }}); });
  EXPECT_EQ(model.tag(texts), all) << "and it can be used again";
}

TEST(Tag, EveryTokenOfALongTextComesOnce) {
  for (const char* name : {"token-classification-bert", "token-classification-distilbert"}) {
    const TextModel model = load(name);
    for (const std::string& text : odd_texts()) {
      const Encoding encoding = model.tokenizer().encode(text);
      for (size_t stride : {size_t{0}, size_t{1}, size_t{10}, size_t{31}}) {
        const auto tokens =
            model.tag(text, {.aggregation = Aggregation::kNone, .stride = stride, .keep_outside = true})
                .entities;
        size_t next = 0;
        for (size_t t = 0; t < encoding.size(); ++t) {
          if (encoding.special(t)) continue;
          ASSERT_LT(next, tokens.size()) << text;
          EXPECT_EQ(tokens[next].first_token, t);
          EXPECT_EQ(tokens[next++].offset, encoding.offsets[t]);
        }
        EXPECT_EQ(next, tokens.size());
      }
    }
  }
}

TEST(Tag, EntitiesAreInOrderAndDoNotOverlap) {
  const TextModel model = load("token-classification-bert");
  for (const std::string& text : odd_texts())
    for (Aggregation aggregation :
         {Aggregation::kSimple, Aggregation::kFirst, Aggregation::kAverage, Aggregation::kMax}) {
      uint32_t end = 0;
      for (const Entity& e : model.tag(text, {.aggregation = aggregation}).entities) {
        EXPECT_NE(e.label, "O");
        EXPECT_GE(e.offset.begin, end) << text;
        end = e.offset.end;
      }
      EXPECT_LE(end, text::count_points(text));
    }
}

TEST(Tag, AStrideThatLeavesNoStepIsAnError) {
  const TextModel model = load("token-classification-bert");
  expect_error("cannot share", [&] { model.tag(odd_texts()[13] + odd_texts()[18], {.stride = 46}); });
}

TEST(Answer, IsCutFromTheContextOrSaysThereIsNone) {
  const TextModel model = load("question-answering-bert");
  for (const std::string& context : odd_texts())
    for (const Answer& answer : model.answer("Who?", context, {.top = 5}).answers) {
      EXPECT_FALSE(answer.text.empty());
      EXPECT_EQ(text_at(context, answer.offset), answer.text);
      EXPECT_GT(answer.score, 0);
    }
  EXPECT_TRUE(model.answer("Who?", "").answers.empty());
  const auto none = model.answer("Who?", "", {.allow_no_answer = true}).answers;
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].text, "");
  EXPECT_FLOAT_EQ(none[0].score, 1);
}

TEST(Answer, BestAnswersDifferAndAreInOrder) {
  const TextModel model = load("question-answering-bert");
  for (const std::string& context : odd_texts()) {
    const auto answers = model.answer("Who?", context, {.top = 7}).answers;
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
  const TextModel model = load("question-answering-bert");
  std::string question = "Who came";
  for (int i = 0; i < 100; ++i) question += " to the harbour";
  const std::string_view context = "Anna came to the harbour in 1912.";
  const Answering cut = model.answer(question, context, {.max_question_tokens = 2});
  EXPECT_TRUE(cut.question_truncated);
  const Answering whole = model.answer("Who came", context);
  EXPECT_FALSE(whole.question_truncated);
  EXPECT_EQ(cut.answers, whole.answers);
  expect_error("`top` is at least 1", [&] { model.answer("Who?", context, {.top = 0}); });
  expect_error("`max_answer_tokens` is at least 1",
               [&] { model.answer("Who?", context, {.max_answer_tokens = 0}); });
  expect_error("too long", [&] { model.answer("Who?", context, {.max_length = 1000}); });
}

TEST(Classify, LongTextsAreCutAndCounted) {
  const TextModel model = load("text-classification-bert");
  std::string text = "harbour";
  for (int i = 0; i < 1000; ++i) text += " harbour";
  const std::string_view texts[] = {"short", text, text};
  const auto results = model.classify(texts);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(results[i].truncated, i > 0);
  EXPECT_EQ(results[1].tokens, model.task_max_length());
  const TextModel shorter = model.with_max_length(5);
  const Classification cut = shorter.classify(text), whole = shorter.classify("harbour harbour harbour");
  EXPECT_EQ(cut.labels, whole.labels);
  EXPECT_TRUE(cut.truncated);
  expect_error("out of range", [&] { model.with_max_length(1000); });
  float sum = 0;
  for (const Scored& s : results[1].labels) sum += s.score;
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST(FillMask, SaysWhatTheMaskIsCalled) {
  const TextModel model = load("fill-mask-bert");
  const auto hint = [&](const auto& action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(hint([&] { model.fill_mask("no mask here"); }),
            "the text has no mask | write [MASK] where a word is missing");
  const std::string_view two[] = {"a [MASK]", "none"};
  const auto filled = model.fill_mask(two);
  EXPECT_EQ(filled[0].masks.size(), 1u);
  EXPECT_TRUE(filled[1].masks.empty());
  std::string far;
  for (int i = 0; i < 100; ++i) far += "harbour ";
  expect_error("in the part that the model can read", [&] { model.fill_mask(far + "[MASK]"); });
}

TEST(FillMask, TargetsAreTheOnlyCandidatesAndEachCountsOnce) {
  const TextModel model = load("fill-mask-bert");
  const std::vector<std::string> targets{"The", "the", "bank", "bank"};
  const auto fills = model.fill_mask("It is [MASK].", {.targets = targets}).masks;
  ASSERT_EQ(fills[0].size(), 2u);
  const auto all = model.fill_mask("It is [MASK].", {.top = model.model().config().vocabulary}).masks;
  for (const Fill& fill : fills[0])
    EXPECT_EQ(std::count(all[0].begin(), all[0].end(), fill), 1)
        << "a target's probability is among all tokens";
  double sum = 0;
  for (const Fill& fill : all[0]) sum += fill.score;
  EXPECT_NEAR(sum, 1, 1e-5);
  const std::vector<std::string> unknown{"\u2603"};
  expect_error("the vocabulary could spell", [&] { model.fill_mask("It is [MASK].", {.targets = unknown}); });
}

TEST(FillMask, ManyMasksInOneText) {
  const TextModel model = load("fill-mask-bert");
  std::string text;
  for (int i = 0; i < 40; ++i) text += "[MASK] ";
  EXPECT_EQ(model.fill_mask(text, {.top = 1}).masks.size(), 40u);
}

// A reader of "sequence" wants the text, not what encoding put around it.
TEST(FillMask, SequencesOfTextsWithSeveralMasksShowTheOtherMasksAndNoFrame) {
  for (const char* name :
       {"fill-mask-bert", "fill-mask-roberta", "fill-mask-albert", "fill-mask-distilbert"}) {
    const TextModel model = load(name);
    const Tokenizer& tokenizer = model.tokenizer();
    const std::string mask(tokenizer.token(tokenizer.mask_id()));
    const auto masks = model.fill_mask("The " + mask + " is " + mask + ".", {.top = 3}).masks;
    ASSERT_EQ(masks.size(), 2u);
    for (const std::vector<Fill>& fills : masks)
      for (const Fill& fill : fills) {
        if (tokenizer.is_special(fill.id)) continue;  // random weights propose those too
        for (int32_t added : {tokenizer.cls_id(), tokenizer.sep_id()})
          EXPECT_EQ(fill.sequence.find(tokenizer.token(added)), std::string::npos) << fill.sequence;
        EXPECT_NE(fill.sequence.find(mask), std::string::npos) << fill.sequence;
      }
  }
}

TEST(Tasks, AWrongCheckpointSaysWhatItCanDoAndHow) {
  const TextModel model = load("token-classification-bert");
  try {
    model.classify("text");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "this checkpoint (BertForTokenClassification) cannot classify texts");
    EXPECT_EQ(error.hint(), "a checkpoint …ForSequenceClassification; this one can tag tokens");
  }
  expect_error("cannot fill masks", [&] { model.fill_mask("[MASK]"); });
  expect_error("cannot answer questions", [&] { model.answer("a", "b"); });
  expect_error("cannot continue texts", [&] { model.generate("a"); });
  expect_error("cannot judge", [&] { model.next_sentence("a", "b"); });
  expect_error("cannot tag tokens", [&] { load("fill-mask-bert").tag("a"); });
}

TEST(Generate, ManyPromptsGoOnAsEachWouldAlone) {
  const TextModel model = load("text-generation-gpt2", 2);
  std::vector<std::string> prompts;
  for (int i = 0; i < 19; ++i) prompts.push_back(i % 5 == 4 ? "" : "The harbour " + std::to_string(i * i));
  const std::vector<std::string_view> views(prompts.begin(), prompts.end());
  for (const GenerateOptions& options :
       {GenerateOptions{.max_new_tokens = 12}, {.max_new_tokens = 80, .temperature = 1.5, .seed = 5}}) {
    const std::vector<Generation> together = model.generate(views, options);
    ASSERT_EQ(together.size(), views.size());
    for (size_t i = 0; i < views.size(); ++i) {
      const Generation alone = model.generate(views[i], options);
      EXPECT_EQ(together[i].ids, alone.ids) << i;
      EXPECT_EQ(together[i].text, alone.text) << i;
      EXPECT_EQ(together[i].finish_reason, alone.finish_reason) << i;
    }
  }
  EXPECT_TRUE(model.generate(std::span<const std::string_view>()).empty());
  expect_error("on_text is for one prompt",
               [&] { model.generate(views, {.on_text = [](std::string_view) { return true; }}); });
}

}  // namespace
}  // namespace bertie
