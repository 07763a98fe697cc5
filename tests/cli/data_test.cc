// bertie vocab and bertie prepare, as their users run them.
#include <sys/resource.h>

#include "bertie/tokenizer.h"
#include "io/packed.h"
#include "program.h"

using namespace bertie::test;

namespace {

std::string some_text() {
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += "The cat sat on the mat. It was number " + std::to_string(i % 17) + ".\nThe end.\n" +
            (i % 3 ? "\n" : "");
  return text;
}

TEST(Vocab, WritesAFolderThatLoads) {
  const TemporaryFolder folder;
  write_all(folder / "text.txt.gz", gzip(some_text()));
  const Result r = run({"vocab", "--size", "60", "--out", (folder / "model/vocab.txt").string(), "--json",
                        (folder / "text.txt.gz").string()});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_LE(json::parse(r.out)["tokens"], 60);
  const bertie::Tokenizer tokenizer = bertie::Tokenizer::load(folder / "model");
  EXPECT_TRUE(tokenizer.lowercase());
  EXPECT_EQ(tokenizer.pad_id(), 0);
  EXPECT_EQ(tokenizer.mask_id(), 4);
  EXPECT_TRUE(tokenizer.id("the").has_value());
  const Result cased = run({"vocab", "--cased", "--out", (folder / "cased/vocab.txt").string(),
                            (folder / "text.txt.gz").string()});
  ASSERT_EQ(cased.code, 0) << cased.err;
  EXPECT_FALSE(bertie::Tokenizer::load(folder / "cased").lowercase());
  EXPECT_TRUE(bertie::Tokenizer::load(folder / "cased").id("The").has_value());
}

TEST(Prepare, MakesShardsAndSaysWhatIsInThem) {
  const TemporaryFolder folder;
  write_all(folder / "text", some_text());
  ASSERT_EQ(
      run({"vocab", "--size", "60", "--out", (folder / "v/vocab.txt").string(), (folder / "text").string()})
          .code,
      0);
  const std::string vocab = (folder / "v/vocab.txt").string(), out = (folder / "shards").string();
  const Result r = run(
      {"prepare", "--vocab", vocab, "--held-out", "0.2", "--out", out, "--json", (folder / "text").string()});
  ASSERT_EQ(r.code, 0) << r.err;
  const json report = json::parse(r.out);
  EXPECT_EQ(report["train"]["documents"].get<int>() + report["held_out"]["documents"].get<int>(), 200);
  EXPECT_GT(report["held_out"]["documents"].get<int>(), 10);
  EXPECT_TRUE(fs::exists(folder / "shards/train-00000.tokens"));
  EXPECT_TRUE(json::parse(read_all(folder / "shards/shards.json"))["complete"]);
  // Standard input, JSON lines; and again, which has nothing left to do.
  write_all(folder / "lines", "{\"body\": \"The cat. It sat.\"}\n{\"body\": \"The end.\"}\n");
  const std::vector<std::string> command = {
      "prepare", "--vocab", vocab, "--field", "body", "--out", (folder / "two").string(), "-"};
  const Result piped = run(command, {.input = read_all(folder / "lines")});
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_NE(piped.out.find("2 documents, 3 sentences"), std::string::npos) << piped.out;
  EXPECT_NE(run(command, {.input = read_all(folder / "lines")}).out.find("went on after 1 shard"),
            std::string::npos);
}

TEST(Vocab, ReplacesNothingUnlessToldTo) {
  const TemporaryFolder folder;
  write_all(folder / "text", some_text());
  std::vector<std::string> command = {
      "vocab", "--size", "60", "--out", (folder / "vocab.txt").string(), (folder / "text").string()};
  write_all(folder / "tokenizer_config.json", "{\"do_lower_case\": false}");
  EXPECT_NE(run(command).err.find("of another tokenizer"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "vocab.txt"));
  fs::remove(folder / "tokenizer_config.json");
  ASSERT_EQ(run(command).code, 0);
  write_all(folder / "vocab.txt", "mine");
  EXPECT_EQ(run(command).code, 1);
  EXPECT_EQ(read_all(folder / "vocab.txt"), "mine");
  command.push_back("--force");
  EXPECT_EQ(run(command).code, 0);
  EXPECT_NE(read_all(folder / "vocab.txt"), "mine");
}

TEST(Vocab, IsNeverLargerThanAskedFor) {
  const TemporaryFolder folder;
  write_all(folder / "text", some_text());
  const Result r =
      run({"vocab", "--size", "10", "--out", (folder / "vocab.txt").string(), (folder / "text").string()});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("the characters of these texts alone are"), std::string::npos) << r.err;
}

