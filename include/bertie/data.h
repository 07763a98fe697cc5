#pragma once
// From text to what pre-training reads: a vocabulary, and shards of tokens (docs/data.md).
//
//   bertie::learn_vocabulary({.texts = {.inputs = {"texts/"}}, .out = "vocab/vocab.txt"});
//   bertie::prepare({.texts = {.inputs = {"texts/"}}, .out = "shards", .tokenizer = "vocab", .held_out =
//   0.01});
//
// Both give the same result for any number of threads, and throw Error.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bertie/export.h"
#include "bertie/files.h"

namespace bertie {

// Which texts, and how to read them. A line is a paragraph; an empty line ends a document. Files named
// .jsonl, .json or .ndjson hold a JSON object a line instead, each with a document under `field`.
struct TextOptions {
  // Files, folders (all files in them but hidden ones, in the order of their names), or "-": standard input.
  std::vector<std::string> inputs = {};
  std::string field = {};  // key of JSON lines; empty: "text". Given, it makes standard input JSON lines
  // Error for a bad line and for a file that is no text. Otherwise bytes that are not UTF-8, and zero bytes,
  // are read as U+FFFD; JSON lines that are broken or have no string under `field` are left out; files that
  // are no text are skipped; and all that is reported to `warning` and in TextReport. Still an Error: not one
  // JSON line that is good, of all or of the first 1000.
  bool strict = false;
  std::function<void(const std::string& what, const std::string& hint)> warning = {};
  // Now and then: bytes of the files read, bytes of all of them (0: unknown), bytes of text used.
  std::function<void(uint64_t done, uint64_t total, uint64_t text)> progress = {};
};

// What was wrong with the texts.
struct TextReport {
  struct SkippedFile {
    std::string path;
    bool named;  // in TextOptions::inputs, not found in a folder
  };
  std::vector<SkippedFile> skipped = {};  // files that are no text, or text in UTF-16
  uint64_t invalid_lines = 0;             // lines that are not valid UTF-8 or have zero bytes
  std::string first_invalid = {};         // where the first is: "news.txt:7"
  uint64_t dropped_lines = 0;             // JSON lines that were left out
  std::string first_dropped = {};
};

struct VocabularyOptions {
  TextOptions texts = {};
  // vocab.txt to write, with a tokenizer_config.json beside it, as Tokenizer::load and transformers read
  // them; empty: nothing is written.
  std::filesystem::path out = {};
  bool force = false;            // replace files that are there; otherwise that is an Error
  size_t size = 30522;           // tokens, at most; Error where the characters alone are more
  uint64_t min_frequency = 2;    // join two pieces that stand together at least this often
  size_t alphabet_limit = 1000;  // characters to keep, the most frequent ones
  bool lowercase = true;         // and without accents
  // Instead of learning: of this model's WordPiece vocabulary the tokens that the texts need most, and the
  // characters in them. `lowercase`, min_frequency and alphabet_limit are not looked at.
  std::optional<ModelFiles> from = {};
  int threads = 0;                     // 0: one for every core
  size_t max_words = size_t{1} << 23;  // different ones in memory (some 0.5 GB); then the rarest are dropped
};

struct LearnedVocabulary {
  std::vector<std::string> tokens = {};  // by id
  uint64_t text_bytes = 0, words = 0;
  size_t different_words = 0;
  uint64_t dropped_below = 0;  // words seen less often than this may be missing from the counts; 0: none are
  TextReport texts = {};
};

// A WordPiece vocabulary.
BERTIE_API LearnedVocabulary learn_vocabulary(const VocabularyOptions& options);

struct PrepareOptions {
  TextOptions texts = {};
  std::filesystem::path out = {};  // a folder, made where it is missing
  // A tokenizer's file or folder. Copied into `out`, so that Tokenizer::load(out) gives the same one.
  ModelFiles tokenizer = std::filesystem::path();
  bool cased = false;   // `tokenizer` is a vocab.txt of a cased model
  double held_out = 0;  // share of documents for evaluation, in shards of their own; chosen by their content
  size_t shard_bytes = size_t{64} << 20;  // size at which a shard is full
  int threads = 0;                        // 0: one for every core; never more than 32
  bool force = false;  // start over in a folder that has other shards: they and their tokenizer are removed
};

// What the shards of the training or the held-out part hold together.
struct PartSummary {
  size_t shards = 0;
  uint64_t documents = 0, sentences = 0, tokens = 0, unknown = 0, text_bytes = 0, file_bytes = 0;
};

struct Prepared {
  PartSummary train, held_out;
  uint64_t tokenized_bytes = 0;  // of text, by this call: not what is in shards that were there already
  size_t kept_shards = 0;        // that were there already
  TextReport texts = {};
};

// Text to shards of tokens. Called again after it was interrupted, it continues after the last whole shard.
BERTIE_API Prepared prepare(const PrepareOptions& options);

}  // namespace bertie
