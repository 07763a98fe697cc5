#include "cli/commands/attention_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bertie/explain.h"
#include "cli/output_file.h"
#include "cli/task.h"
#include "cli/terminal/attention_text.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

int show_rollout(const Settings& settings, const TextModel& model, const std::string& text) {
  const size_t layers = settings.layer.value_or(model.model().config().depth());
  AttendOptions options;
  for (size_t layer = 0; layer < layers; ++layer) options.layers.push_back(layer);
  const Attention a =
      settings.pair ? model.attend(text, *settings.pair, options) : model.attend(text, options);
  const Grid weights = rollout(a, layers);
  if (settings.json) {
    print(rollout_to_json(a, weights, layers, input_of(text, settings.pair)) + "\n");
    return 0;
  }
  const Style style = Style::for_output();
  print("{}: how much of each column is in each row, in percent\n\n",
        style.bold(fmt::format("rollout over {} of {} layers", layers, a.layers)));
  print(heat_table(printable_all(a.tokens), weights, style, output_width()));
  print("\n  {}\n", heat_legend(style));
  return 0;
}

int show_gradient(const Settings& settings, const TextModel& model, const std::string& text) {
  const Tokenizer& tokenizer = model.tokenizer();
  const std::string_view mask = tokenizer.mask_id() < 0 ? "" : tokenizer.token(tokenizer.mask_id());
  const bool masked = !mask.empty() && (text + settings.pair.value_or("")).find(mask) != std::string::npos;
  const Prediction prediction{.head = masked ? Head::kMaskedLm : Head::kClassify,
                              .name = *settings.gradient,
                              .mask = settings.mask.value_or(1) - 1};
  GradientOptions options;
  if (settings.layer) options.layers = {*settings.layer - 1};
  const AttentionGradient g =
      settings.pair ? attention_gradient(model, TextPair{text, *settings.pair}, prediction, options)
                    : attention_gradient(model, text, prediction, options);
  if (settings.json) {
    write_json(g, input_of(text, settings.pair), [](std::string_view piece) { print(piece); });
    print("\n");
    return 0;
  }
  const Attention& a = g.attention;
  const size_t n = a.n(), size = n * n;
  std::vector<size_t> order(a.weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (settings.head) std::erase_if(order, [&](size_t i) { return i / size % a.heads != *settings.head - 1; });
  const size_t shown = std::min(settings.top.value_or(15), order.size());
  std::partial_sort(order.begin(), order.begin() + ptrdiff_t(shown), order.end(), [&](size_t i, size_t j) {
    const float x = std::abs(a.weights[i]), y = std::abs(a.weights[j]);
    return x > y || (x == y && i < j);
  });
  const Style style = Style::for_output();
  print("{} {}: {:.3f}. Weights that do most to it, times their gradient:\n\n",
        masked ? "the logit of" : "the label", style.bold(printable(g.name)), g.logit);
  const std::vector<std::string> labels = unique_labels(printable_all(a.tokens));
  Table table({"gradient·weight", "head", "from", "to"}, "rrll");
  for (const size_t i : std::span(order).first(shown))
    table.add({fmt::format("{:+.4f}", a.weights[i]),
               fmt::format("{}-{}", a.kept[i / size / a.heads] + 1, i / size % a.heads + 1),
               labels[i % size / n], labels[i % n]});
  print(table.text(style, output_width()));
  return 0;
}

}  // namespace

bool wants_attention_sums(const Settings& settings) {
  if (!settings.rollout && !settings.gradient) {
    refuse({{settings.mask.has_value(), "mask"}}, "for --gradient");
    return false;
  }
  if (settings.rollout && settings.gradient)
    throw UsageError("--rollout and --gradient are two things", "one of them");
  refuse({{settings.npy.has_value(), "npy"}}, "for the weights themselves");
  if (settings.rollout)
    refuse({{settings.head.has_value(), "head"},
            {settings.top.has_value(), "top"},
            {settings.mask.has_value(), "mask"}},
           "not for --rollout, which is over all heads");
  return true;
}

int show_attention_sums(const Settings& settings, const TextModel& model, const std::string& text) {
  return settings.rollout ? show_rollout(settings, model, text) : show_gradient(settings, model, text);
}

}  // namespace bertie::cli
