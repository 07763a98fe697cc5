// bertie info
#include "bertie/info.h"

#include <fmt/format.h>

#include <filesystem>

#include "bertie/json.h"
#include "cli/model.h"
#include "cli/output.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

namespace fs = std::filesystem;

// A snapshot's folder is called by its commit: then the name it was given by says more.
std::string title_of(const Settings& named, const ModelFiles& files) {
  const std::string given = model_name(named);
  if (!files.folder() || *files.folder() != given) return printable(given);
  const fs::path clean = fs::path(given).lexically_normal();
  return printable((clean.has_filename() ? clean : clean.parent_path()).filename().string());
}

std::string stored_types(const ModelInfo& info) {
  std::vector<std::string> types;
  for (const auto& [type, count] : info.stored)
    types.push_back(fmt::format("{} ({} numbers)", type, with_commas(count)));
  return fmt::format("{}", fmt::join(types, ", "));
}

void print_row(const Style& style, std::string_view name, const std::string& value) {
  print("  {} {}\n", style.dim(pad(name, 12)), value);
}

void print_files(const ModelInfo& info, const auto& row) {
  for (size_t i = 0; i < info.files.size(); ++i)
    row(i == 0 ? "files" : "",
        fmt::format("{:>10}  {}", size_text(info.files[i].bytes), printable(info.files[i].name)));
}

void print_transformer(const ModelInfo& info, const auto& row) {
  const TransformerConfig& c = *info.transformer;
  const auto side = [&](size_t layers, size_t heads, size_t ffn) {
    return fmt::format("{} layers × {} hidden × {} heads, feed-forward {} ({})", layers, c.hidden, heads, ffn,
                       printable(c.activation));
  };
  row("family", "marian: the original Transformer, an encoder and a decoder");
  row("encoder", side(c.encoder_layers, c.encoder_heads, c.encoder_ffn));
  row("decoder", side(c.decoder_layers, c.decoder_heads, c.decoder_ffn));
  row("parameters", with_commas(info.parameters));
  row("vocabulary", with_commas(c.vocabulary));
  row("max length", fmt::format("{} tokens on each side", c.positions));
  row("stored as", stored_types(info));
  row("memory", fmt::format("{} for the weights", size_text(info.weights_bytes)));
  print_files(info, row);
  row("use", "from C++: bertie::Transformer encodes, decodes and writes (docs/transformer.md)");
}

std::string_view commands_of(Head head) {
  switch (head) {
    case Head::kMaskedLm:
      return "bertie fill-mask";
    case Head::kNextSentence:
      return "bertie next-sentence";
    case Head::kClassify:
      return "bertie classify, bertie pair";
    case Head::kTag:
      return "bertie tag";
    case Head::kAnswer:
      return "bertie answer";
    case Head::kCausalLm:
      break;
  }
  return "bertie generate";
}

void print_model(const ModelInfo& info, const auto& row) {
  const Config& config = *info.config;
  std::vector<std::string_view> heads, commands;
  for (Head head : info.heads) heads.push_back(head_name(head)), commands.push_back(commands_of(head));
  row("family", config.model_type);
  row("shape", fmt::format("{} layers × {} hidden × {} heads, feed-forward {} ({})", config.depth(),
                           config.hidden, config.heads, config.intermediate, printable(config.activation)));
  row("parameters", fmt::format("{}{}", with_commas(info.parameters),
                                info.has_pooler ? ", pooler included" : ", no pooler"));
  row("heads", heads.empty() ? "none: hidden states, attention and vectors"
                             : fmt::format("{} ({})", fmt::join(heads, ", "), fmt::join(commands, ", ")));
  if (info.has_labels()) row("labels", printable(fmt::format("{}", fmt::join(config.labels, ", "))));
  row("vocabulary", with_commas(config.vocabulary));
  row("tokenizer",
      info.tokenizer
          ? fmt::format("{}, {}", info.tokenizer->kind, info.tokenizer->cased ? "cased" : "uncased")
          : "none: no tokenizer.json, vocab.txt, vocab.json or SentencePiece model is there");
  row("max length", fmt::format("{} tokens{}", info.max_length,
                                info.max_length < config.max_tokens()
                                    ? fmt::format(" (there are positions for {})", config.max_tokens())
                                    : ""));
  row("vector",
      !info.no_vectors.empty()
          ? fmt::format("none: {}", printable(info.no_vectors))
          : fmt::format("{} numbers: {}{}{}", info.dimension, pooling_name(info.pooling),
                        info.has_dense ? ", dense" : "", info.pooling.normalize ? ", normalized" : ""));
  row("stored as", stored_types(info));
  row("memory", fmt::format("{} for the weights, {} for 2,048 tokens at work", size_text(info.weights_bytes),
                            size_text(2048 * info.bytes_per_token)));
  print_files(info, row);
  std::string notice = info.notice;
  std::ranges::replace(notice, '\n', ' ');
  if (!notice.empty()) print("\n{}", wrap(printable(notice), output_width()));
}

}  // namespace

int info_command(const Settings& settings) {
  Settings named = settings;
  if (!settings.words.empty()) {
    if (settings.model)
      throw UsageError("the model was given twice, as a word and as --model", "bertie info MODEL");
    named.model = settings.words[0];
  }
  const ModelFiles files = model_files(named);
  const ModelInfo info = describe(files, weight_format(settings));
  if (settings.strict && !info.no_vectors.empty()) throw Error(info.no_vectors);
  if (settings.strict && !info.warnings.empty())
    throw Error(info.warnings[0], "bertie convert --drop-unknown leaves them out");
  if (settings.json) return print(to_json(info) + "\n"), 0;
  const Style style = Style::for_output();
  const auto row = [&](std::string_view name, const std::string& value) { print_row(style, name, value); };
  print("{}\n\n", style.bold(title_of(named, files)));
  info.transformer ? print_transformer(info, row) : print_model(info, row);
  if (!settings.quiet)
    for (const std::string& warning : info.warnings)
      warn(warning, "bertie convert --drop-unknown leaves them out");
  return 0;
}

}  // namespace bertie::cli
