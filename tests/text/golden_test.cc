// What the reference said (tests/golden/tokenizer, made by tools/make_tokenizer_golden.py), again here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bertie/tokenizer.h"
#include "support/data.h"
#include "text/generated_text.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Digest;

fs::path golden(const char* file) { return test::source_dir() / "tests/golden/tokenizer" / file; }

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

uint64_t expected_digest(const std::string& name) {
  static const std::map<std::string, uint64_t> all = [] {
    std::map<std::string, uint64_t> map;
    std::ifstream in(golden("digests.txt"));
    std::string key;
    for (uint64_t value; in >> key >> std::hex >> value;) map[key] = value;
    return map;
  }();
  auto it = all.find(name);
  if (it == all.end()) throw std::runtime_error("digests.txt has no " + name);
  return it->second;
}

// Up to `bytes` of what a command prints; nothing if it fails.
std::string output_of(const std::string& command, size_t bytes) {
  std::string out(bytes, '\0');
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return {};
  out.resize(std::fread(out.data(), 1, bytes, pipe));
  pclose(pipe);
  return out;
}

struct Settings {
  int lower, strip;
  TokenizerOptions options() const {
    return {.lowercase = lower != 0, .strip_accents = strip < 0 ? std::nullopt : std::optional(strip != 0)};
  }
  std::string name() const { return "lower=" + std::to_string(lower) + "/strip=" + std::to_string(strip); }
};
constexpr Settings kSettings[] = {{1, -1}, {0, -1}, {1, 0}, {0, 1}};

TEST(TokenizerGolden, EveryCodePointAloneBetweenLettersAndAmongMarks) {
  const std::string vocab = test::every_point_vocab();
  for (const Settings& settings : kSettings) {
    Tokenizer tokenizer = Tokenizer::from_vocab_text(vocab, settings.options());
    Encoding e;
    for (uint32_t plane = 0; plane < 17; ++plane) {
      Digest alone, between, marks;
      for (uint32_t c = plane << 16; c < (plane + 1) << 16; ++c) {
        if (test::is_surrogate(c)) continue;
        auto with_point = [c](std::string before, const char* after) {
          test::append_point(before, c);
          return before += after;
        };
        tokenizer.encode_into(with_point("", ""), {}, e), alone.add(e);
        tokenizer.encode_into(with_point("a", "b"), {}, e), between.add(e);
        tokenizer.encode_into(with_point("\u0301", "\u0323\u0334A"), {}, e), marks.add(e);
      }
      std::string name = "points/" + settings.name(), number = std::to_string(plane);
      EXPECT_EQ(alone.value(), expected_digest(name + "/alone/" + number))
          << settings.name() << " plane " << plane;
      EXPECT_EQ(between.value(), expected_digest(name + "/between/" + number))
          << settings.name() << " plane " << plane;
      EXPECT_EQ(marks.value(), expected_digest(name + "/marks/" + number))
          << settings.name() << " plane " << plane;
    }
  }
}

void expect_generated(const Tokenizer& tokenizer, const std::string& name, uint64_t blocks = 20) {
  Encoding e;
  for (uint64_t block = 0; block < blocks; ++block) {
    Digest digest;
    for (uint64_t i = 0; i < 1000; ++i)
      tokenizer.encode_into(test::generated_text(block * 1000 + i), {}, e), digest.add(e);
    EXPECT_EQ(digest.value(), expected_digest("generated/" + name + "/" + std::to_string(block)))
        << name << " block " << block;
  }
}

TEST(TokenizerGolden, GeneratedTextWithTheCommittedVocabulary) {
  for (const Settings& settings : kSettings)
    expect_generated(Tokenizer::from_vocab(golden("vocab.txt"), settings.options()),
                     "own/" + settings.name());
}

