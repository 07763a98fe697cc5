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

TEST(LearnVocabulary, OfAnotherVocabularyKeepsWhatIsNeeded) {
  const test::TempFolder folder;
  std::filesystem::create_directories(folder.path() / "big");
  folder.write(
      "big/vocab.txt",
      "[PAD]\n[unused]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nc\n##a\nz\n##t\nthe\ncat\nmat\ndog\nt\nh\ne\n##h\n##e"
      "\na\nm\n##m\n##c\n");
  VocabularyOptions o{.texts = {.inputs = {folder.write("text", "The cat the cat\nthe mat\n").string()}},
                      .out = folder.path() / "small/vocab.txt",
                      .size = 18,
                      .from = ModelFiles(folder.path() / "big"),
                      .threads = 1};
  // Characters that occur, at a word's beginning and further on; of whole words the most frequent.
  const std::vector<std::string> kept{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "c", "##a", "##t", "the",
                                      "t",     "h",     "e",     "##h",   "##e",    "a", "m",   "##m", "##c"};
  EXPECT_EQ(learn_vocabulary(o).tokens, kept);
  const Tokenizer small = Tokenizer::load(folder.path() / "small");
  EXPECT_EQ(small.vocab_size(), 18u);
  EXPECT_EQ(small.encode("the cat").size(), 6u);
  o.size = 19, o.force = true;
  EXPECT_EQ(learn_vocabulary(o).tokens[9], "cat");
  o.size = 16;
  expect_error("the characters of these texts alone are 17 tokens", [&] { learn_vocabulary(o); });
}

}  // namespace
}  // namespace bertie
