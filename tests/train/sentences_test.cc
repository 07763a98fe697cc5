// Where sentences end, and where they do not.
#include "train/data/sentences.h"

#include <gtest/gtest.h>

#include <string>

#include "text/generated_text.h"

namespace bertie {
namespace {

// The sentences with " | " between them.
std::string split(std::string_view paragraph) {
  std::vector<Sentence> places;
  split_sentences(paragraph, places);
  std::string out;
  for (const Sentence& s : places) {
    if (!out.empty()) out += " | ";
    out += paragraph.substr(s.begin, s.end - s.begin);
  }
  return out;
}

struct SplitCase {
  const char *rule, *text, *sentences;
};
// As docs/data.md lists the rules.
const SplitCase kCases[] = {
    {"stops", "It rained. We stayed! Why? Because.", "It rained. | We stayed! | Why? | Because."},
    {"none", "No stop at all", "No stop at all"},
    {"spaces", "  One.   Two.  ", "One. | Two."},
    {"only spaces", " \t ", ""},
    {"empty", "", ""},
    {"a lower-case letter goes on", "He paused. and went on. \"Stop!\" he cried.",
     "He paused. and went on. | \"Stop!\" he cried."},
    {"several stops", "What?! No... Never!!! Yes.", "What?! | No... | Never!!! | Yes."},
    {"ellipsis that goes on", "He was ... well, gone. And so... on it went.",
     "He was ... well, gone. | And so... on it went."},
    {"the character ellipsis", "Perhaps… Then again… not.", "Perhaps… | Then again… not."},
    {"quotes close", "\"Go.\" She went. (It was late.) He slept.",
     "\"Go.\" | She went. | (It was late.) | He slept."},
    {"curly quotes", "“Go.” “Why?” she asked. ‘No.’ Done.", "“Go.” | “Why?” she asked. | ‘No.’ | Done."},
    {"quotes open", "He left. \"Good,\" she said.", "He left. | \"Good,\" she said."},
    {"a dash begins", "He left. - And she?", "He left. | - And she?"},
    {"decimals", "Pi is 3.14 or so. It is 2.5 m.", "Pi is 3.14 or so. | It is 2.5 m."},
    {"addresses", "See example.com/a.b for it. Then go.", "See example.com/a.b for it. | Then go."},
    {"initials", "J. R. R. Tolkien and J.K. Rowling wrote. So did A. Christie.",
     "J. R. R. Tolkien and J.K. Rowling wrote. | So did A. Christie."},
    {"the word I", "It was he and I. Nobody else.", "It was he and I. | Nobody else."},
    {"titles", "Mr. Smith met Dr. Jones and Mrs. Hill in St. Ives. They ate.",
     "Mr. Smith met Dr. Jones and Mrs. Hill in St. Ives. | They ate."},
    {"before numbers", "See No. 5, Fig. 2 and pp. 3-4. On Jan. 9 it ended. He said no. It was over.",
     "See No. 5, Fig. 2 and pp. 3-4. | On Jan. 9 it ended. | He said no. | It was over."},
    {"abbreviations", "Acme Inc. Chairman Lee sold Acme Inc. The price was low.",
     "Acme Inc. Chairman Lee sold Acme Inc. | The price was low."},
    {"stops inside", "The U.S. Army left the U.S. It was 5 p.m. She slept.",
     "The U.S. Army left the U.S. | It was 5 p.m. | She slept."},
    {"for example", "Fruit, e.g. Apples, i.e. Malus, is good.", "Fruit, e.g. Apples, i.e. Malus, is good."},
    {"a number begins", "It ended. 1842 began.", "It ended. | 1842 began."},
    {"a year ends", "It was 1842. He was ten.", "It was 1842. | He was ten."},
    {"numbered things", "1. The first rule. 2. The second.", "1. The first rule. | 2. The second."},
    {"other scripts", "Он ушёл. Она осталась. она молчала.", "Он ушёл. | Она осталась. она молчала."},
    {"accents", "Il part. Émile reste. été.", "Il part. | Émile reste. été."},
    {"Chinese", "你好。我很好！是吗？是。", "你好。 | 我很好！ | 是吗？ | 是。"},
    {"Spanish", "Hola. ¿Qué tal? ¡Bien!", "Hola. | ¿Qué tal? | ¡Bien!"},
    {"scripts without cases", "שלום. עולם.", "שלום. | עולם."},
};

TEST(Sentences, TheRulesHold) {
  for (const SplitCase& c : kCases) EXPECT_EQ(split(c.text), c.sentences) << c.rule;
}

TEST(Sentences, AnythingIsSplitIntoPartsInOrderWithNothingButSpacesBetween) {
  std::vector<Sentence> places;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::string text = test::generated_text(seed);
    for (size_t i = 0; i < text.size(); i += 5) text[i] = ". !?\"A\xE3"[i / 5 % 7];  // and broken UTF-8
    split_sentences(text, places);
    size_t last = 0;
    for (const Sentence& s : places) {
      ASSERT_GE(s.begin, last);
      ASSERT_LT(s.begin, s.end);
      ASSERT_LE(s.end, text.size());
      last = s.end;
    }
    std::string kept, all;
    for (const Sentence& s : places) kept.append(text, s.begin, s.end - s.begin);
    const auto without_spaces = [](const std::string& from) {
      std::string out;
      for (const char *p = from.data(), *end = p + from.size(); p < end;) {
        const auto [point, length] = text::decode_utf8(p, end);
        if (!(point == ' ' || (point >= 9 && point <= 13) || point == 0xA0 || point == 0x3000))
          out.append(p, length);
        p += length;
      }
      return out;
    };
    ASSERT_EQ(without_spaces(kept), without_spaces(text)) << seed;
  }
}

}  // namespace
}  // namespace bertie
