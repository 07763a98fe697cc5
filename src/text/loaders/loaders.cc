#include "text/loaders/loaders.h"

#include "bertie/error.h"
#include "io/json.h"
#include "io/model_file_names.h"

namespace bertie::text {

namespace {

// tokenizer_config.json, special_tokens_map.json and added_tokens.json, as far as they exist.
TokenizerConfig read_config(const ModelFiles& files) {
  TokenizerConfig config;
  const auto read = [&](std::string_view file, const auto& use) {
    if (files.has(file)) use(files.read(file).text(), files.name_of(file));
  };
  read(io::kTokenizerConfigFile,
       [&](std::string_view text, const std::string& name) { config = read_tokenizer_config(text, name); });
  if (config.has_added_tokens_decoder) return config;
  read(io::kSpecialTokensFile,
       [&](std::string_view text, const std::string& name) { config.read_special_tokens_map(text, name); });
  read(io::kAddedTokensFile,
       [&](std::string_view text, const std::string& name) { config.read_added_tokens(text, name); });
  return config;
}

// model_type of config.json; empty if there is none.
std::string model_type(const ModelFiles& files) {
  if (!files.has(io::kConfigFile)) return "";
  const std::string name = files.name_of(io::kConfigFile);
  const nlohmann::json root = io::parse_json(files.read(io::kConfigFile).text(), name);
  return root.is_object() ? io::get_string(root, "model_type", name, "") : "";
}

TokenizerParts load_bpe_files(const ModelFiles& files, const TokenizerConfig& config) {
  const FileBytes vocab = files.read(io::kBpeFile), merges = files.read(io::kMergesFile);
  return read_bpe_files({vocab.text(), merges.text(), files.name_of(io::kBpeFile),
                         files.name_of(io::kMergesFile), model_type(files)},
                        config);
}

}  // namespace

std::string find_tokenizer_file(const ModelFiles& files) {
  if (!files.only().empty()) return files.only();
  for (std::string_view name : io::kTokenizerFiles)
    if (files.has(name)) return std::string(name);
  return {};
}

TokenizerParts load_tokenizer(const ModelFiles& files) {
  if (!files.exists())
    throw Error("cannot read " + files.name() + ": No such file or directory",
                "check the path, from the folder you are in");
  const std::string file = find_tokenizer_file(files);
  if (file.empty())
    throw Error(
        files.name() + " holds neither tokenizer.json nor vocab.txt, vocab.json or a SentencePiece model",
        "A model's directory has one of them beside config.json.");
  const TokenizerConfig config = read_config(files);
  if (file == io::kBpeFile || file == io::kMergesFile) return load_bpe_files(files, config);
  const FileBytes bytes = files.read(file);
  const std::string name = files.name_of(file);
  if (file.ends_with(".model"))
    return read_sentence_piece(bytes.text(), name,
                               config.tokenizer_class.empty() ? model_type(files) : config.tokenizer_class,
                               config);
  if (file.ends_with(".json")) return read_tokenizer_json(bytes.text(), name, config);
  return read_vocab_txt(bytes.text(), name, {}, config);
}

}  // namespace bertie::text
