// Text to shards: the same bytes for any number of threads and after any number of deaths.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>

#include "bertie/data.h"
#include "core/random.h"
#include "io/folder_lock.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "train/data/shard_folder.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TempFolder;

constexpr const char* kVocab =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\nthe\ncat\nsat\nand\nran\nfar\n##s\n##x\n1\n2\n3\n";

constexpr size_t kTextBytes = 1'600'000;  // four jobs, several shards

// About `bytes` of documents of some lines of some sentences.
std::string some_documents(size_t bytes, uint64_t seed = 1) {
  constexpr const char* kWords[] = {"the", "cat", "cats", "sat", "and",   "ran",
                                    "far", "1",   "2",    "3",   "catxx", "unknown"};
  Random random(seed);
  std::string text;
  while (text.size() < bytes) {
    for (uint32_t lines = 1 + random.below(8); lines > 0; --lines) {
      for (uint32_t sentences = 1 + random.below(5); sentences > 0; --sentences) {
        text += "The";
        for (uint32_t words = random.below(12); words > 0; --words)
          text += fmt::format(" {}", kWords[random.below(12)]);
        text += ". ";
      }
      text += "\n";
    }
    text += "\n";
  }
  return text;
}

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(in), {}};
  }
  return files;
}

class Prepare : public testing::Test {
 protected:
  PrepareOptions options(const std::string& out) const {
    return {.texts = {.inputs = {text_.string()}},
            .out = folder_.path() / out,
            .tokenizer = vocab_,
            .held_out = 0.1,
            .shard_bytes = 150'000,
            .threads = 2};
  }
  TempFolder folder_;
  fs::path text_ = folder_.write("text", some_documents(kTextBytes)),
           vocab_ = folder_.write("vocab.txt", kVocab);
};

TEST_F(Prepare, ShardsHoldTheSentencesOfTheDocuments) {
  folder_.write("text", "The cat sat. The cats ran far.\nAnd 1 ran.\n\nThe end... of [MASK]\n");
  PrepareOptions o = options("out");
  o.held_out = 0;
  const Prepared prepared = prepare(o);
  EXPECT_EQ(prepared.train.documents, 2u);
  EXPECT_EQ(prepared.train.sentences, 4u);
  EXPECT_EQ(prepared.held_out.shards, 0u);
  const Shard shard(o.out / "train-00000.tokens");
  const Tokenizer tokenizer = Tokenizer::load(o.out);  // its files are there
  EXPECT_EQ(shard.header().fingerprint, fingerprint_of(tokenizer));
  std::vector<std::string> sentences;
  for (size_t s = 0; s < 4; ++s) {
    std::vector<int32_t> ids(shard.first_token(s + 1) - shard.first_token(s));
    shard.read(shard.first_token(s), ids.size(), ids.data());
    std::string& text = sentences.emplace_back();
    for (int32_t id : ids) text += fmt::format("{} ", tokenizer.token(id));
  }
  // "[MASK]" in a text is plain text.
  EXPECT_EQ(sentences, (std::vector<std::string>{"the cat sat . ", "the cat ##s ran far . ", "and 1 ran . ",
                                                 "the [UNK] . . . [UNK] [UNK] [UNK] [UNK] "}));
  EXPECT_EQ(shard.first_sentence(1), 3u);
  EXPECT_EQ(prepared.train.unknown, 5u);
}

TEST_F(Prepare, TellsWhatWasWrongWithTheTexts) {
  folder_.write("text", "The caf\xE9 sat.\n");
  PrepareOptions o = options("out");
  o.held_out = 0;
  o.texts.inputs.push_back(folder_.write("binary", std::string(100, '\0')).string());
  const Prepared prepared = prepare(o);
  EXPECT_EQ(prepared.train.documents, 1u);
  EXPECT_EQ(prepared.texts.invalid_lines, 1u);
  EXPECT_EQ(prepared.texts.first_invalid, text_.string() + ":1");
  ASSERT_EQ(prepared.texts.skipped.size(), 1u);
  EXPECT_TRUE(prepared.texts.skipped[0].named);
  o.texts.strict = true, o.out = folder_.path() / "strict";
  expect_error("not valid UTF-8", [&] { prepare(o); });
}

