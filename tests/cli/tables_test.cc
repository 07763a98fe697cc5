// Tables in and out: columns by name, packed files, CoNLL and SQuAD; CSV and TSV for programs.
#include <fmt/format.h>

#include "../io/packed.h"
#include "program.h"

using namespace bertie::test;

namespace {

std::string golden(const std::string& name) { return (source_dir() / "tests/golden/tasks" / name).string(); }
const std::string kClassifier = golden("text-classification-bert"),
                  kTagger = golden("token-classification-bert"),
                  kAnswerer = golden("question-answering-bert");

std::vector<json> objects(const Result& r) {
  std::vector<json> all;
  for (const std::string& line : lines(r.out)) all.push_back(json::parse(line));
  return all;
}
std::vector<std::string> texts(const Result& r, const char* key = "text") {
  std::vector<std::string> all;
  for (const json& object : objects(r)) all.push_back(object.at(key));
  return all;
}
using Texts = std::vector<std::string>;

TEST(TableInput, AColumnByItsNameByUsualNamesOrByNumber) {
  const TemporaryFolder folder;
  const std::string file = folder / "reviews.csv";
  write_all(file, "\xEF\xBB\xBFid,review,why\r\n1,\"A fine,\nlong film.\",x\r\n2,,y\r\n3,bleak,z\r\n");
  const Texts all = {"A fine,\nlong film.", "", "bleak"};
  EXPECT_EQ(texts(run({"classify", "--json", "-m", kClassifier, "-f", file})), all) << "the usual name";
  EXPECT_EQ(texts(run({"classify", "--json", "-m", kClassifier, "-f", file, "--column", "review"})), all);
  EXPECT_EQ(texts(run({"classify", "--json", "-m", kClassifier, "-f", file, "--column", "why"})),
            (Texts{"x", "y", "z"}));
  EXPECT_EQ(texts(run({"embed", "--json", "-m", kClassifier, "-f", file, "--column", "2"})).size(), 3u);
  const std::vector<std::string> stdin_table{"classify", "--json", "-m", kClassifier, "--column", "why"};
  EXPECT_EQ(texts(run(stdin_table, {.input = read_all(file)})), (Texts{"x", "y", "z"}));
  EXPECT_EQ(texts(run(stdin_table, {.input = gzip(read_all(file))})), (Texts{"x", "y", "z"}));
}

TEST(TableInput, AWrongColumnIsAWrongCommandLineBeforeTheModelIsLoaded) {
  const TemporaryFolder folder;
  const std::string file = folder / "reviews.csv";
  write_all(file, "review,label\nfine,1\n");
  const Result r = run({"classify", "-m", "/no/such/model", "-f", file, "--column", "reviw"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("has no column \"reviw\": its columns are \"review\", \"label\""), std::string::npos)
      << r.err;
  EXPECT_NE(r.err.find("did you mean \"review\"?"), std::string::npos) << r.err;
  write_all(file, "what,why\nfine,1\n");
  const Result none = run({"classify", "-m", kClassifier, "-f", file});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("--column says which column it is"), std::string::npos) << none.err;
  EXPECT_EQ(run({"classify", "-m", kClassifier, "--column", "text", "a word"}).code, 2);
}

TEST(TableInput, BadRowsAreReportedByLineAndTheOthersGoOn) {
  const TemporaryFolder folder;
  const std::string file = folder / "a.csv";
  write_all(file, "text,label\nfine,1\nbad\n\"two\nlines\",2\n\"open,3\nlast,4\n");
  const Result r = run({"classify", "--json", "-m", kClassifier, "-f", file});
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(texts(r), (Texts{"fine", "two\nlines", "last"}));
  EXPECT_EQ(objects(r)[1]["index"], 2);
  for (const char* said : {":3: 1 field where the header has 2", ":6: a quote is not closed"})
    EXPECT_NE(r.err.find(file + said), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("2 of 5 texts could not be used"), std::string::npos) << r.err;
  const Result strict = run({"classify", "--strict", "--json", "-m", kClassifier, "-f", file});
  EXPECT_EQ(strict.code, 1);
  EXPECT_EQ(texts(strict), (Texts{"fine"}));
  write_all(file, "text,label\ncaf\xe9,1\n");
  const Result latin = run({"classify", "--json", "-m", kClassifier, "-f", file});
  EXPECT_EQ(texts(latin), (Texts{"caf\uFFFD"}));
  EXPECT_NE(latin.err.find("1 of 1 texts are not valid UTF-8, the first is " + file + ":2"),
            std::string::npos)
      << latin.err;
}

TEST(TableInput, PairsComeFromTwoColumnsOrFromLinesAsBefore) {
  const TemporaryFolder folder;
  const auto pairs = [&](const std::string& name, const std::string& text, Texts more = {}) {
    const std::string file = folder / name;
    write_all(file, text);
    Texts command{"pair", "--json", "-m", kClassifier, "-f", file};
    command.insert(command.end(), more.begin(), more.end());
    Texts all;
    for (const json& object : objects(run(command)))
      all.push_back(object["a"].get<std::string>() + "/" + object["b"].get<std::string>());
    return all;
  };
  const Texts two = {"a b/c", "d/e"};
  EXPECT_EQ(pairs("p.tsv", "a b\tc\nd\te\n"), two);
  EXPECT_EQ(pairs("p", "a b\tc\nd\te\n"), two);
  EXPECT_EQ(pairs("p.jsonl",
                  "{\"text\": \"a b\", \"text_pair\": \"c\"}\n{\"text\": \"d\", \"text_pair\": \"e\"}\n"),
            two);
  EXPECT_EQ(pairs("p.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta b\tc\tx\n1\td\te\ty\n"), two);
  EXPECT_EQ(pairs("p.csv", "n,one,two\n0,a b,c\n1,d,e\n", {"--column", "one", "--column-pair", "two"}), two);
}

TEST(TableInput, TagReadsConllAndAnswerReadsSquad) {
  const TemporaryFolder folder;
  const std::string conll = folder / "eng.testa", squad = folder / "squad.json.gz";
  write_all(conll,
            "-DOCSTART- -X- O O\n\nAnna NNP I-NP I-PER\ncame VBD I-VP O\n\nGothenburg NNP I-NP I-LOC\n\n");
  EXPECT_EQ(texts(run({"tag", "--json", "-m", kTagger, "-f", conll})), (Texts{"Anna came", "Gothenburg"}));
  EXPECT_EQ(texts(run({"classify", "--json", "-m", kClassifier, "-f", conll})).size(), 7u)
      << "lines, to others";
  write_all(squad,
            gzip("{\"version\": \"1.1\", \"data\": [{\"paragraphs\": [{\"context\": \"Anna came.\", \"qas\": "
                 "[{\"id\": \"1\", \"question\": \"Who?\", \"answers\": [{\"text\": \"Anna\", "
                 "\"answer_start\": 0}]}]}]}]}"));
  EXPECT_EQ(texts(run({"answer", "--json", "-m", kAnswerer, "-f", squad}), "question"), (Texts{"Who?"}));
  write_all(folder / "q.csv", "question\nWho?\n\"When, then?\"\n");
  write_all(folder / "c.txt", "Anna came to Gothenburg.");
  EXPECT_EQ(
      texts(run({"answer", "--json", "-m", kAnswerer, "-f", folder / "q.csv", "--context", folder / "c.txt"}),
            "question"),
      (Texts{"Who?", "When, then?"}));
}

TEST(TableInput, PackedLinesAreLines) {
  const TemporaryFolder folder;
  const std::string text = "One line,\nand another\n\nlast";
  const Texts all = {"One line,", "and another", "", "last"};
  for (const auto& [name, packed] :
       {std::pair("t.txt", text), {"t.gz", gzip(text)}, {"t.xz", xz(text)}, {"t.zst", zstd(text)}}) {
    const std::string file = folder / name;
    write_all(file, packed);
    EXPECT_EQ(texts(run({"classify", "--json", "-m", kClassifier, "-f", file})), all) << name;
    EXPECT_EQ(lines(run({"tokenize", "--ids", "-m", kClassifier, "-f", file}).out).size(), 4u) << name;
  }
  write_all(folder / "broken.gz", gzip(text).substr(0, 20));
  const Result broken = run({"classify", "-m", kClassifier, "-f", folder / "broken.gz"});
  EXPECT_EQ(broken.code, 1);
  EXPECT_NE(broken.err.find("ends in the middle"), std::string::npos) << broken.err;
}

TEST(TableInput, SeveralFilesOfAnyKindComeInTheirOrder) {
  const TemporaryFolder folder;
  write_all(folder / "a.csv", "text,n\none,1\n");
  write_all(folder / "b.txt", "two\nthree\n");
  write_all(folder / "c.jsonl", "{\"text\": \"four\"}\n");
  write_all(folder / "d.gz", gzip("five\n"));
  Texts command{"classify", "--json", "-m", kClassifier, "zero"};
  for (const char* name : {"a.csv", "b.txt", "c.jsonl", "d.gz"})
    command.insert(command.end(), {"-f", folder / name});
  const Result r = run(command);
  EXPECT_EQ(texts(r), (Texts{"zero", "one", "two", "three", "four", "five"}));
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(objects(r)[i]["index"], i);
}

TEST(TableInput, AColumnThatIsUsuallyALabelMayBeTheText) {
  const TemporaryFolder folder;
  write_all(folder / "a.csv", "category,label\nfine film,x\n");
  for (const char* column : {"category", "label"})
    EXPECT_EQ(run({"embed", "-m", kClassifier, "-f", folder / "a.csv", "--column", column, "--json"}).code, 0)
        << column;
  const Result same =
      run({"pair", "-m", kClassifier, "-f", folder / "a.csv", "--column", "label", "--column-pair", "label"});
  EXPECT_EQ(same.code, 2);
  EXPECT_NE(same.err.find("cannot be --column and --column-pair at once"), std::string::npos) << same.err;
}

TEST(TableInput, ATableWithoutAHeaderIsSaid) {
  const TemporaryFolder folder;
  write_all(folder / "a.csv", "fine film\nsad day\n");
  const std::vector<std::string> command{"classify", "-m", kClassifier, "-f", folder / "a.csv"};
  EXPECT_NE(run(command).err.find("no header"), std::string::npos);
  std::vector<std::string> quiet = command;
  quiet.push_back("-q");
  EXPECT_EQ(run(quiet).err, "");
}

TEST(TableInput, WhatWasFoundIsSaidWithVerbose) {
  const TemporaryFolder folder;
  write_all(folder / "a.csv", "text;n\none;1\n");
  const Result r = run({"classify", "-v", "--json", "-m", kClassifier, "-f", folder / "a.csv"});
  EXPECT_NE(r.err.find("CSV with semicolons, column text"), std::string::npos) << r.err;
}

TEST(TableOutput, HasAHeaderAndQuotesWhereTheyAreNeeded) {
  const How how{.input = "A fine, long \"film\".\nbleak\n"};
  const Result csv = run({"classify", "--format", "csv", "-m", kClassifier}, how);
  EXPECT_EQ(csv.code, 0) << csv.err;
  const Texts rows = lines(csv.out);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0], "index,text,label,score");
  EXPECT_TRUE(rows[1].starts_with("0,\"A fine, long \"\"film\"\".\",positive,0.")) << rows[1];
  const json best = objects(run({"classify", "--json", "-m", kClassifier}, how))[1]["labels"][0];
  EXPECT_EQ(rows[2],
            fmt::format("1,bleak,{},{}", best["label"].get<std::string>(), best["score"].get<float>()))
      << "every digit";
  const Result tsv = run({"classify", "--format", "tsv", "--top", "2", "-m", kClassifier}, how);
  EXPECT_EQ(lines(tsv.out).size(), 5u) << "a row for each label";
  EXPECT_EQ(lines(tsv.out)[0], "index\ttext\tlabel\tscore");
  EXPECT_TRUE(lines(tsv.out)[1].starts_with("0\t\"A fine, long \"\"film\"\".\"\t")) << tsv.out;
  EXPECT_EQ(run({"classify", "--format", "json", "-m", kClassifier}, how).out,
            run({"classify", "--json", "-m", kClassifier}, how).out);
  EXPECT_EQ(run({"classify", "--format", "csv", "--json", "-m", kClassifier}, how).code, 2);
  EXPECT_EQ(run({"classify", "--format", "xml", "-m", kClassifier}, how).code, 2);
}

