// bertie vocab and bertie prepare, as their users run them.
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

TEST(Prepare, WrongCommandLinesSayWhatToDo) {
  const TemporaryFolder folder;
  write_all(folder / "text", "a\n");
  const std::string text = (folder / "text").string(), out = (folder / "out").string();
  EXPECT_EQ(run({"prepare", "--out", out}).code, 2);
  EXPECT_EQ(run({"prepare", text, "--vocab", text}).code, 2);
  EXPECT_EQ(run({"prepare", text, "--out", out}).code, 2);
  EXPECT_EQ(run({"prepare", text, "--out", out, "--vocab", text, "--held-out", "1.5"}).code, 2);
  EXPECT_EQ(run({"prepare", text, "--out", out, "--vocab", (folder / "none").string()}).code, 1);
  EXPECT_EQ(run({"vocab"}).code, 2);
  EXPECT_EQ(run({"vocab", (folder / "none").string()}).code, 1);
}

}  // namespace