TEST_F(Prepare, ThreadsMakeNoDifference) {
  const Prepared one = prepare(options("a"));
  EXPECT_GE(one.train.shards, 3u);
  EXPECT_EQ(one.kept_shards, 0u);
  PrepareOptions other = options("b");
  for (const int threads : {1, 3, 8}) {
    other.threads = threads;
    other.force = true;
    prepare(other);
    EXPECT_TRUE(files_in(folder_.path() / "a") == files_in(other.out)) << threads;
  }
}

TEST_F(Prepare, AKilledRunGoesOnToTheSameBytes) {
  const PrepareOptions whole = options("whole");
  prepare(whole);
  const auto expected = files_in(whole.out);
  size_t kept_some = 0;
  Random random(5);
  for (int round = 0; round < 6; ++round) {
    PrepareOptions o = options(fmt::format("killed{}", round));
    // Killed up to three times, at some moment of the reading or at any moment.
    for (int death = 0; death < 3; ++death) {
      const bool by_itself = round % 2 == 0;
      const uint32_t calls = 1 + random.below(5), microseconds = random.below(40'000);
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        uint32_t seen = 0;
        if (by_itself)
          o.texts.progress = [&](uint64_t, uint64_t, uint64_t) {
            if (++seen == calls) raise(SIGKILL);
          };
        try {
          prepare(o);
        } catch (...) {
          _exit(1);
        }
        _exit(0);
      }
      if (!by_itself) {
        usleep(microseconds);
        kill(child, SIGKILL);
      }
      int status = 0;
      waitpid(child, &status, 0);
      ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    }
    const Prepared last = prepare(o);
    kept_some += last.kept_shards > 0;
    ASSERT_TRUE(files_in(o.out) == expected) << round;
  }
  EXPECT_GT(kept_some, 0u);
}

TEST_F(Prepare, ADamagedOrMissingShardIsMadeAgain) {
  const PrepareOptions o = options("out");
  const size_t held_out = prepare(o).held_out.shards;
  const auto expected = files_in(o.out);
  fs::resize_file(o.out / "train-00001.tokens", 1000);
  EXPECT_EQ(prepare(o).kept_shards, 1 + held_out);
  EXPECT_TRUE(files_in(o.out) == expected);
  fs::remove(o.out / "train-00000.tokens");
  EXPECT_EQ(prepare(o).kept_shards, held_out);
  EXPECT_TRUE(files_in(o.out) == expected);
  const Prepared again = prepare(o);
  EXPECT_EQ(again.tokenized_bytes, 0u);
  EXPECT_EQ(again.kept_shards, again.train.shards + again.held_out.shards);
  EXPECT_TRUE(files_in(o.out) == expected);
}