TEST(Prepare, TakesTextsAndJsonLinesInOneCommand) {
  // As README has it.
  const TemporaryFolder folder;
  fs::create_directory(folder / "books");
  write_all(folder / "books/a.txt", some_text());
  write_all(folder / "news.jsonl.gz", gzip("{\"text\": \"The cat. It sat.\"}\n"));
  const std::string books = (folder / "books/").string(), news = (folder / "news.jsonl.gz").string(),
                    vocab = (folder / "vocab.txt").string(), out = (folder / "shards").string();
  const Result learned = run({"vocab", books, news, "--field", "text", "--out", vocab});
  ASSERT_EQ(learned.code, 0) << learned.err;
  const Result r = run({"prepare", books, news, "--field", "text", "--vocab", vocab, "--out", out, "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["train"]["documents"], 201);
}

TEST(Prepare, MemoryIsBoundedWhateverTheText) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes several times the memory";
#endif
  // Lines of megabytes whose every character is a token: twelve bytes of numbers each, and more.
  const TemporaryFolder folder;
  std::string text;
  for (int line = 0; line < 6; ++line) text += std::string(4 << 20, '!') + "\n\n";
  write_all(folder / "text", text);
  write_all(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n!\n");
  const Result r = run({"prepare", (folder / "text").string(), "--vocab", (folder / "vocab.txt").string(),
                        "--threads", "8", "--out", (folder / "shards").string(), "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["train"]["tokens"], 6 << 22);
  rusage after{};
  getrusage(RUSAGE_CHILDREN, &after);
  EXPECT_LT(after.ru_maxrss, 300 << 10);  // kB, of the largest child so far
}

TEST(Prepare, TextThatIsNoneIsSaidAndANamedFileThatIsSkippedIsNotSuccess) {
  const TemporaryFolder folder;
  const std::string vocab = (folder / "vocab.txt").string(), binary = (folder / "texts/b.bin").string();
  write_all(vocab, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n.\n");
  fs::create_directory(folder / "texts");
  write_all(folder / "texts/a.txt", "The cat.\n");
  write_all(folder / "latin.txt", "The cat.\nThe caf\xE9.\nNa\xEFve.\n");
  write_all(binary, std::string(100, '\0'));
  const auto prepare = [&](const std::string& out, std::vector<std::string> more) {
    std::vector<std::string> command = {"prepare", "--vocab", vocab, "--out", (folder / out).string()};
    command.insert(command.end(), more.begin(), more.end());
    return run(command);
  };
  const Result found = prepare("found", {(folder / "texts").string()});
  EXPECT_EQ(found.code, 0) << "what is found in a folder may be anything";
  EXPECT_NE(found.err.find("b.bin is skipped: its bytes are no text"), std::string::npos) << found.err;
  const Result latin = prepare("latin", {(folder / "latin.txt").string()});
  EXPECT_EQ(latin.code, 1);
  EXPECT_NE(latin.err.find("latin.txt:2: not valid UTF-8"), std::string::npos) << latin.err;
  EXPECT_NE(latin.out.find("2 lines with bytes that are not UTF-8, or zero (first: "), std::string::npos)
      << latin.out;
  EXPECT_TRUE(fs::exists(folder / "latin/train-00000.tokens"));
  const Result named = prepare("named", {(folder / "latin.txt").string(), binary, "--json", "-q"});
  EXPECT_EQ(named.code, 1);
  EXPECT_EQ(named.err, "");
  EXPECT_EQ(json::parse(named.out)["skipped"], json::array({binary}));
  EXPECT_EQ(json::parse(named.out)["invalid_lines"], 2);
  EXPECT_TRUE(fs::exists(folder / "named/train-00000.tokens"));
  const Result strict = prepare("strict", {(folder / "latin.txt").string(), "--strict"});
  EXPECT_EQ(strict.code, 1);
  EXPECT_NE(strict.err.find("latin.txt:2: not valid UTF-8"), std::string::npos) << strict.err;
  EXPECT_FALSE(fs::exists(folder / "strict/train-00000.tokens"));
  EXPECT_EQ(
      run({"vocab", "--out", (folder / "v.txt").string(), (folder / "texts/a.txt").string(), binary}).code,
      1);
}

TEST(Prepare, OneBadJsonLineIsLeftOutAndTheOthersAreNotLost) {
  const TemporaryFolder folder;
  const std::string vocab = (folder / "vocab.txt").string(), lines = (folder / "a.jsonl").string();
  write_all(vocab, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n.\n");
  write_all(lines, "{\"text\": \"The cat.\"}\n{\"text\": \"The\n{\"body\": \"The\"}\n{\"text\": \"The.\"}\n");
  const auto prepare = [&](const std::string& out, std::vector<std::string> more) {
    more.insert(more.begin(), {"prepare", "--vocab", vocab, "--out", (folder / out).string(), lines});
    return run(more);
  };
  const Result r = prepare("plain", {});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("a.jsonl:2"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("a.jsonl:3: there is no key \"text\"; the line is left out"), std::string::npos)
      << r.err;
  EXPECT_NE(r.out.find("2 documents"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("left out 2 JSON lines (first: " + lines + ":2)"), std::string::npos) << r.out;
  const json report = json::parse(prepare("json", {"--json", "-q"}).out);
  EXPECT_EQ(report["dropped_lines"], 2);
  EXPECT_EQ(report["first_dropped"], lines + ":2");
  EXPECT_EQ(report["train"]["documents"], 2);
  EXPECT_FALSE(fs::exists(folder / "strict/train-00000.tokens"));
  EXPECT_EQ(prepare("strict", {"--strict"}).code, 1);
  EXPECT_EQ(run({"vocab", "--out", (folder / "v.txt").string(), lines}).code, 1);
  EXPECT_TRUE(fs::exists(folder / "v.txt"));
  const Result wrong = prepare("wrong", {"--field", "title"});
  EXPECT_EQ(wrong.code, 2) << "not one line has it";
  EXPECT_NE(wrong.err.find("--field is the key that has the text"), std::string::npos) << wrong.err;
}

// No command writes over what it reads, or over a file that it did not make.
TEST(Prepare, LeavesAShardsJsonOfAnothersAndItsInputsAlone) {
  const TemporaryFolder folder;
  const std::string vocab = (folder / "vocab.txt").string(), mine = (folder / "data/shards.json").string();
  write_all(vocab, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n.\n");
  write_all(folder / "text.txt", "The cat.\n");
  fs::create_directory(folder / "data");
  const std::string lines = "{\"text\": \"The cat.\"}\n";
  write_all(mine, lines);
  const auto prepare = [&](const std::string& from, std::vector<std::string> more) {
    more.insert(more.begin(), {"prepare", from, "--vocab", vocab, "--out", (folder / "data").string()});
    return run(more);
  };
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--force"}}) {
    const Result r = prepare(mine, more);
    EXPECT_EQ(r.code, 1);
    EXPECT_NE(r.err.find("shards.json would be read and written over"), std::string::npos) << r.err;
    EXPECT_EQ(read_all(mine), lines);
  }
  const Result r = prepare((folder / "text.txt").string(), {});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("shards.json is there already, and is not a list of shards"), std::string::npos)
      << r.err;
  EXPECT_EQ(read_all(mine), lines);
  EXPECT_EQ(prepare((folder / "text.txt").string(), {"--force"}).code, 0);
  EXPECT_EQ(prepare((folder / "text.txt").string(), {}).code, 0) << "it is its own now";
}

TEST(Prepare, WrongCommandLinesSayWhatToDo) {
  const TemporaryFolder folder;
  write_all(folder / "text", "a\n");
  const std::string text = (folder / "text").string(), out = (folder / "out").string();
  EXPECT_EQ(run({"prepare", "--out", out}).code, 2);
  EXPECT_EQ(run({"prepare", text, "--vocab", text}).code, 2);
  EXPECT_EQ(run({"prepare", text, "--out", out}).code, 0) << "with the vocabulary of the embedded model";
  EXPECT_EQ(run({"prepare", text, "--out", out, "--vocab", text, "--held-out", "1.5"}).code, 2);
  EXPECT_EQ(run({"prepare", text, "--out", out, "--vocab", (folder / "none").string()}).code, 1);
  EXPECT_EQ(run({"vocab"}).code, 2);
  EXPECT_EQ(run({"vocab", (folder / "none").string()}).code, 1);
}

}  // namespace