class RealVocabulary : public ::testing::TestWithParam<const char*> {
 protected:
  std::string name() const { return GetParam(); }
  bool bert() const { return name().starts_with("bert"); }
  fs::path path() const { return test::data("vocab/" + name() + (bert() ? "/vocab.txt" : "/vocab.json")); }
  Tokenizer load() const {
    if (!bert()) return Tokenizer::load(path().parent_path());
    return Tokenizer::from_vocab(path(), {.lowercase = name().ends_with("-uncased")});
  }
};
INSTANTIATE_TEST_SUITE_P(TokenizerGolden, RealVocabulary,
                         ::testing::Values("bert-base-uncased", "bert-base-cased", "bert-base-chinese",
                                           "bert-base-multilingual-cased", "roberta-base", "gpt2"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(RealVocabulary, GeneratedText) {
  BERTIE_NEEDS(path());
  expect_generated(load(), name());
}

TEST_P(RealVocabulary, TheBeginningOfEachCorpus) {
  BERTIE_NEEDS(path());
  Tokenizer tokenizer = load();
  for (std::string corpus : {"wiki", "news", "novels"}) {
    fs::path file = test::data("corpus/" + corpus + ".txt.xz");
    BERTIE_NEEDS(file);
    std::string text = output_of("xz -dc '" + file.string() + "'", 1'000'000);
    if (text.size() != 1'000'000) GTEST_SKIP() << "xz could not unpack " << file;
    Digest digest;
    Encoding e;
    for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      tokenizer.encode_into(std::string_view(text).substr(begin, end - begin), {}, e), digest.add(e);
    EXPECT_EQ(digest.value(), expected_digest("corpus/" + name() + "/" + corpus)) << corpus;
  }
}

TEST(TokenizerGolden, PiecesOfEverySquadQuestion) {
  fs::path vocab = test::data("vocab/bert-base-uncased/vocab.txt"), tar = test::data("tasks.tar.xz");
  BERTIE_NEEDS(vocab);
  BERTIE_NEEDS(tar);
  std::string text =
      output_of("tar xJOf '" + tar.string() + "' tasks/refs/squad-question-wordpieces.json", 10'000'000);
  if (text.empty()) GTEST_SKIP() << "tar could not unpack " << tar;
  Tokenizer tokenizer = Tokenizer::from_vocab(vocab);
  json questions = json::parse(text);
  ASSERT_EQ(questions.size(), 10570u);
  for (const json& q : questions) {
    Encoding e = tokenizer.encode(q["original"].get<std::string>(), {.add_special_tokens = false});
    std::vector<std::string> pieces;
    for (int32_t id : e.ids) pieces.emplace_back(tokenizer.token(id));
    ASSERT_EQ(pieces, q["wordpiece"].get<std::vector<std::string>>()) << q["original"];
  }
}

json cases(const char* file) { return json::parse(read(golden(file))); }

void expect_same(const Encoding& e, const json& want, const std::string& what) {
  ASSERT_EQ(e.ids, want["ids"].get<std::vector<int32_t>>()) << what;
  ASSERT_EQ(e.types, want["types"].get<std::vector<int32_t>>()) << what;
  ASSERT_EQ(e.words, want["words"].get<std::vector<int32_t>>()) << what;
  json offsets = json::array();
  for (Offset o : e.offsets) offsets.push_back({o.begin, o.end});
  ASSERT_EQ(offsets, want["offsets"]) << what;
}

std::map<std::string, Tokenizer> tokenizers_of(const json& all) {
  std::map<std::string, Tokenizer> tokenizers;
  for (auto& [name, file] : all["files"].items())
    tokenizers.emplace(name, Tokenizer::from_json_text(file.dump(), name));
  return tokenizers;
}

void expect_cases(const json& all) {
  std::map<std::string, Tokenizer> tokenizers = tokenizers_of(all);
  for (const json& c : all["cases"]) {
    const Tokenizer& tokenizer = tokenizers.at(c["file"]);
    EncodeOptions options{.max_length = c.value("max", kNoLimit),
                          .stride = c.value("stride", size_t{0}),
                          .truncate = Truncate(c.value("truncate", 0)),
                          .add_special_tokens = c.value("add", true),
                          .special_tokens_in_text = !c.value("plain", false)};
    std::string a = c["a"];
    bool pair = c.contains("b") && c["b"].is_string();
    std::string b = pair ? c["b"].get<std::string>() : "";
    Encoding one = pair ? tokenizer.encode(a, b, options) : tokenizer.encode(a, options);
    expect_same(one, c["windows"][0], c.dump());
    auto windows = pair ? tokenizer.encode_windows(a, b, options) : tokenizer.encode_windows(a, options);
    ASSERT_EQ(windows.size(), c.value("count", c["windows"].size())) << c.dump();
    for (size_t i = 0; i < c["windows"].size(); ++i) expect_same(windows[i], c["windows"][i], c.dump());
  }
  for (const json& c : all["decoded"]) {
    const Tokenizer& tokenizer = tokenizers.at(c.value("file", "plain"));
    auto ids = c["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.decode(ids, true), c["skip"].get<std::string>()) << c.dump();
    EXPECT_EQ(tokenizer.decode(ids, false), c["keep"].get<std::string>()) << c.dump();
  }
}

TEST(TokenizerGolden, AddedTokensPairsTruncationWindowsAndDecoding) {
  json all = cases("cases.json");
  ASSERT_GE(all["cases"].size(), 500u);
  expect_cases(all);
}

TEST(TokenizerGolden, EveryKindOfBpe) {
  json all = cases("bpe.json");
  ASSERT_GE(all["files"].size(), 13u);
  ASSERT_GE(all["cases"].size(), 150u);
  expect_cases(all);
  for (const auto& [name, tokenizer] : tokenizers_of(all)) {
    std::string key = name;
    std::replace(key.begin(), key.end(), ' ', '_');
    expect_generated(tokenizer, "bpe/" + key, 1);
  }
}

}  // namespace
}  // namespace bertie
