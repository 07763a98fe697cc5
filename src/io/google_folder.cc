#include "io/google_folder.h"

#include <algorithm>

#include "bertie/error.h"
#include "io/json.h"
#include "io/model_file_names.h"

namespace bertie::io {
namespace {

using Source = ModelFiles::Source;

constexpr std::string_view kGoogleConfigs[] = {"bert_config.json", "albert_config.json"};
constexpr std::string_view kGooglePieces = "30k-clean.model";

class GoogleFolder : public Source {
 public:
  GoogleFolder(std::shared_ptr<const Source> inner, std::string_view config)
      : inner_(std::move(inner)), config_(config) {}

  std::string name_of(std::string_view file) const override { return inner_->name_of(real(file)); }
  bool exists() const override { return inner_->exists(); }
  bool has(std::string_view file) const override {
    return file == kConfigFile || inner_->has(real(file)) ||
           (file == kTokenizerConfigFile && has_vocabulary());
  }
  FileBytes read(std::string_view file) const override {
    if (file == kConfigFile) return owned(config());
    if (file == kTokenizerConfigFile && !inner_->has(file) && has_vocabulary())
      return owned(tokenizer_config());
    return inner_->read(real(file));
  }
  std::vector<std::string> list() const override {
    std::vector<std::string> files = inner_->list();
    std::erase(files, config_);
    for (const std::string_view file : {kConfigFile, kTokenizerConfigFile, kAlbertPiecesFile})
      if (has(file)) files.emplace_back(file);
    std::ranges::sort(files);
    files.erase(std::unique(files.begin(), files.end()), files.end());
    return files;
  }
  std::optional<std::filesystem::path> folder() const override { return inner_->folder(); }

 private:
  // The file that is shown under this name.
  std::string_view real(std::string_view file) const {
    if (file == kConfigFile) return config_;
    return file == kAlbertPiecesFile && !inner_->has(file) ? kGooglePieces : file;
  }
  bool has_vocabulary() const { return inner_->has(kWordPieceFile) && !inner_->has(kTokenizerFile); }

  std::string config() const {
    const std::string name = inner_->name_of(config_);
    const FileBytes file = inner_->read(config_);
    if (const nlohmann::json checked = parse_json(file.text(), name); !checked.is_object())
      throw Error(name + ": there should be an object of keys and values");
    auto json = nlohmann::ordered_json::parse(file.text());
    if (!json.contains("model_type"))
      json["model_type"] = json.contains("num_hidden_groups") ? "albert" : "bert";
    return json.dump(2) + "\n";
  }

  std::string tokenizer_config() const {
    const FileBytes file = inner_->read(kWordPieceFile);
    const std::string_view text = file.text();
    bool capitals = false;
    for (const std::string_view line : {"\nA\n", "\nA\r\n"}) capitals |= text.find(line) != text.npos;
    return capitals ? "{\n  \"do_lower_case\": false\n}\n" : "{\n  \"do_lower_case\": true\n}\n";
  }

  static FileBytes owned(std::string text) {
    auto kept = std::make_shared<const std::string>(std::move(text));
    const std::span<const std::byte> bytes = std::as_bytes(std::span(*kept));
    return {bytes, std::move(kept)};
  }

  std::shared_ptr<const Source> inner_;
  std::string_view config_;  // of kGoogleConfigs
};

}  // namespace

std::shared_ptr<const Source> in_transformers_layout(std::shared_ptr<const Source> source) {
  if (source->has(kConfigFile)) return source;
  for (const std::string_view config : kGoogleConfigs)
    if (source->has(config)) return std::make_shared<GoogleFolder>(std::move(source), config);
  return source;
}

}  // namespace bertie::io
