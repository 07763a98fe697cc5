// Documents out of files: plain, packed, folders, JSON lines; and what is wrong with them.
#include "train/data/corpus.h"

#include <gtest/gtest.h>

#include "io/packed.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using test::expect_error;
using test::TempFolder;
namespace fs = std::filesystem;
using Documents = std::vector<std::string>;

Documents read(const TextOptions& options) {
  Corpus corpus(options);
  Documents all;
  for (std::string document; corpus.next(document);) all.push_back(document);
  EXPECT_TRUE(corpus.total() == 0 || corpus.done() == corpus.total());
  return all;
}
Documents read_text(const TempFolder& folder, std::string_view text) {
  return read({.inputs = {folder.write("text", text).string()}});
}

TEST(Corpus, AnEmptyLineEndsADocumentAndSoDoesTheFile) {
  const TempFolder folder;
  const Documents two = {"One.\nTwo.", "Three."};
  EXPECT_EQ(read_text(folder, "One.\nTwo.\n\nThree.\n"), two);
  EXPECT_EQ(read_text(folder, "\n\n  One.  \nTwo.\n \t \n\n\nThree."), two);
  EXPECT_EQ(read_text(folder, "One.\r\nTwo.\r\n\r\nThree.\r\n"), two);
  EXPECT_EQ(read_text(folder, "\xEF\xBB\xBFOne.\nTwo.\n\nThree.\n"), two);
  EXPECT_EQ(read_text(folder, ""), Documents{});
  EXPECT_EQ(read_text(folder, "\n \n\n"), Documents{});
  const std::string a = folder.write("a", "One.").string(), b = folder.write("b", "Two.").string();
  EXPECT_EQ(read({.inputs = {b, a}}), (Documents{"Two.", "One."}));
}

TEST(Corpus, FoldersAreReadInTheOrderOfTheirNamesAndFilesMayBePacked) {
  const TempFolder folder;
  std::filesystem::create_directories(folder.path() / "b" / "deep");
  folder.write("c.txt.gz", test::gzip("c"));
  folder.write("a.txt.xz", test::xz("a"));
  folder.write("b/2.txt", "b2");
  folder.write("b/deep/1.zst", test::zstd("b1"));
  folder.write("b/.hidden", "no");
  std::filesystem::create_directories(folder.path() / "b" / ".git" / "objects");
  folder.write("b/.git/objects/1.txt", "no");
  EXPECT_EQ(read({.inputs = {folder.path().string()}}), (Documents{"a", "b2", "b1", "c"}));
}

TEST(Corpus, JsonLinesHaveADocumentEach) {
  const TempFolder folder;
  const std::string file = folder
                               .write("lines.jsonl",
                                      "{\"id\": 1, \"meta\": {\"text\": \"no\", \"more\": [1, {\"text\": "
                                      "null}]}, \"text\": \"One.\\n\\n Two. \"}\n"
                                      "\n{\"text\": \"\"}\n{\"text\": \"Three \\u00e9\", \"id\": null}")
                               .string();
  EXPECT_EQ(read({.inputs = {file}, .field = "text"}), (Documents{"One.\nTwo.", "Three é"}));
}

