// bertie info
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "bertie/model.h"
#include "bertie/transformer.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "io/json.h"
#include "model/transformer_weights.h"
#include "model/weights.h"
#include "tasks/modules.h"

namespace bertie::cli {
namespace {

namespace fs = std::filesystem;

std::string pooling_text(const Pooling& pooling) {
  std::vector<std::string_view> parts;
  if (pooling.cls) parts.push_back("cls");
  if (pooling.mean) parts.push_back("mean");
  if (pooling.max) parts.push_back("max");
  if (pooling.mean_sqrt_length) parts.push_back("mean_sqrt_length");
  return fmt::format("{}", fmt::join(parts, "+"));
}

struct File {
  std::string name;
  size_t bytes;
};

// The files that Bertie reads, those of the directory that are there.
std::vector<File> files_of(const fs::path& directory) {
  std::vector<File> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    const std::string extension = entry.path().extension().string();  // README.md and pickles are not
    const bool ours = extension == ".safetensors" || extension == ".json" || extension == ".model" ||
                      name == "vocab.txt" || name == "merges.txt";
    if (ours && entry.is_regular_file()) files.push_back({name, size_t(entry.file_size())});
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.bytes > b.bytes; });
  return files;
}

std::string title_of(const Settings& named, const fs::path& directory) {
  const bool by_name =
      named.model && directory != *named.model;  // a snapshot's folder is called by its commit
  return printable(by_name ? *named.model
                   : directory.lexically_normal().filename().empty()
                       ? directory.parent_path().filename().string()
                       : directory.filename().string());
}

// What is said of every model's files.
class Stored {
 public:
  Stored(const fs::path& directory, const io::SafeTensors& tensors) : files_(files_of(directory)) {
    for (const io::TensorInfo& tensor : tensors.tensors())
      numbers_[io::name_of(tensor.dtype)] += tensor.elements();
  }
  void add_to(nlohmann::ordered_json& out) const {
    out["stored"] = out["files"] = nlohmann::ordered_json::object();
    for (const auto& [dtype, count] : numbers_) out["stored"][std::string(dtype)] = count;
    for (const File& file : files_) out["files"][file.name] = file.bytes;
  }
  std::string types() const {
    std::vector<std::string> dtypes;
    for (const auto& [dtype, count] : numbers_)
      dtypes.push_back(fmt::format("{} ({} numbers)", dtype, with_commas(count)));
    return fmt::format("{}", fmt::join(dtypes, ", "));
  }
  void print_files(const auto& row) const {
    for (size_t i = 0; i < files_.size(); ++i)
      row(i == 0 ? "files" : "",
          fmt::format("{:>10}  {}", size_text(files_[i].bytes), printable(files_[i].name)));
  }

 private:
  std::vector<File> files_;
  std::map<std::string_view, size_t> numbers_;  // of each type
};

void print_json(const nlohmann::ordered_json& out) {
  print("{}\n", out.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
}

void print_row(const Style& style, std::string_view name, const std::string& value) {
  print("  {} {}\n", style.dim(pad(name, 12)), value);
}

int transformer_info(const Settings& settings, const fs::path& directory) {
  const Transformer model = Transformer::load(directory);
  const TransformerConfig& c = model.config();
  const TransformerWeights& w = model.weights();
  const Stored stored(directory, w.files);
  const size_t memory = w.memory.size() + w.position_memory.size() + w.word.data.size();
  if (settings.json) {
    nlohmann::ordered_json out = {
        {"family", "marian"},
        {"kind", "encoder-decoder"},
        {"encoder", {{"layers", c.encoder_layers}, {"heads", c.encoder_heads}, {"ffn", c.encoder_ffn}}},
        {"decoder", {{"layers", c.decoder_layers}, {"heads", c.decoder_heads}, {"ffn", c.decoder_ffn}}},
        {"hidden", c.hidden},
        {"activation", c.activation},
        {"vocabulary", c.vocabulary},
        {"positions", c.positions},
        {"parameters", model.parameters()},
        {"stored", nullptr},
        {"files", nullptr},
        {"memory", {{"weights_bytes", memory}}},
    };
    stored.add_to(out);
    return print_json(out), 0;
  }
  const Style style = Style::for_output();
  const auto row = [&](std::string_view name, const std::string& value) { print_row(style, name, value); };
  const auto side = [&](size_t layers, size_t heads, size_t ffn) {
    return fmt::format("{} layers × {} hidden × {} heads, feed-forward {} ({})", layers, c.hidden, heads, ffn,
                       printable(c.activation));
  };
  print("{}\n\n", style.bold(title_of(settings, directory)));
  row("family", "marian: the original Transformer, an encoder and a decoder");
  row("encoder", side(c.encoder_layers, c.encoder_heads, c.encoder_ffn));
  row("decoder", side(c.decoder_layers, c.decoder_heads, c.decoder_ffn));
  row("parameters", with_commas(model.parameters()));
  row("vocabulary", with_commas(c.vocabulary));
  row("max length", fmt::format("{} tokens on each side", c.positions));
  row("stored as", stored.types());
  row("memory", fmt::format("{} for the weights", size_text(memory)));
  stored.print_files(row);
  row("use", "from C++: bertie::Transformer encodes, decodes and writes (docs/transformer.md)");
  return 0;
}

}  // namespace

