#pragma once
// Text to shards of tokens: what `bertie prepare` does.
//
// Documents are read in order, split into sentences and tokenized side by side, and written in order, so the
// files are the same bytes for any number of threads. Shards appear whole, one after the other. A run that
// was stopped goes on where its last whole shard ends: it reads the text again (which is fast) and tokenizes
// the rest; a checksum in each shard tells whether the text is still the one it was made from.
//
// Files are made in a folder of its own, .bertie-unfinished, and moved beside the others when they are whole,
// so what a killed run left is known by where it lies. One process at a time prepares in a folder.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "bertie/tokenizer.h"
#include "train/data/corpus.h"
#include "train/data/shard_folder.h"

namespace bertie {

// More threads would wait for the one that reads; and memory is bounded by so many jobs.
inline constexpr int kMostThreads = 32;

struct PrepareOptions {
  CorpusOptions corpus;
  std::filesystem::path out;  // a folder, made where it is missing
  // Copied into the folder, so that Tokenizer::load(out) gives the one that made the shards.
  std::filesystem::path tokenizer;
  bool cased = false;   // `tokenizer` is a vocab.txt of a cased model
  double held_out = 0;  // share of documents, chosen by what is in them, for held-out shards
  size_t shard_bytes = size_t{64} << 20;
  int threads = 0;     // 0: one for every core; kMostThreads at most
  bool force = false;  // begin anew in a folder that has other shards: they go, and so does their tokenizer
  // Now and then: bytes of the files read, and of all (0: unknown), text bytes tokenized.
  std::function<void(uint64_t done, uint64_t total, uint64_t text)> progress = {};
};

struct Prepared {
  PartSummary train, held_out;
  uint64_t tokenized_bytes = 0;  // text that this run tokenized: not what was there already
  size_t kept_shards = 0;        // that were there already
};

// Throws Error.
Prepared prepare(const PrepareOptions& options);

}  // namespace bertie