TEST(Corpus, JsonThatIsNotRightIsNamedByItsLine) {
  const TempFolder folder;
  const auto expect = [&](std::string_view line, const std::string& part) {
    const std::string file =
        folder.write("bad.jsonl", "{\"text\": \"fine\"}\n" + std::string(line) + "\n").string();
    const TextOptions strict{.inputs = {file}, .field = "text", .strict = true};
    expect_error("bad.jsonl:2", [&] { read(strict); });
    expect_error(part, [&] { read(strict); });
    TextOptions options{.inputs = {file}};
    std::vector<std::string> warnings;
    options.warning = [&](const std::string& what, const std::string&) { warnings.push_back(what); };
    Corpus corpus(options);
    std::string document;
    EXPECT_TRUE(corpus.next(document));
    EXPECT_EQ(document, "fine");
    EXPECT_FALSE(corpus.next(document));
    EXPECT_EQ(corpus.report().dropped_lines, 1u) << line;
    EXPECT_EQ(corpus.report().first_dropped, file + ":2");
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("bad.jsonl:2"), std::string::npos) << warnings[0];
    EXPECT_NE(warnings[0].find(part), std::string::npos) << warnings[0];
  };
  expect("{\"text\": 5}", "is not a string");
  expect("{\"text\": [\"a\"]}", "is not a string");
  expect("{\"text\": {\"a\": \"b\"}}", "is not a string");
  expect("{\"other\": \"a\"}", "no key \"text\"");
  expect("[\"text\"]", "not a JSON object");
  expect("\"text\"", "not a JSON object");
  expect("7", "not a JSON object");
  expect("{\"text\": \"a", "not valid JSON");
  expect("plain text", "not valid JSON");
  expect("{\"text\": \"caf\xE9\"}", "ill-formed UTF-8");
}

TEST(Corpus, JsonLinesOfWhichNotOneIsGoodAreAnError) {
  const TempFolder folder;
  std::string lines;
  for (int i = 0; i < 3; ++i) lines += "{\"body\": \"One.\"}\n";
  const std::string file = folder.write("a.jsonl", lines).string();
  expect_error("a.jsonl:1: there is no key \"text\"", [&] { read({.inputs = {file}}); });
  // It is not read to its end for that.
  while (lines.size() < 1'000'000) lines += lines;
  const TextOptions options{.inputs = {folder.write("b.jsonl", lines).string()}};
  Corpus corpus(options);
  std::string document;
  expect_error("b.jsonl:1: there is no key \"text\"", [&] { corpus.next(document); });
  EXPECT_EQ(corpus.report().dropped_lines, 1000u);
}

TEST(Corpus, OfManyBadJsonLinesTheFirstTenAreNamedAndAllAreCounted) {
  const TempFolder folder;
  std::string lines = "{\"text\": \"One.\"}\n";
  for (int i = 0; i < 1500; ++i) lines += "{\n";
  size_t warnings = 0;
  const TextOptions options{.inputs = {folder.write("a.jsonl", lines).string()},
                            .warning = [&](const std::string&, const std::string&) { ++warnings; }};
  Corpus corpus(options);
  for (std::string document; corpus.next(document);) EXPECT_EQ(document, "One.");
  EXPECT_EQ(corpus.report().dropped_lines, 1500u);
  EXPECT_EQ(warnings, 10u);
}

TEST(Corpus, LongDocumentsAndLongLinesGoOnAsOthersAndNothingIsLost) {
  const TempFolder folder;
  const auto words_of = [](const Documents& documents) {
    std::string all;
    for (const std::string& d : documents) {
      EXPECT_LE(d.size(), kMaxDocument + kMaxParagraph + 1);
      for (size_t begin = 0; begin < d.size();) {
        const size_t end = std::min(d.find('\n', begin), d.size());
        EXPECT_LE(end - begin, kMaxParagraph);
        begin = end + 1;
      }
      all += d + " ";
    }
    std::replace(all.begin(), all.end(), '\n', ' ');
    return all;
  };
  std::string line;
  for (int i = 0; line.size() < 3 * kMaxDocument; ++i) line += "word" + std::to_string(i) + " ";
  EXPECT_TRUE(words_of(read_text(folder, line)) == line);
  EXPECT_GE(read_text(folder, line).size(), 2u);
  const std::string json = "{\"t\": \"" + line + "\"}";
  const std::string file = folder.write("json.jsonl", json).string();
  EXPECT_TRUE(words_of(read({.inputs = {file}, .field = "t"})) == line);
  std::string lines = line;
  for (size_t i = 40; i < lines.size(); i += 40)
    i = std::min(lines.find(' ', i), lines.size() - 1), lines[i] = '\n';
  EXPECT_TRUE(words_of(read_text(folder, lines)) == line);
  const std::string solid(2 * kMaxDocument + 7, 'x');  // not even a space
  std::string together;
  for (const std::string& d : read_text(folder, solid)) together += d;
  std::erase(together, '\n');
  EXPECT_TRUE(together == solid);
  // A long paragraph is cut after a sentence.
  std::string sentences;
  while (sentences.size() <= kMaxParagraph) sentences += "This is a sentence of six words. ";
  const Documents cut = read_text(folder, sentences);
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_EQ(cut[0][cut[0].find('\n') - 1], '.');
}

