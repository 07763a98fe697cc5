// bertie fill-mask
#include "cli/table.h"
#include "cli/task.h"

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

int fill_mask_command(const Settings& settings) {
  Inputs inputs(settings);
  const TextModel model = load_model(settings, Head::kMaskedLm);
  check_targets(settings, model.tokenizer());
  Progress progress = progress_of(settings, "texts");
  const Style style = Style::for_output();
  const bool one = settings.words.size() == 1 && settings.files.empty();
  size_t cut = 0, without_mask = 0, first_without = 0;
  for_each_block(inputs, progress, [&](std::span<Input> block, size_t first) {
    const FillMaskOptions options{.top = settings.top.value_or(5), .targets = settings.targets};
    std::vector<MaskFilling> results;
    if (one)
      results.push_back(model.fill_mask(block[0].a, options));
    else
      results = model.fill_mask(texts_of(block), options);
    for (size_t i = 0; i < block.size(); ++i) {
      cut += results[i].truncated;
      if (results[i].masks.empty() && without_mask++ == 0) first_without = first + i;
      if (settings.json) {
        print(to_json(results[i], input_of(first + i, block[i])) + "\n");
        continue;
      }
      if (!one) print_heading(style, "text", first + i, block[i].a);
      print_table(style, results[i].masks);
    }
  });
  progress.finish(inputs.count());
  warn_if_cut(settings, model, cut, inputs.count(), "texts");
  if (without_mask == 0) return 0;
  const Tokenizer& tokenizer = model.tokenizer();
  warn(fmt::format("{} of {} texts have no mask; the first is number {}", without_mask, inputs.count(),
                   first_without + 1),
       fmt::format("write {} where a word is missing", tokenizer.token(tokenizer.mask_id())));
  return 1;
}

}  // namespace bertie::cli
