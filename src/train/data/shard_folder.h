#pragma once
// The folder that bertie::prepare writes and pre-training reads: shards, shards.json, which says whether all
// of them are there and what is in them, and the files of the tokenizer that made them.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "bertie/data.h"
#include "train/data/shard.h"

namespace bertie {

void add(const ShardHeader& header, uint64_t file_bytes, PartSummary& to);

// shards.json.
struct ShardManifest {
  static constexpr const char* kName = "shards.json";

  std::string settings = "{}";                    // a JSON object: what the shards are made from
  std::vector<std::string> tokenizer_files = {};  // that were written for them, and not there before
  bool complete = false;                          // else the parts are not known yet
  PartSummary train = {}, held_out = {};

  const PartSummary& part(Part which) const { return which == Part::kTrain ? train : held_out; }
  std::string text() const;
};
// Error where the file is missing or not as it should be.
ShardManifest read_manifest(const std::filesystem::path& folder);

// All shards of a part, in order, as shards.json counts them. Error, naming what is wrong, where the folder
// is not complete, a shard is missing, renamed, not whole or too many, or of another tokenizer.
std::vector<Shard> open_shards(const std::filesystem::path& folder, const Tokenizer& tokenizer, Part part);

bool is_shard_name(std::string_view name);
bool has_shards(const std::filesystem::path& folder);

// The names of a tokenizer's files that are there.
std::vector<std::string> tokenizer_files_in(const ModelFiles& files);

// The token that ends a text: the tokenizer's own for that, else what ends a sequence; -1: there is none.
int32_t end_of_text(const Tokenizer& tokenizer);

}  // namespace bertie