TEST(Corpus, AFilesNameTellsWhetherItIsJsonLines) {
  for (const char* name : {"a.jsonl", "a.json", "a.ndjson", "a.jsonl.gz", "b/a.json.xz", "a.b.ndjson.zst"})
    EXPECT_TRUE(is_json_lines(name)) << name;
  for (const char* name : {"a.txt", "a", "jsonl", "a.jsonl.txt", "a.json.gz.txt", "a.gz", "-"})
    EXPECT_FALSE(is_json_lines(name)) << name;
  const TempFolder folder;
  const std::string text = folder.write("a.txt", "One.").string();
  const std::string json = folder.write("b.jsonl.gz", test::gzip("{\"text\": \"Two.\"}\n")).string();
  const Documents both = {"One.", "Two."};
  EXPECT_EQ(read({.inputs = {text, json}, .field = "text"}), both);
  EXPECT_EQ(read({.inputs = {folder.path().string()}}), both);
  expect_error("`field` is for JSON lines", [&] { read({.inputs = {text}, .field = "text"}); });
}

TEST(Corpus, WarnsOnceOfTextThatLooksLikeJsonAndOfEveryFileThatIsNoText) {
  const TempFolder folder;
  folder.write("a.txt", "{\"text\": \"One.\"}");
  folder.write("b.txt", "\n {\"text\": \"Two.\"}");
  folder.write("c.bin", std::string(200, '\0') + "ELF");
  folder.write("d.txt", "Four {\"");
  folder.write("e.bin", std::string_view("\0", 1));
  std::vector<std::string> warnings;
  const Documents read_ones =
      read({.inputs = {folder.path().string()},
            .warning = [&](const std::string& what, const std::string&) { warnings.push_back(what); }});
  EXPECT_EQ(read_ones, (Documents{"{\"text\": \"One.\"}", "{\"text\": \"Two.\"}", "Four {\""}));
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_NE(warnings[0].find("a.txt looks like JSON lines"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[1].find("c.bin is skipped"), std::string::npos) << warnings[1];
  EXPECT_NE(warnings[2].find("e.bin is skipped"), std::string::npos) << warnings[2];
}

// A text in UTF-16, or a picture, which has all bytes equally often.
TEST(Corpus, FilesThatAreNoTextAreKnownByTheirBytes) {
  const TempFolder folder;
  std::string picture = "JFIF", marked = "\xFF\xFE", plain;
  for (int i = 0; i < 5000; ++i) picture += char(i * 7919 >> 3);
  for (const char c : std::string("Hello, this is a text."))
    marked += c, marked += '\0', plain += c, plain += '\0';
  for (const std::string& bytes : {picture, marked, plain, std::string("\xFE\xFF\x4F\x60")}) {
    const TextOptions options{.inputs = {folder.write("a", bytes).string()}};
    Corpus corpus(options);
    std::string document;
    EXPECT_FALSE(corpus.next(document)) << bytes.substr(0, 10);
    EXPECT_EQ(corpus.report().skipped.size(), 1u);
  }
}

// Wherever in the file it is.
TEST(Corpus, AZeroByteInATextIsABadByteOfItsLineAlone) {
  const TempFolder folder;
  std::string text = "One.\n\nTw";
  text += '\0';
  text += "o.\n\n";
  while (text.size() < 400'000) text += "Three.\n";
  text += "\nFo";
  text += '\0';
  text += "ur.\n";
  TextOptions options{.inputs = {folder.write("a.txt", text).string()}};
  Corpus corpus(options);
  Documents all;
  for (std::string document; corpus.next(document);) all.push_back(document);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0], "One.");
  EXPECT_EQ(all[1], "Tw\xEF\xBF\xBDo.");
  EXPECT_EQ(all[3], "Fo\xEF\xBF\xBDur.");
  EXPECT_TRUE(corpus.report().skipped.empty());
  EXPECT_EQ(corpus.report().invalid_lines, 2u);
  EXPECT_EQ(corpus.report().first_invalid, options.inputs[0] + ":3");
  options.strict = true;
  expect_error("a.txt:3: a zero byte", [&] { read(options); });
  const std::string json = folder.write("a.jsonl", "{\"text\": \"a\\u0000b\"}").string();
  EXPECT_EQ(read({.inputs = {json}}), Documents{"a\xEF\xBF\xBD"
                                                "b"});
}

