// bertie tokenize
#include <optional>
#include <utility>

#include "bertie/tokenizer.h"
#include "bertie/transformer.h"
#include "cli/task.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

Tokenizer load_tokenizer(const Settings& settings) {
  if (settings.cased && !settings.vocab)
    throw UsageError("--cased tells how to read a vocab.txt, but none was given",
                     "--vocab vocab.txt --cased");
  if (!settings.vocab) {
    const ModelFiles files = tokenizer_files(settings);
    try {
      return Tokenizer::load(files);
    } catch (const Error&) {  // an encoder-decoder's tokenizer may be of another kind: then say that instead
      if (TransformerConfig::describes(files))
        Config::load(files);  // throws: it is not one of those that run here
      throw;
    }
  }
  const std::filesystem::path path = *settings.vocab;
  if (!settings.cased) return Tokenizer::load(path);
  return Tokenizer::from_vocab(path, {.lowercase = false});
}

class Printer {
 public:
  Printer(const Settings& settings, const Tokenizer& tokenizer)
      : settings_(settings), tokenizer_(tokenizer), style_(Style::for_output()), width_(output_width()) {}

  void operator()(size_t text_index, std::string_view text, std::optional<size_t> window,
                  const Encoding& encoding) {
    if (settings_.ids)
      print(fmt::format("{}\n", fmt::join(encoding.ids, " ")));
    else if (settings_.json)
      print_json(text_index, text, window, encoding);
    else
      print_table(text_index, text, window, encoding);
  }

 private:
  void print_json(size_t text_index, std::string_view text, std::optional<size_t> window,
                  const Encoding& encoding) {
    JsonInput input = input_of(text, settings_.pair);
    input.index = text_index, input.window = window;
    print(to_json(encoding, tokenizer_, input) + "\n");
  }

  void print_table(size_t text_index, std::string_view text, std::optional<size_t> window,
                   const Encoding& encoding) {
    if (!std::exchange(first_, false)) print("\n");
    if (text_index > 0 || (window && *window > 0) || settings_.words.size() > 1 || settings_.words.empty()) {
      const std::string number =
          fmt::format("{}{}", text_index + 1, window ? fmt::format(", window {}", *window + 1) : "");
      print("{}\n",
            style_.dim(cut(fmt::format("text {}: {}", number, printable(text.substr(0, 400))), width_)));
    }
    const bool pair = settings_.pair.has_value();
    Table table(pair ? std::vector<std::string>{"token", "id", "type", "place", "text"}
                     : std::vector<std::string>{"token", "id", "place", "text"},
                pair ? "lrrrl" : "lrrl");
    for (size_t i = 0; i < encoding.size(); ++i) {
      const Offset offset = encoding.offsets[i];
      std::vector<std::string> row{printable(tokenizer_.token(encoding.ids[i])),
                                   fmt::format("{}", encoding.ids[i])};
      if (pair) row.push_back(fmt::format("{}", encoding.types[i]));
      if (encoding.special(i)) {
        row.insert(row.end(), {"", ""});
      } else {
        row.push_back(fmt::format("{}-{}", offset.begin, offset.end));
        row.push_back(printable(text_at(encoding.sequences[i] == 1 ? *settings_.pair : text, offset)));
      }
      table.add(std::move(row));
    }
    print(table.text(style_, width_));
  }

  const Settings& settings_;
  const Tokenizer& tokenizer_;
  Style style_;
  size_t width_;
  bool first_ = true;
};

}  // namespace

int tokenize_command(const Settings& settings) {
  if (settings.stride && !settings.max_length)
    throw UsageError("--stride makes windows of --max-length tokens, but there is no --max-length",
                     fmt::format("--max-length 128 --stride {}", *settings.stride));
  if (settings.ids && settings.json)
    throw UsageError("--ids and --json exclude each other", "--json, which has the ids too");
  const Tokenizer tokenizer = load_tokenizer(settings);
  Inputs inputs(settings);
  Printer printer(settings, tokenizer);
  const EncodeOptions options{.max_length = settings.max_length.value_or(kNoLimit),
                              .stride = settings.stride.value_or(0),
                              .add_special_tokens = !settings.no_special,
                              .special_tokens_in_text = !settings.plain_specials};
  size_t truncated = 0;
  const int code = for_each_input(
      settings, inputs, {}, tokenizer,
      [&](const Tokenizer&, std::span<const Input> block, const ProgressCallback&) {
        std::vector<std::vector<Encoding>> results;  // a text's windows; one without --stride
        for (const Input& input : block)
          if (settings.stride)
            results.push_back(settings.pair ? tokenizer.encode_windows(input.a, *settings.pair, options)
                                            : tokenizer.encode_windows(input.a, options));
          else
            results.push_back({settings.pair ? tokenizer.encode(input.a, *settings.pair, options)
                                             : tokenizer.encode(input.a, options)});
        return results;
      },
      [&](const Input& input, const std::vector<Encoding>& windows) {
        truncated += !settings.stride && windows[0].truncated;
        for (size_t w = 0; w < windows.size(); ++w)
          printer(input.index, input.a, settings.stride ? std::optional(w) : std::nullopt, windows[w]);
      });
  warn_if_cut(settings, truncated, inputs.count(), "texts", options.max_length,
              "a larger --max-length, or --stride N for windows over the whole text");
  return code;
}

}  // namespace bertie::cli
