// bertie demo: "You found me", the worked example that everybody can check by hand.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cli/model.h"
#include "cli/output.h"
#include "cli/terminal/attention_text.h"
#include "cli/terminal/steps_text.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

constexpr std::string_view kSentence = "The bank deposited the money near the river bank.";
constexpr size_t kMostWidth = 80;

void show_sentence(const Settings& settings, const Style& style) {
  const Attention attention = load_model(settings).attend(kSentence);
  const size_t layer = attention.layers - 1;
  const std::vector<float> mean = mean_over_heads(attention, layer);
  print("\n{}\n", style.bold(fmt::format("\"{}\"", kSentence)));
  print("{} layers of {} heads, each with {} × {} weights. Layer {}, mean of its heads:\n\n",
        attention.layers, attention.heads, attention.n(), attention.n(), layer + 1);
  print(heat_table(printable_all(attention.tokens), {mean.data(), attention.n(), attention.n()}, style,
                   std::min(output_width(), kMostWidth)));
  print("\n  {}\n", heat_legend(style));
}

}  // namespace

int demo_command(const Settings& settings) {
  const AttentionSteps steps = explain_you_found_me();
  if (settings.json) return print_json(steps, {.index = 0, .text = "You found me"}), 0;
  const Style style = Style::for_output();
  print("{}\n", style.bold("\"You found me\": three words through self-attention"));
  print(steps_text(steps, {.query = 1, .brief = true}, style, std::min(output_width(), kMostWidth)));
  print("\nWhere each number comes from: {}\n", style.accent("bertie explain"));
  if (names_model(settings)) {
    show_sentence(settings, style);
    print("\nYour turn: {}\n", style.accent(fmt::format("bertie attend {}--layer 1 --head 1 \"…\"",
                                                        settings.model ? "--model DIR " : "")));
  } else {
    print("A real model does this in every layer and head. See one at work:\n  {}\n",
          style.accent(fmt::format("bertie attend --model DIR \"{}\"", kSentence)));
  }
  return 0;
}

}  // namespace bertie::cli
