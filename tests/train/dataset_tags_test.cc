// Sentences in columns and in JSON; the schemes of their tags.
#include <gtest/gtest.h>

#include "bertie/dataset.h"
#include "bertie/table.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "train/data/iob.h"

namespace bertie {
namespace {

using test::expect_error;
using test::TempFolder;
using Strings = std::vector<std::string>;

Dataset tags(const std::string& name, std::string_view text, const DatasetOptions& options = {}) {
  const TempFolder folder;
  return read_dataset(TaskKind::kTag, folder.write(name, text).string(), options);
}
Strings tag_names(const Dataset& data, size_t sentence) {
  Strings names;
  for (const int32_t tag : data.sentences.at(sentence).tags) names.push_back(data.labels.at(size_t(tag)));
  return names;
}
Strings converted(Strings sentence) {
  convert_to_iob2(sentence);
  return sentence;
}
TagScheme scheme_of(const std::vector<Strings>& sentences) { return recognize_scheme(sentences); }

// Every pair of tags in a sentence of IOB1: the second one's tag in IOB2 (the first one's is in `firsts`).
TEST(Iob1, EveryTransition) {
  const Strings all = {"O", "B-X", "I-X", "B-Y", "I-Y"}, firsts = {"O", "B-X", "B-X", "B-Y", "B-Y"};
  const std::vector<Strings> second = {
      {"O", "B-X", "B-X", "B-Y", "B-Y"},  // after O
      {"O", "B-X", "I-X", "B-Y", "B-Y"},  // after B-X
      {"O", "B-X", "I-X", "B-Y", "B-Y"},  // after I-X
      {"O", "B-X", "B-X", "B-Y", "I-Y"},  // after B-Y
      {"O", "B-X", "B-X", "B-Y", "I-Y"},  // after I-Y
  };
  for (size_t a = 0; a < all.size(); ++a)
    for (size_t b = 0; b < all.size(); ++b)
      EXPECT_EQ(converted({all[a], all[b]}), (Strings{firsts[a], second[a][b]})) << all[a] << " " << all[b];
}

TEST(Bioes, EveryTransition) {
  for (const auto& [end, single] : {std::pair('E', 'S'), {'L', 'U'}}) {
    const Strings all = {"O",
                         "B-X",
                         "I-X",
                         std::string{end} + "-X",
                         std::string{single} + "-X",
                         "B-Y",
                         "I-Y",
                         std::string{end} + "-Y",
                         std::string{single} + "-Y"};
    for (const std::string& a : all)
      for (const std::string& b : all) {
        // An entity goes on where the first leaves it open and the second continues the same kind.
        const bool open = a[0] == 'B' || a[0] == 'I';
        const bool goes_on = open && (b[0] == 'I' || b[0] == end) && a.substr(1) == b.substr(1);
        const std::string first = a == "O" ? "O" : "B" + a.substr(1);
        const std::string second = b == "O" ? "O" : (goes_on ? "I" : "B") + b.substr(1);
        EXPECT_EQ(converted({a, b}), (Strings{first, second})) << a << " " << b;
      }
    EXPECT_EQ(converted({"B-X", "I-X", std::string{end} + "-X", std::string{single} + "-X", "B-X"}),
              (Strings{"B-X", "I-X", "I-X", "B-X", "B-X"}));
  }
}

TEST(Iob2, StaysAsItIs) {
  const Strings good = {"B-X", "I-X", "I-X", "O", "B-X", "B-X", "I-X", "B-Y", "O"};
  EXPECT_EQ(converted(good), good);
  EXPECT_EQ(converted(converted({"I-X", "I-X", "B-X"})), (Strings{"B-X", "I-X", "B-X"})) << "twice is once";
}

TEST(Schemes, AreRecognizedFromAllSentences) {
  EXPECT_EQ(scheme_of({{"O", "B-X", "I-X"}, {"B-Y", "B-Y"}}), TagScheme::kIob2);
  EXPECT_EQ(scheme_of({{"O", "B-X", "I-X"}, {"O", "I-Y"}}), TagScheme::kIob1);
  EXPECT_EQ(scheme_of({{"I-X"}}), TagScheme::kIob1);
  EXPECT_EQ(scheme_of({{"B-X", "I-Y"}}), TagScheme::kIob1);
  EXPECT_EQ(scheme_of({{"B-X"}, {"I-X"}}), TagScheme::kIob1) << "a sentence begins anew";
  EXPECT_EQ(scheme_of({{"B-X", "I-X"}, {"S-X"}}), TagScheme::kBioes);
  EXPECT_EQ(scheme_of({{"B-X", "L-X", "U-X"}}), TagScheme::kBioes);
  EXPECT_EQ(scheme_of({{"NN", "VB"}}), TagScheme::kPlain);
  EXPECT_EQ(scheme_of({{"B-X", "PER"}}), TagScheme::kPlain);
  EXPECT_EQ(scheme_of({{"B-", "O"}}), TagScheme::kPlain);
  EXPECT_EQ(scheme_of({{"O", "O"}}), TagScheme::kPlain);
  EXPECT_EQ(scheme_of({}), TagScheme::kPlain);
}

TEST(Conll, WordsAndTheLastColumnBetweenEmptyLines) {
  const Dataset data =
      tags("eng.testa",
           "-DOCSTART- -X- O O\n\nWest NNP I-NP I-MISC\nIndian NNP I-NP I-MISC\nman NN I-NP O\n\n \n"
           "-DOCSTART- -X- O\nPhil NNP I-NP I-PER\r\nEU NNP I-NP I-ORG\n");
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(data.sentences[0].words, (Strings{"West", "Indian", "man"}));
  EXPECT_EQ(data.sentences[0].line, 3u);
  EXPECT_EQ(data.sentences[1].line, 9u);
  EXPECT_EQ(tag_names(data, 0), (Strings{"B-MISC", "I-MISC", "O"}));
  EXPECT_EQ(tag_names(data, 1), (Strings{"B-PER", "B-ORG"}));
  EXPECT_EQ(data.labels, (Strings{"O", "B-MISC", "B-ORG", "B-PER", "I-MISC", "I-ORG", "I-PER"}));
  EXPECT_EQ(data.found, "CoNLL, columns 1 and 4, IOB1");
}

TEST(Conll, AnotherColumnMayBeTheTag) {
  const char* text = "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n";
  const Dataset pos = tags("a.conll", text, {.label = "2"});
  EXPECT_EQ(pos.labels, (Strings{"NNP", "VBZ"}));
  EXPECT_EQ(pos.found, "CoNLL, columns 1 and 2, tags without prefixes");
  EXPECT_EQ(tags("a.conll", text, {.text = "2"}).sentences[0].words, (Strings{"NNP", "VBZ"}));
  for (const char* wrong : {"5", "0", "ner"}) {
    expect_error("has no column", [&] { tags("a.conll", text, {.label = wrong}); });
  }
}

TEST(Conll, TabsKeepSpacesWithinColumns) {
  const Dataset data = tags("a.tsv", "New York\tB-LOC\nis\tO\n\nbig\tO\n");
  EXPECT_EQ(data.sentences[0].words, (Strings{"New York", "is"}));
  EXPECT_EQ(data.size(), 2u);
}

TEST(Conll, LinesWithANumberSignBeforeASentenceAreCommentsOrWords) {
  const Dataset germeval = tags("a.tsv",
                                "#\thttp://example.org\t[2009-10-17]\n1\tAnn\tB-PER\tO\n2\tsleeps\tO\tO\n\n"
                                "#\tx\n1\tBob\tB-PER\tO\n",
                                {.text = "2", .label = "3"});
  ASSERT_EQ(germeval.sentences.size(), 2u);
  EXPECT_EQ(germeval.sentences[0].words, (Strings{"Ann", "sleeps"}));
  EXPECT_EQ(germeval.sentences[0].line, 2u);
  const Dataset multi =
      tags("a.conll", "# id 7\tdomain=en\nAnn _ _ B-PER\n# _ _ O\n\n# id 8\nRome _ _ B-LOC\n");
  ASSERT_EQ(multi.sentences.size(), 2u);
  EXPECT_EQ(multi.sentences[0].words, (Strings{"Ann", "#"})) << "within a sentence it is a word";
  const Dataset tweets = tags("a.conll", "#rome O\nis O\n\n#paris B-LOC\n");
  ASSERT_EQ(tweets.sentences.size(), 2u);
  EXPECT_EQ(tweets.sentences[0].words, (Strings{"#rome", "is"}));
  EXPECT_EQ(tags("a.conll", "#rome O\n").sentences[0].words, (Strings{"#rome"}));
}

TEST(Conll, UniversalDependenciesHaveTheirColumns) {
  const std::string rest = "\t_\t_\t_\t_\t_\t_\n";
  const Dataset data =
      tags("a.conllu", "# text = don't #\n1-2\tdon't\t_\t_" + rest + "1\tdo\tdo\tAUX" + rest +
                           "2\tn't\tnot\tPART" + rest + "3\t#\t#\tSYM" + rest + "3.1\tx\tx\tX" + rest + "\n");
  ASSERT_EQ(data.size(), 1u);
  EXPECT_EQ(data.sentences[0].words, (Strings{"do", "n't", "#"}));
  EXPECT_EQ(tag_names(data, 0), (Strings{"AUX", "PART", "SYM"}));
  EXPECT_EQ(data.found, "CoNLL-U, columns 2 and 4, tags without prefixes");
}

TEST(Conll, ABadLineMakesItsSentenceBad) {
  const std::string text = "A O\nB\nC O\n\nD O\n\nE O\nF B-X x\n\nG B-X\n";
  expect_error(":2: 1 column where the first word has 2", [&] { tags("a.conll", text); });
  std::vector<std::string> told;
  const Dataset data =
      tags("a.conll", text, {.skip_bad = true, .bad_row = [&](const Error& e) { told.push_back(e.what()); }});
  EXPECT_EQ(data.size(), 2u);
  EXPECT_EQ(data.bad_rows, 2u);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_NE(told[1].find(":8: 3 columns"), std::string::npos) << told[1];
  expect_error("words have one column", [&] { tags("a.conll", "A\nB\n"); });
  expect_error(":2: there is no tag", [&] { tags("a.conll", "A\tO\nB\t\n"); });
  expect_error("zero byte", [&] { tags("a.conll", std::string("A O\nB\0 O\n", 9)); });
}

TEST(Conll, AFirstLineMayNameTheColumns) {
  for (const std::string header :
       {"word tag\n", "Token\tPOS\tNER\n", "token ner_tag\n", "# a comment of many words\nword label\n\n"}) {
    const bool three = header.find("POS") != header.npos;
    const std::string rows = three ? "Anna\tN\tB-PER\ncame\tV\tO\n\n" : "Anna B-PER\ncame O\n\n";
    const Dataset data = tags("a.conll", header + rows);
    ASSERT_EQ(data.size(), 1u) << header;
    EXPECT_EQ(data.sentences[0].words, (Strings{"Anna", "came"})) << header;
    EXPECT_EQ(data.labels, (Strings{"O", "B-PER", "I-PER"})) << header;
    EXPECT_EQ(data.found.find("columns 1"), std::string::npos) << data.found;
  }
  const std::string kaggle = "Sentence #\tWord\tPOS\tTag\nSentence: 1\tAnna\tN\tB-PER\n\tcame\tV\tO\n";
  const Dataset named = tags("a.tsv", kaggle);
  EXPECT_EQ(named.sentences.at(0).words, (Strings{"Anna", "came"})) << "the header says where the words are";
  EXPECT_EQ(named.found, "CoNLL, columns Word and Tag, IOB2");
  EXPECT_EQ(tags("a.tsv", kaggle, {.label = "pos"}).labels, (Strings{"N", "V"}));
  EXPECT_EQ(tags("a.tsv", kaggle, {.label = "3"}).labels, (Strings{"N", "V"}));
  expect_error("has no column \"what\": its columns are Sentence #, Word, POS, Tag",
               [&] { tags("a.tsv", kaggle, {.label = "what"}); });
  EXPECT_EQ(tags("a.conll", "word O\ntag B-X\n").sentences.at(0).words.size(), 2u) << "a word like any other";
  EXPECT_EQ(tags("a.conll", "A O\nword tag\n").sentences.at(0).words.size(), 2u) << "not the first line";
}

TEST(Conll, ATagWithoutPrefixAmongManyWithThemIsABadRow) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "Anna B-PER\ncame O\n\n";
  const std::string wrong = text + "and O\nthen O\nBob PER\nleft O\n\n";
  expect_error(":93: the tag \"PER\" of the word \"Bob\" is neither O nor like B-PER",
               [&] { tags("a.conll", wrong); });
  const Dataset data = tags("a.conll", wrong, {.skip_bad = true});
  EXPECT_EQ(data.size(), 30u);
  EXPECT_EQ(data.bad_rows, 1u);
  EXPECT_EQ(data.labels, (Strings{"O", "B-PER", "I-PER"})) << "and the others keep their scheme";
  EXPECT_EQ(tags("a.conll", "A N\nB V\n\nC B-X\n").labels, (Strings{"B-X", "N", "V"})) << "most are without";
}

TEST(Conll, AnotherSignForWhatIsOutsideBecomesO) {
  for (const std::string sign : {"o", "_", "0", "OTHER"}) {
    const Dataset data =
        tags("a.conll", "Anna B-PER\nand " + sign + "\nBob B-PER\nleft " + sign + "\nRome " + sign + "\n");
    EXPECT_EQ(data.labels, (Strings{"O", "B-PER", "I-PER"})) << sign;
    EXPECT_EQ(tag_names(data, 0), (Strings{"B-PER", "O", "B-PER", "O", "O"})) << sign;
  }
  EXPECT_EQ(tags("a.conll", "A 0\nB 3\n").labels, (Strings{"0", "3"})) << "numbers stay numbers";
}

TEST(JsonTags, ListsOfWordsAndTags) {
  const Dataset data = tags("a.jsonl",
                            "{\"tokens\": [\"EU\", \"says\"], \"ner_tags\": [\"S-ORG\", \"O\"]}\n"
                            "{\"tokens\": [\"New\", \"York\"], \"ner_tags\": [\"B-LOC\", \"E-LOC\"]}\n");
  EXPECT_EQ(tag_names(data, 1), (Strings{"B-LOC", "I-LOC"}));
  EXPECT_EQ(data.labels, (Strings{"O", "B-LOC", "B-ORG", "I-LOC", "I-ORG"}));
  EXPECT_EQ(data.found, "JSON lines, keys tokens and ner_tags, BIOES");
  const Dataset numbers = tags("a.jsonl", "{\"words\": [\"a\", \"b\"], \"tags\": [10, 9]}\n");
  EXPECT_EQ(numbers.labels, (Strings{"9", "10"}));
  EXPECT_EQ(tags("a.json", "[{\"words\": [\"a\"], \"labels\": [\"O\"]}]").size(), 1u);
  expect_error(":1: 2 words and 1 tags",
               [] { tags("a.jsonl", "{\"tokens\": [\"a\", \"b\"], \"tags\": [\"O\"]}\n"); });
  expect_error("not a list of words", [] { tags("a.jsonl", "{\"tokens\": \"a b\", \"tags\": [\"O\"]}\n"); });
  expect_error("not a list of tags", [] { tags("a.jsonl", "{\"tokens\": [\"a\"], \"tags\": \"O\"}\n"); });
  expect_error("there are no words", [] { tags("a.jsonl", "{\"tokens\": [], \"tags\": []}\n"); });
  expect_error("a word is empty", [] { tags("a.jsonl", "{\"tokens\": [\"\"], \"tags\": [\"O\"]}\n"); });
  expect_error("a word is a number", [] { tags("a.jsonl", "{\"tokens\": [1], \"tags\": [\"O\"]}\n"); });
  expect_error("usual name for the words",
               [] { tags("a.jsonl", "{\"what\": [\"a\"], \"n\": 1, \"tags\": [\"O\"]}\n"); });
  expect_error("has no form for tags", [] { tags("a.csv", "word,tag\na,O\n"); });
}

TEST(TextRows, GiveTheTextsOfEveryFormat) {
  const TempFolder folder;
  const auto texts = [&](TaskKind kind, const std::string& name, std::string_view text,
                         const std::string& column = "") {
    TextRows rows(kind, folder.write(name, text).string(), column);
    Strings all;
    for (TextRow row; rows.next(row);)
      all.push_back(row.problem     ? std::to_string(row.line) + "!"
                    : row.b.empty() ? row.a
                                    : row.a + "/" + row.b);
    return all;
  };
  EXPECT_EQ(texts(TaskKind::kClassify, "a.csv", "text,label\na,1\n\"b\nc\",0\nd\n"),
            (Strings{"a", "b\nc", "5!"}));
  EXPECT_EQ(texts(TaskKind::kClassify, "a.csv", "what,why\na,1\n", "why"), (Strings{"1"}));
  EXPECT_EQ(texts(TaskKind::kClassify, "a.csv", "one\ntwo\n"), (Strings{"one", "two"}))
      << "no header is known";
  EXPECT_EQ(texts(TaskKind::kPair, "a.tsv", "It rained.\tWe got wet.\nc\td\n"),
            (Strings{"It rained./We got wet.", "c/d"}));
  EXPECT_EQ(texts(TaskKind::kPair, "a.tsv", "id\tsentence1\tsentence2\n0\ta\tb\n"), (Strings{"a/b"}));
  EXPECT_EQ(texts(TaskKind::kTag, "eng.testa", "-DOCSTART- O\n\nA I-X\nB O\n\nC O\n\n"),
            (Strings{"A B", "C"}));
  EXPECT_EQ(texts(TaskKind::kTag, "eng.testa", "word tag\nA I-X\nB O\n\n"), (Strings{"A B"}));
  EXPECT_EQ(texts(TaskKind::kTag, "a.jsonl", "{\"tokens\": [\"A\", \"B\"]}\n{\"tokens\": \"C\"}\n"),
            (Strings{"A B", "C"}));
  EXPECT_EQ(texts(TaskKind::kTag, "a.csv", "text,x\nA B,1\n"), (Strings{"A B"}));
  EXPECT_EQ(texts(TaskKind::kAnswer, "a.jsonl", "{\"question\": \"q\", \"context\": \"c\"}\n"),
            (Strings{"q/c"}));
  EXPECT_EQ(
      texts(
          TaskKind::kAnswer, "a.json",
          "{\"data\": [{\"paragraphs\": [{\"context\": \"c\", \"qas\": [{\"question\": \"q\", \"id\": \"1\", "
          "\"answers\": [{\"text\": \"wrong\", \"answer_start\": 9}]}]}]}]}"),
      (Strings{"q/c"}))
      << "answers do not matter";
  expect_error("has no column \"wrong\"", [&] { texts(TaskKind::kClassify, "a.csv", "text\na\n", "wrong"); });
}

TEST(TextRows, AreForFilesThatAreTablesByNameOrConll) {
  const TempFolder folder;
  const std::string conll = folder.write("eng.testa", "A O\nB I-X\n\nC O\n\n");
  const std::string headed = folder.write("headed", "word tag\nA O\nB I-X\n\nC O\n\n");
  const std::string prose = folder.write("notes.txt", "A O\nThis is a line\n\nB\n");
  for (const char* name : {"a.csv", "a.TSV", "a.jsonl.gz", "a.ndjson.xz", "a.json.zst"})
    EXPECT_TRUE(is_table(TaskKind::kClassify, name)) << name;
  for (const char* name : {"a.txt", "a", "-", "a.gz", "a.conll"})
    EXPECT_FALSE(is_table(TaskKind::kPair, name)) << name;
  EXPECT_TRUE(is_table(TaskKind::kTag, "a.conll.gz"));
  EXPECT_TRUE(is_table(TaskKind::kTag, conll));
  EXPECT_TRUE(is_table(TaskKind::kTag, headed));
  EXPECT_FALSE(is_table(TaskKind::kClassify, conll));
  EXPECT_FALSE(is_table(TaskKind::kTag, prose));
  EXPECT_FALSE(is_table(TaskKind::kTag, "/no/such/file"));
}

}  // namespace
}  // namespace bertie