TEST(Corpus, SkippedFilesAreInTheReport) {
  const TempFolder folder;
  fs::create_directory(folder.path() / "texts");
  folder.write("texts/a.bin", std::string(100, '\0'));
  folder.write("texts/b.txt", "One.");
  const std::string named = folder.write("c.bin", std::string_view("\0", 1)).string();
  TextOptions options{.inputs = {(folder.path() / "texts").string(), named}};
  Corpus corpus(options);
  for (std::string document; corpus.next(document);) EXPECT_EQ(document, "One.");
  ASSERT_EQ(corpus.report().skipped.size(), 2u);
  EXPECT_EQ(corpus.report().skipped[0].path, (folder.path() / "texts/a.bin").string());
  EXPECT_FALSE(corpus.report().skipped[0].named);
  EXPECT_EQ(corpus.report().skipped[1].path, named);
  EXPECT_TRUE(corpus.report().skipped[1].named);
  options.strict = true;
  expect_error("a.bin: its bytes are no text", [&] { read(options); });
}

TEST(Corpus, LinesThatAreNotUtf8AreCountedAndTheFirstIsNamed) {
  const TempFolder folder;
  const std::string good = folder.write("a.txt", "Caf\xC3\xA9.\n\xEF\xBF\xBD\n").string(),
                    latin = folder.write("b.txt", "One.\n\nCaf\xE9.\nNa\xEFve caf\xE9.\nTwo.").string();
  std::vector<std::string> warnings;
  TextOptions options{.inputs = {good, latin}, .warning = [&](const std::string& what, const std::string&) {
                        warnings.push_back(what);
                      }};
  Corpus corpus(options);
  Documents all;
  for (std::string document; corpus.next(document);) all.push_back(document);
  EXPECT_EQ(all.back(), "Caf\xE9.\nNa\xEFve caf\xE9.\nTwo.") << "the text is used as it is";
  EXPECT_EQ(corpus.report().invalid_lines, 2u);
  EXPECT_EQ(corpus.report().first_invalid, latin + ":3");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("b.txt:3: not valid UTF-8"), std::string::npos) << warnings[0];
  options.strict = true;
  expect_error("b.txt:3: not valid UTF-8", [&] { read(options); });
}

// Cut in pieces, it still is one line; and a cut does not break a character.
TEST(Corpus, ALongLineIsCountedOnce) {
  const TempFolder folder;
  std::string line;
  while (line.size() < 3 * kMaxParagraph) line += "\xC3\xA9";
  TextOptions options{.inputs = {folder.write("a", line + "\n" + line + "\xE9\n\xE9" + line).string()}};
  Corpus corpus(options);
  for (std::string document; corpus.next(document);) {
  }
  EXPECT_EQ(corpus.report().invalid_lines, 2u);
  EXPECT_EQ(corpus.report().first_invalid, options.inputs[0] + ":2");
}

TEST(Corpus, WhatIsNotThereIsAnError) {
  const TempFolder folder;
  expect_error("no such file", [&] { read({.inputs = {(folder.path() / "none").string()}}); });
  expect_error("has no files", [&] { read({.inputs = {folder.path().string()}}); });
}

}  // namespace
}  // namespace bertie
