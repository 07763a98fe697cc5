// bertie fill-mask
#include "cli/task.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

void print_table(const Style& style, const std::vector<std::vector<Fill>>& masks) {
  for (size_t m = 0; m < masks.size(); ++m) {
    if (masks.size() > 1) print("{}\n", style.dim(fmt::format("mask {} of {}", m + 1, masks.size())));
    Table table({"score", "", "token", "text"}, "rlll");
    const float best = masks[m].empty() ? 1 : masks[m][0].score;
    for (const Fill& fill : masks[m])
      table.add({percent(fill.score), pad(bar(fill.score / best, 12), 12), printable(fill.token),
                 printable(fill.sequence)});
    print(table.text(style, output_width()));
  }
}

// A target that is several tokens counts by its first; say so.
void check_targets(const Settings& settings, const Tokenizer& tokenizer) {
  for (const std::string& target : settings.targets) {
    if (settings.quiet || tokenizer.id(target)) continue;
    const Encoding pieces = tokenizer.encode(target, {.add_special_tokens = false});
    if (pieces.size() > 1)
      warn(fmt::format("{} is {} tokens: its first one, {}, is taken", in_quotes(target), pieces.size(),
                       in_quotes(tokenizer.token(pieces.ids[0]))),
           "words that are one token; bertie tokenize shows them");
  }
}

}  // namespace

int fill_mask_command(const Settings& given) {
  const Settings settings = with_result_file(given);
  Inputs inputs(settings);
  const TextModel model = load_model(settings, Work::kFillMask);
  check_targets(settings, model.tokenizer());
  const Style style = Style::for_output();
  const FillMaskOptions usual{.top = settings.top.value_or(5), .targets = settings.targets};
  ResultOutput output(settings, Work::kFillMask);
  size_t cut = 0;
  const int code = for_each_input(
      settings, inputs, {.where = output.where(), .results = output.kept(), .cut = &cut}, model,
      [&](const TextModel& filler, std::span<const Input> block, const ProgressCallback& progress) {
        FillMaskOptions options = usual;
        options.progress = progress;
        return filler.fill_mask(texts_of(block), options);
      },
      [&](const Input& input, const MaskFilling& result) {
        return settings.json ? to_json(result, input_of(input)) + "\n" : std::string();
      },
      [&](const Input& input, const MaskFilling& result, const std::string& row) {
        cut += result.truncated;
        if (result.masks.empty()) {
          try {
            model.fill_mask(input.a, usual);  // of one text the library says what it lacks
          } catch (const Error& error) {
            return inputs.fail(input, error);
          }
        }
        if (settings.json) return output.put(row);
        if (!inputs.only_one()) print_heading(style, "text", input.index, input.a);
        print_table(style, result.masks);
      });
  warn_if_cut(settings, model, cut, inputs.count(), "texts");
  return code;
}

}  // namespace bertie::cli
