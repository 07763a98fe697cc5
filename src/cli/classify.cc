// bertie classify and bertie pair
#include <algorithm>

#include "cli/table.h"
#include "cli/task.h"

namespace bertie::cli {
namespace {

Apply apply_of(const Settings& settings) {
  constexpr Apply kAll[] = {Apply::kByProblem, Apply::kSoftmax, Apply::kSigmoid, Apply::kNothing};
  return kAll[choice_of("apply", settings.apply, {"by-problem", "softmax", "sigmoid", "nothing"})];
}

// Whether scores are probabilities; a regression's numbers are not.
bool shares(Apply apply, const Config& config) {
  return apply == Apply::kByProblem ? config.problem != Problem::kRegression : apply != Apply::kNothing;
}

std::string shown(float score, bool share) { return share ? percent(score) : fmt::format("{:.4f}", score); }

int classify_inputs(const Settings& settings, Inputs& inputs, bool pair) {
  const ClassifyOptions options{.apply = apply_of(settings)};
  const TextModel model = load_model(settings, Head::kClassify);
  const std::string_view what = pair ? "pairs" : "texts";
  Progress progress = progress_of(settings, what);
  const Style style = Style::for_output();
  const size_t width = output_width();
  const bool share = shares(options.apply, model.model().config());
  // One input: all its labels. Many: the best one each, a line a text.
  const bool one = settings.files.empty() && settings.words.size() == (pair ? 2 : 1);
  size_t cut_inputs = 0;
  for_each_block(inputs, progress, [&](std::span<Input> block, size_t first) {
    auto results = pair ? model.classify(pairs_of(block), options) : model.classify(texts_of(block), options);
    for (size_t i = 0; i < block.size(); ++i) {
      cut_inputs += results[i].truncated;
      std::vector<Scored>& labels = results[i].labels;
      labels.resize(std::min(labels.size(), settings.top.value_or(settings.json || one ? labels.size() : 1)));
      if (settings.json) {
        print(to_json(results[i], input_of(first + i, block[i], pair)) + "\n");
      } else if (one || settings.top) {
        if (!one) print_heading(style, pair ? "pair" : "text", first + i, block[i].a);
        Table table({"label", "score", ""}, "lrl");
        for (const Scored& s : labels)
          table.add({printable(s.label), shown(s.score, share), share ? bar(s.score, 24) : ""});
        print(table.text(style, width));
      } else {
        const std::string best =
            fmt::format("{} {}", pad(printable(labels[0].label), 12), shown(labels[0].score, share));
        const std::string text =
            printable(block[i].a.substr(0, 400)) + (pair ? " / " + printable(block[i].b.substr(0, 400)) : "");
        print("{}  {}\n", style.bold(best),
              style.dim(
                  cut(text, std::max<size_t>(width, display_width(best) + 18) - display_width(best) - 2)));
      }
    }
  });
  progress.finish(inputs.count());
  warn_if_cut(settings, model, cut_inputs, inputs.count(), what);
  return 0;
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