TEST(TableOutput, OfEveryCommandHasItsColumns) {
  const Texts pair = lines(run({"pair", "--format", "csv", "-m", kClassifier, "a", "b"}).out);
  ASSERT_EQ(pair.size(), 2u);
  EXPECT_EQ(pair[0], "index,a,b,label,score");
  EXPECT_TRUE(pair[1].starts_with("0,a,b,"));
  const How how{.input = "Anna came to Gothenburg.\n\nIt was raining.\n"};
  const Result tag = run({"tag", "--format", "csv", "-m", kTagger}, how);
  EXPECT_EQ(lines(tag.out)[0], "index,label,score,text,start,end");
  size_t entities = 0;
  for (const json& object : objects(run({"tag", "--json", "-m", kTagger}, how)))
    entities += object["entities"].size();
  EXPECT_EQ(lines(tag.out).size(), 1 + entities) << "a row for each entity";
  EXPECT_GT(entities, 1u);
  const Texts answer = lines(run({"answer", "--format", "tsv", "-m", kAnswerer, "Who?", "Anna came."}).out);
  ASSERT_EQ(answer.size(), 2u);
  EXPECT_EQ(answer[0], "index\tquestion\tanswer\tscore\tstart\tend");
  const Texts nothing = lines(run({"answer", "--format", "csv", "-m", kAnswerer, "Who?", " "}).out);
  ASSERT_EQ(nothing.size(), 2u) << "a question without an answer has its row";
  EXPECT_EQ(nothing[1], "0,Who?,,,,");
  const Result embed = run({"embed", "--format", "csv", "-m", kClassifier}, {.input = "a\nb\n"});
  const json vector = objects(run({"embed", "--json", "-m", kClassifier}, {.input = "a\n"}))[0]["vector"];
  ASSERT_EQ(lines(embed.out).size(), 3u);
  std::string expected = "0";
  for (const json& number : vector) expected += fmt::format(",{}", number.get<float>());
  EXPECT_EQ(lines(embed.out)[1], expected);
  EXPECT_TRUE(lines(embed.out)[0].starts_with("index,0,1,2,"));
}

TEST(TableOutput, ComesInTheOrderOfTheInputAndLeavesOutWhatFailed) {
  const TemporaryFolder folder;
  const std::string file = folder / "a.csv";
  std::string text = "text,n\n";
  for (size_t i = 0; i < 700; ++i)
    text += i == 300 ? "bad\n" : fmt::format("{},{}\n", std::string(i % 50, 'a') + "x", i);
  write_all(file, text);
  const Result r = run({"classify", "--format", "csv", "-m", kClassifier, "-f", file});
  EXPECT_EQ(r.code, 1);
  const Texts rows = lines(r.out);
  ASSERT_EQ(rows.size(), 700u);
  for (size_t i = 0; i < 699; ++i)
    EXPECT_TRUE(rows[i + 1].starts_with(fmt::format("{},", i < 300 ? i : i + 1))) << rows[i + 1];
}

}  // namespace
