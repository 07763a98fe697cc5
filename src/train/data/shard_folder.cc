#include "train/data/shard_folder.h"

#include <fmt/format.h>

#include <limits>

#include "bertie/error.h"
#include "io/file.h"
#include "io/json.h"
#include "io/model_file_names.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr const char* kMakeAgain =
    "prepare the data again with the same options: that makes what is missing and keeps what is whole";
constexpr const char* kNotShards = "`data` is a folder of prepared shards";

constexpr size_t kMost = std::numeric_limits<int64_t>::max();  // of anything that is counted

// The counts by their names in shards.json.
template <class Summary, class F>
void for_each_count(Summary& part, const F& f) {
  f("shards", part.shards);
  f("documents", part.documents);
  f("sentences", part.sentences);
  f("tokens", part.tokens);
  f("unknown", part.unknown);
  f("text_bytes", part.text_bytes);
  f("file_bytes", part.file_bytes);
}

}  // namespace

void add(const ShardHeader& header, uint64_t file_bytes, PartSummary& to) {
  ++to.shards;
  to.documents += header.documents;
  to.sentences += header.sentences;
  to.tokens += header.tokens;
  to.unknown += header.unknown;
  to.text_bytes += header.text_bytes;
  to.file_bytes += file_bytes;
}

std::string ShardManifest::text() const {
  nlohmann::ordered_json json = {{"settings", nlohmann::ordered_json::parse(settings)},
                                 {"tokenizer_files", tokenizer_files},
                                 {"complete", complete}};
  if (complete)
    for (const auto& [key, part] : {std::pair{"train", &train}, {"held_out", &held_out}})
      for_each_count(*part, [&](const char* name, auto count) { json[key][name] = count; });
  return json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

ShardManifest read_manifest(const fs::path& folder) {
  const std::string name = (folder / ShardManifest::kName).string();
  std::error_code error;
  if (!fs::exists(name, error))
    throw Error(
        fmt::format("{} has no {}, which says what shards there are", folder.string(), ShardManifest::kName),
        kNotShards, "data");
  const nlohmann::json json = io::parse_json(io::MappedFile(name).text(), name);
  if (!json.is_object()) throw Error(fmt::format("{} is not a JSON object", name), kMakeAgain);
  ShardManifest manifest;
  const auto settings = json.find("settings"), complete = json.find("complete");
  if (settings == json.end() || !settings->is_object() || complete == json.end() || !complete->is_boolean())
    throw Error(
        fmt::format("{} does not say what the shards were made from and whether they are complete", name),
        kMakeAgain);
  manifest.settings = settings->dump();
  if (const auto files = json.find("tokenizer_files"); files != json.end() && files->is_array())
    for (const nlohmann::json& file : *files)
      if (file.is_string()) manifest.tokenizer_files.push_back(file.get<std::string>());
  manifest.complete = *complete == true;
  if (!manifest.complete) return manifest;
  for (auto [key, part] : {std::pair{"train", &manifest.train}, {"held_out", &manifest.held_out}}) {
    const auto counts = json.find(key);
    if (counts == json.end() || !counts->is_object())
      throw Error(fmt::format("{} does not say what is in the part {}", name, key), kMakeAgain);
    for_each_count(*part, [&](const char* which, auto& count) {
      count = io::get_size(*counts, which, name, {}, kMost);
    });
  }
  return manifest;
}

std::vector<Shard> open_shards(const fs::path& folder, const Tokenizer& tokenizer, Part part) {
  const char* const part_name = part == Part::kTrain ? "training" : "held-out";
  std::error_code error;
  const auto path_of = [&](size_t index) { return folder / shard_name(part, index); };
  const bool has_manifest = fs::exists(folder / ShardManifest::kName, error);
  if (!has_manifest && !fs::exists(path_of(0), error))
    throw Error(fmt::format("{} has no {} shards", folder.string(), part_name), kNotShards, "data");
  const ShardManifest manifest = read_manifest(folder);
  if (!manifest.complete)
    throw Error(
        fmt::format("{} is not finished: preparing it was stopped, or is still under way", folder.string()),
        kMakeAgain, "data");
  const PartSummary& expected = manifest.part(part);
  if (expected.shards == 0)
    throw Error(fmt::format("{} has no {} shards", folder.string(), part_name),
                part == Part::kTrain ? "prepare the data with a smaller share for `held_out`"
                                     : "prepare the data with `held_out` 0.01",
                "data");
  if (fs::exists(path_of(expected.shards), error))
    throw Error(fmt::format("{} is there, but {} counts {} {} shards", path_of(expected.shards).string(),
                            ShardManifest::kName, expected.shards, part_name),
                "prepare the data again with `force`: that makes all of them anew");

  std::vector<Shard> shards;
  const Fingerprint fingerprint = fingerprint_of(tokenizer);
  uint64_t tokens = 0;
  while (shards.size() < expected.shards) {
    const fs::path path = path_of(shards.size());
    if (!fs::exists(path, error))
      throw Error(fmt::format("{} is missing: {} counts {} {} shards", path.string(), ShardManifest::kName,
                              expected.shards, part_name),
                  kMakeAgain);
    const Shard& shard = shards.emplace_back(path);
    const ShardHeader& h = shard.header();
    if (h.fingerprint != fingerprint || h.vocab_size != tokenizer.vocab_size())
      throw Error(fmt::format("{} was made with another tokenizer than the one given", shard.name()),
                  "the tokenizer in the shards' folder, or prepare the data again with the other one");
    if (h.part != uint32_t(part) || h.index + 1 != shards.size())
      throw Error(fmt::format("{} was another shard when it was written: it was renamed", shard.name()),
                  "prepare the data again");
    if (h.tokens + h.documents > std::numeric_limits<uint32_t>::max())
      throw Error(fmt::format("{} is too large for a shard", shard.name()),
                  "prepare the data again with a smaller `shard_bytes`");
    tokens += h.tokens;
  }
  if (tokens != expected.tokens)
    throw Error(fmt::format("the {} shards of {} have {} tokens, but {} counts {}: one is of another run",
                            part_name, folder.string(), tokens, ShardManifest::kName, expected.tokens),
                "prepare the data again with `force`: that makes all of them anew");
  return shards;
}

bool is_shard_name(std::string_view name) {
  constexpr std::string_view kEnd = ".tokens";
  for (const std::string_view part : {"train-", "held-out-"}) {
    if (!name.starts_with(part) || !name.ends_with(kEnd)) continue;
    const std::string_view number = name.substr(part.size(), name.size() - part.size() - kEnd.size());
    return !number.empty() && number.find_first_not_of("0123456789") == number.npos;
  }
  return false;
}

bool has_shards(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_shard_name(entry.path().filename().string())) return true;
  return false;
}

std::vector<std::string> tokenizer_files_in(const ModelFiles& files) {
  std::vector<std::string> there;
  for (const auto names : {std::span<const std::string_view>(io::kTokenizerFiles),
                           std::span<const std::string_view>(io::kTokenizerCompanions)})
    for (const std::string_view name : names)
      if (files.has(name)) there.emplace_back(name);
  return there;
}

int32_t end_of_text(const Tokenizer& tokenizer) {
  return tokenizer.eos_id() >= 0 ? tokenizer.eos_id() : tokenizer.sep_id();
}

}  // namespace bertie
