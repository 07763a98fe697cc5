// Treebanks: what is read of them, and what is said of bad lines; any bytes at all.
#include <gtest/gtest.h>

#define LLVMFuzzerTestOneInput conllu_fuzz
#include "../../fuzz/conllu_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#include "core/random.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

const std::string kTwo =
    "# sent_id = 1\n# text = I don't know.\n"
    "1\tI\tI\tPRON\tPRP\t_\t4\tnsubj\t4:nsubj\t_\n"
    "2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t4:aux\t_\n"
    "3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t4:advmod\t_\n"
    "4\tknow\tknow\tVERB\tVB\t_\t0\troot\t0:root\tSpaceAfter=No\n"
    "5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t4:punct\t_\n"
    "\n"
    "1\tHis\this\tPRON\tPRP$\t_\t2\tnmod:poss\t2:nmod:poss\t_\r\n"
    "2\tdog\tdog\tNOUN\tNN\t_\t0\troot\t0:root\t_\r\n"
    "2.1\tbarks\tbark\tVERB\t_\t_\t_\t_\t0:root\t_\r\n";

std::vector<ParsedSentence> read(const std::string& text) {
  const test::TempFolder folder;
  return read_conllu(folder.write("a.conllu", text).string());
}

TEST(Conllu, HasTheWordsOfTheTreeAndNoOthers) {
  const auto sentences = read(kTwo);
  ASSERT_EQ(sentences.size(), 2u);
  std::string words, relations;
  for (const ParsedWord& w : sentences[0].words)
    words += w.form + " ", relations += std::to_string(w.head) + w.relation + " ";
  EXPECT_EQ(words, "I do n't know . ");
  EXPECT_EQ(relations, "4nsubj 4aux 4advmod 0root 4punct ");
  EXPECT_EQ(sentences[0].line, 3u);
  EXPECT_EQ(sentences[1].words.size(), 2u);
  EXPECT_EQ(sentences[1].words[0].tag, "PRON");
}

TEST(Conllu, BadLinesAreSaidWithTheirNumber) {
  const std::string word = "1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n";
  const auto refused = [](const std::string& part, const std::string& text) {
    test::expect_error(part, [&] { read(text); });
  };
  refused("line 1: 9 columns", "1\ta\ta\tX\t_\t_\t0\troot\t_\n");
  refused("line 1: 1 column ", "hello world\n");
  refused("line 2: the word's number is \"3\"", word + "3\tb\tb\tX\t_\t_\t1\tdet\t_\t_\n");
  refused("line 2: the word's number is \"2-1\"", word + "2-1\tb\tb\tX\t_\t_\t1\tdet\t_\t_\n");
  refused("line 3: column seven is \"_\"", "# c\n" + word + "2\tb\tb\tX\t_\t_\t_\tdet\t_\t_\n");
  refused("column seven is \"-1\"", word + "2\tb\tb\tX\t_\t_\t-1\tdet\t_\t_\n");
  refused("depends on itself", word + "2\tb\tb\tX\t_\t_\t2\tdet\t_\t_\n");
  refused("line 1: word 2 of this sentence depends on word 9", word + "2\tb\tb\tX\t_\t_\t9\tdet\t_\t_\n\n");
  refused("no word in the second", "1\t\ta\tX\t_\t_\t0\troot\t_\t_\n");
  refused("no relation", "1\ta\ta\tX\t_\t_\t0\t\t_\t_\n");
  refused("zero byte", std::string("1\ta\0\ta\tX\t_\t_\t0\troot\t_\t_\n", 22));
  refused("has no sentences", "# nothing\n\n\n");
  refused("has no sentences", "");
  refused("longer than", std::string(3 << 20, 'x'));
}

TEST(Conllu, ChangedFilesAreRefusedOrHoldTogether) {
  const auto run = [](const std::string& file) {
    return conllu_fuzz(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  };
  EXPECT_EQ(run(kTwo), 0);
  size_t accepted = 0, refused = 0;
  const auto count = [&](const std::string& file) { ++(run(file) == 0 ? accepted : refused); };
  for (size_t length = 0; length < kTwo.size(); ++length) count(kTwo.substr(0, length));
  Random random(7);
  for (size_t i = 0; i < 3000; ++i) {
    std::string changed = kTwo;
    for (uint32_t n = 1 + random.below(3); n > 0; --n) {
      static constexpr std::string_view kBytes = "\t\t\n\r #-.0149a_\0\xff";
      const char byte = kBytes[random.below(uint32_t(kBytes.size()))];
      const size_t at = random.below(uint32_t(changed.size()));
      if (random.below(2))
        changed[at] = byte;
      else
        changed.insert(at, 1, byte);
    }
    count(changed);
  }
  EXPECT_GT(accepted, 300u);
  EXPECT_GT(refused, 500u);
}

}  // namespace
}  // namespace bertie