int info_command(const Settings& settings) {
  Settings named = settings;
  if (!settings.words.empty()) {
    if (settings.model)
      throw UsageError("the model was given twice, as a word and as --model", "bertie info MODEL");
    named.model = settings.words[0];
  }
  const fs::path directory = model_directory(named);
  const fs::path folder = transformer_folder(directory);
  if (TransformerConfig::describes(folder)) return transformer_info(named, folder);
  const Model model = Model::load(folder);
  const Config& config = model.config();
  std::optional<Tokenizer> tokenizer;
  if (!Tokenizer::file_in(folder).empty()) tokenizer = Tokenizer::load(folder);
  const Modules modules = load_modules(directory, config.hidden);
  const size_t longest =
      max_length(modules, config.max_tokens(), tokenizer ? tokenizer->model_max_length() : kNoLimit);
  const Stored stored(folder, model.weights().files);
  const size_t weights_memory = model.weights().memory.size() + model.weights().word.data.size();
  // Hidden states, their copies and the widest product; as run.cc lays them out.
  const size_t token_memory =
      (3 * config.hidden + std::max(3 * config.hidden, config.intermediate)) * sizeof(float);

  std::vector<std::string_view> heads, commands;
  for (Head head : kHeads)
    if (model.has(head)) heads.push_back(name_of(head).name), commands.push_back(name_of(head).commands);
  const bool labelled = model.has(Head::kClassify) || model.has(Head::kTag);

  if (settings.json) {
    nlohmann::ordered_json out = {
        {"family", config.model_type},
        {"layers", config.layers},
        {"hidden", config.hidden},
        {"heads", config.heads},
        {"intermediate", config.intermediate},
        {"activation", config.activation},
        {"vocabulary", config.vocabulary},
        {"positions", config.positions},
        {"types", config.types},
        {"parameters", model.parameters()},
        {"has_pooler", model.has_pooler()},
        {"heads_on_top", heads},
        {"labels", labelled ? nlohmann::ordered_json(config.labels) : nlohmann::ordered_json(nullptr)},
        {"dimension", modules.output_size(config.hidden)},
        {"pooling", pooling_text(modules.pooling)},
        {"normalize", modules.pooling.normalize},
        {"max_length", longest},
        {"tokenizer", nullptr},
        {"stored", nullptr},
        {"files", nullptr},
        {"memory", {{"weights_bytes", weights_memory}, {"bytes_per_token", token_memory}}},
    };
    if (tokenizer)
      out["tokenizer"] = {{"kind", tokenizer->kind()},
                          {"cased", !tokenizer->lowercase()},
                          {"tokens", tokenizer->vocab_size()}};
    stored.add_to(out);
    return print_json(out), 0;
  }

  const Style style = Style::for_output();
  const auto row = [&](std::string_view name, const std::string& value) { print_row(style, name, value); };
  print("{}\n\n", style.bold(title_of(named, directory)));
  row("family", config.model_type);
  row("shape", fmt::format("{} layers × {} hidden × {} heads, feed-forward {} ({})", config.layers,
                           config.hidden, config.heads, config.intermediate, printable(config.activation)));
  row("parameters", fmt::format("{}{}", with_commas(model.parameters()),
                                model.has_pooler() ? ", pooler included" : ", no pooler"));
  row("heads", heads.empty() ? "none: hidden states, attention and vectors"
                             : fmt::format("{} ({})", fmt::join(heads, ", "), fmt::join(commands, ", ")));
  if (labelled) row("labels", printable(fmt::format("{}", fmt::join(config.labels, ", "))));
  row("vocabulary", with_commas(config.vocabulary));
  row("tokenizer",
      tokenizer ? fmt::format("{}, {}", tokenizer->kind(), tokenizer->lowercase() ? "uncased" : "cased")
                : "none: no tokenizer.json, vocab.txt, vocab.json or SentencePiece model is there");
  row("max length", fmt::format("{} tokens{}", longest,
                                longest < config.max_tokens()
                                    ? fmt::format(" (there are positions for {})", config.max_tokens())
                                    : ""));
  row("vector",
      fmt::format("{} numbers: {}{}{}", modules.output_size(config.hidden), pooling_text(modules.pooling),
                  modules.dense.empty() ? "" : ", dense", modules.pooling.normalize ? ", normalized" : ""));
  row("stored as", stored.types());
  row("memory", fmt::format("{} for the weights, {} for 2,048 tokens at work", size_text(weights_memory),
                            size_text(2048 * token_memory)));
  stored.print_files(row);
  return 0;
}

}  // namespace bertie::cli
