// bertie classify and bertie pair
#include <algorithm>

#include "cli/task.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

// Whether scores are probabilities; a regression's numbers are not.
bool shares(Apply apply, const Config& config) {
  return apply == Apply::kByProblem ? config.problem != Problem::kRegression : apply != Apply::kNothing;
}

std::string shown(float score, bool share) { return share ? percent(score) : fmt::format("{:.4f}", score); }

int classify_inputs(const Settings& settings, Inputs& inputs, bool pair) {
  ClassifyOptions options{.apply = Apply(settings.apply.value_or(int(Apply::kByProblem)))};
  const TextModel model = load_model(settings, Head::kClassify);
  const std::string_view what = pair ? "pairs" : "texts";
  const Style style = Style::for_output();
  const size_t width = output_width();
  const bool share = shares(options.apply, model.model().config());
  // One input: all its labels. Many: the best one each, a line a text.
  const bool one = inputs.only_one();
  size_t cut_inputs = 0;
  const int code = for_each_input(
      settings, inputs, {.what = what},
      [&](std::span<const Input> block, const ProgressCallback& progress) {
        options.progress = progress;
        return pair ? model.classify(pairs_of(block), options) : model.classify(texts_of(block), options);
      },
      [&](const Input& input, Classification& result) {
        cut_inputs += result.truncated;
        std::vector<Scored>& labels = result.labels;
        labels.resize(
            std::min(labels.size(), settings.top.value_or(settings.json || one ? labels.size() : 1)));
        if (settings.json) {
          print(to_json(result, input_of(input, pair)) + "\n");
        } else if (one || settings.top) {
          if (!one) print_heading(style, pair ? "pair" : "text", input.index, input.a);
          Table table({"label", "score", ""}, "lrl");
          for (const Scored& s : labels)
            table.add({printable(s.label), shown(s.score, share), share ? bar(s.score, 24) : ""});
          print(table.text(style, width));
        } else {
          const std::string best =
              fmt::format("{} {}", pad(printable(labels[0].label), 12), shown(labels[0].score, share));
          const std::string text =
              printable(input.a.substr(0, 400)) + (pair ? " / " + printable(input.b.substr(0, 400)) : "");
          const size_t room = std::max<size_t>(width, display_width(best) + 18) - display_width(best) - 2;
          print("{}  {}\n", style.bold(best), style.dim(cut(text, room)));
        }
      });
  warn_if_cut(settings, model, cut_inputs, inputs.count(), what);
  return code;
}

}  // namespace

int classify_command(const Settings& settings) {
  Inputs inputs(settings);
  return classify_inputs(settings, inputs, false);
}

int pair_command(const Settings& settings) {
  Inputs inputs(settings, kPairFields);
  return classify_inputs(settings, inputs, true);
}

}  // namespace bertie::cli
