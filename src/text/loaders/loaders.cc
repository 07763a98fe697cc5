#include "text/loaders/loaders.h"

#include "bertie/error.h"
#include "io/file.h"
#include "io/json.h"

namespace bertie::text {

namespace fs = std::filesystem;

namespace {

// A file that exists but cannot be read is reported when it is opened.
bool file_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// tokenizer_config.json, special_tokens_map.json and added_tokens.json, as far as they exist.
TokenizerConfig config_beside(const fs::path& file) {
  TokenizerConfig config;
  fs::path path = file.parent_path() / "tokenizer_config.json";
  if (file_exists(path)) config = read_tokenizer_config(io::MappedFile(path).text(), path.string());
  if (config.has_added_tokens_decoder) return config;
  path.replace_filename("special_tokens_map.json");
  if (file_exists(path)) config.read_special_tokens_map(io::MappedFile(path).text(), path.string());
  path.replace_filename("added_tokens.json");
  if (file_exists(path)) config.read_added_tokens(io::MappedFile(path).text(), path.string());
  return config;
}

// model_type of config.json; empty if there is none.
std::string model_type_beside(const fs::path& file) {
  const fs::path path = file.parent_path() / "config.json";
  if (!file_exists(path)) return "";
  const nlohmann::json root = io::parse_json(io::MappedFile(path).text(), path.string());
  return root.is_object() ? io::get_string(root, "model_type", path.string(), "") : "";
}

// `file` is vocab.json or merges.txt; the other must be beside it.
TokenizerParts load_bpe_files(const fs::path& file, const TokenizerConfig& config) {
  fs::path vocab = file, merges = file;
  vocab.replace_filename("vocab.json"), merges.replace_filename("merges.txt");
  const io::MappedFile vocab_file(vocab), merges_file(merges);
  return read_bpe_files(
      {vocab_file.text(), merges_file.text(), vocab.string(), merges.string(), model_type_beside(file)},
      config);
}

}  // namespace

fs::path find_tokenizer_file(const fs::path& directory) {
  for (const char* name :
       {"tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model"})
    if (file_exists(directory / name)) return directory / name;
  return {};
}

TokenizerParts load_tokenizer(const fs::path& path) {
  fs::path file = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    file = find_tokenizer_file(path);
    if (file.empty())
      throw Error(
          path.string() + " holds neither tokenizer.json nor vocab.txt, vocab.json or a SentencePiece model",
          "A model's directory has one of them beside config.json.");
  }
  const TokenizerConfig config = config_beside(file);
  if (file.filename() == "vocab.json" || file.filename() == "merges.txt") return load_bpe_files(file, config);
  const io::MappedFile mapped(file);
  if (file.extension() == ".model")
    return read_sentence_piece(
        mapped.text(), file.string(),
        config.tokenizer_class.empty() ? model_type_beside(file) : config.tokenizer_class, config);
  if (file.extension() == ".json") return read_tokenizer_json(mapped.text(), file.string(), config);
  return read_vocab_txt(mapped.text(), file.string(), {}, config);
}

}  // namespace bertie::text
