#include <gtest/gtest.h>

#include "bertie/data.h"
#include "bertie/tokenizer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using test::expect_error;

TEST(LearnVocabulary, WritesWhatTokenizerLoads) {
  const test::TempFolder folder;
  VocabularyOptions o{
      .texts = {.inputs = {folder.write("text", "the cat sat on the mat\nthe caf\xE9\n").string()}},
      .out = folder.path() / "model/vocab.txt",
      .size = 40,
      .threads = 1};
  const LearnedVocabulary learned = learn_vocabulary(o);
  EXPECT_EQ(learned.tokens[4], "[MASK]");
  EXPECT_EQ(learned.words, 8u);
  EXPECT_EQ(learned.texts.invalid_lines, 1u);
  EXPECT_EQ(learned.texts.first_invalid, o.texts.inputs[0] + ":2");
  EXPECT_EQ(Tokenizer::load(folder.path() / "model").vocab_size(), learned.tokens.size());
  expect_error("is there already", [&] { learn_vocabulary(o); });
  o.force = true;
  learn_vocabulary(o);
  o.lowercase = false, o.force = false, o.out = folder.path() / "model/cased.txt";
  expect_error("of another tokenizer", [&] { learn_vocabulary(o); });
  o.out.clear();
  EXPECT_EQ(learn_vocabulary(o).tokens[4], "[MASK]") << "and writes nothing";
  o.size = 6;
  expect_error("the characters of these texts alone", [&] { learn_vocabulary(o); });
}

}  // namespace
}  // namespace bertie