TEST_F(Prepare, TheHeldOutPartIsAShareOfTheDocumentsAndSharesNoneWithTheOther) {
  const PrepareOptions o = options("out");
  const Prepared prepared = prepare(o);
  const double all = double(prepared.train.documents + prepared.held_out.documents);
  EXPECT_NEAR(double(prepared.held_out.documents) / all, 0.1, 4 * std::sqrt(0.09 / all));
  EXPECT_GE(prepared.held_out.shards, 1u);
  // The same text twice: its copies are on the same side.
  const std::string text = some_documents(200'000, 9);
  folder_.write("text", text + text);
  const Prepared twice = prepare(options("twice"));
  folder_.write("text", text);
  const Prepared once = prepare(options("once"));
  EXPECT_EQ(twice.held_out.documents, 2 * once.held_out.documents);
  EXPECT_EQ(twice.train.tokens, 2 * once.train.tokens);
}

TEST_F(Prepare, AnotherTextOrTokenizerIsNotMixedIn) {
  PrepareOptions o = options("out");
  prepare(o);
  std::string text = some_documents(kTextBytes);
  text[text.find("sat")] = 'r';  // as long as before, but another
  folder_.write("text", text);
  expect_error("another text", [&] { prepare(o); });
  folder_.write("text", text + "The end.\n");
  expect_error("other texts", [&] { prepare(o); });
  folder_.write("text", some_documents(kTextBytes));
  o.tokenizer = folder_.write("other.txt", std::string(kVocab) + "more\n");
  expect_error("another tokenizer", [&] { prepare(o); });
  o.force = true;
  EXPECT_EQ(prepare(o).kept_shards, 0u);
}

TEST_F(Prepare, WhatIsNotItsOwnStays) {
  const PrepareOptions o = options("out");
  fs::create_directories(o.out / ".bertie-unfinished");
  for (const char* mine : {"vocab.txt.backup", "shards.json.backup", "train-00000.tokens.123456"})
    folder_.write(fmt::format("out/{}", mine), "mine");
  folder_.write("out/.bertie-unfinished/train-00000.tokens.abcdef", "of a killed run");
  prepare(o);
  const auto files = files_in(o.out);
  EXPECT_EQ(files.at("vocab.txt.backup"), "mine");
  EXPECT_EQ(files.at("shards.json.backup"), "mine");
  EXPECT_EQ(files.at("train-00000.tokens.123456"), "mine");
  EXPECT_FALSE(fs::exists(o.out / ".bertie-unfinished"));
}

TEST_F(Prepare, AFailedFirstRunDoesNotStandInTheWay) {
  PrepareOptions o = options("out");
  o.held_out = 0;
  o.texts.inputs = {folder_.write("text.jsonl", "{\"text\": \"The cat sat.\"}\n").string()};
  o.texts.field = "body";
  expect_error("no key \"body\"", [&] { prepare(o); });
  o.texts.field = "text";
  EXPECT_EQ(prepare(o).train.documents, 1u);
  o.texts.field = {};
  expect_error("other settings", [&] { prepare(o); });
}

TEST_F(Prepare, AnotherTokenizersFilesAreNotLeftBesideTheShards) {
  folder_.write("text", "The cat sat.\n");
  PrepareOptions o = options("out");
  o.held_out = 0;
  fs::create_directories(o.out);
  folder_.write("out/tokenizer.json",
                R"({"normalizer": {"type": "BertNormalizer", "lowercase": true},
                    "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "cat": 1}}})");
  for (const bool force : {false, true}) {  // it is not prepare's own
    o.force = force;
    expect_error("has files of another tokenizer, such as tokenizer.json", [&] { prepare(o); });
    EXPECT_TRUE(fs::exists(o.out / "tokenizer.json"));
  }
  fs::remove(o.out / "tokenizer.json");
  prepare(o);
  const ModelFiles given =
      std::exchange(o.tokenizer, folder_.write("other.txt", std::string(kVocab) + "more\n"));
  prepare(o);  // what an earlier run wrote, it may replace
  o.tokenizer = given;
  prepare(o);
  // The one that was given is not removed, wherever it lies.
  o.tokenizer = o.out / "vocab.txt";
  prepare(o);
  EXPECT_TRUE(fs::exists(o.out / "vocab.txt"));
}

TEST_F(Prepare, OneProcessAtATime) {
  folder_.write("text", "The cat sat.\n");
  const PrepareOptions o = options("out");
  fs::create_directories(o.out);
  const io::FolderLock other(o.out);
  expect_error("another process prepares data", [&] { prepare(o); });
}

TEST_F(Prepare, SaysWhatIsWrong) {
  PrepareOptions o = options("out");
  folder_.write("text", "\n\n");
  expect_error("no text", [&] { prepare(o); });
  o.tokenizer = folder_.path() / "none";
  expect_error("none", [&] { prepare(o); });
  PrepareOptions onto_a_file = options("vocab.txt");
  expect_error("vocab.txt", [&] { prepare(onto_a_file); });
}

TEST_F(Prepare, ByteLevelPiecesKeepTheirSpaces) {
  // Sentences are cut out of the tokens of their paragraph: the second begins with a space.
  folder_.write("vocab.json", R"({"A":0,"B":1,"!":2,"ĠB":3,"Ġ":4,"<|endoftext|>":5})");
  folder_.write("merges.txt", "#version: 0.2\nĠ B\n");
  folder_.write("text", "A! B! A\n");
  PrepareOptions o = options("out");
  o.held_out = 0;
  o.tokenizer = folder_.path() / "vocab.json";
  prepare(o);
  const Shard shard(o.out / "train-00000.tokens");
  ASSERT_EQ(shard.header().sentences, 3u);
  std::vector<int32_t> ids(size_t(shard.header().tokens));
  shard.read(0, ids.size(), ids.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 2, 3, 2, 4, 0}));
  EXPECT_EQ(shard.first_token(1), 2u);
  EXPECT_EQ(Tokenizer::load(o.out).kind(), "BPE");
}

}  // namespace
}  // namespace bertie
