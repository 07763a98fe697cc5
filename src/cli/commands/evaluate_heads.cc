#include "cli/commands/evaluate_heads.h"

#include <cmath>

#include "bertie/json_writer.h"
#include "cli/task.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/without_heads.h"

namespace bertie::cli {

int evaluate_each_head(const Settings& settings, const TextModel& model, const std::string& name,
                       const Dataset& data, const PredictOptions& predicting, ScoreOptions scoring) {
  const Config& config = model.model().config();
  const size_t every = config.depth() * config.heads;
  scoring.resamples = 0;
  ProgressLine line(settings, false);
  const Predictions all = predict(model, data, predicting);
  const NamedScore with_all = score(data, all, scoring).scores[0];
  WithoutHeads found{.score = with_all.name,
                     .lower_is_better = !with_all.higher_is_better,
                     .with_all = with_all.value,
                     .heads = config.heads,
                     .without = {}};
  for (size_t i = 0; i < every; ++i) {
    throw_if_stopped();
    const WhichHead off{i / config.heads, i % config.heads};
    const bool there = config.has_head(off.layer, off.head);
    found.without.push_back(
        there ? score(data, predict(model.without({off}), data, predicting), scoring).scores[0].value : NAN);
    if (line.is_due())
      line.show(with_share(fmt::format("{} of {} heads", i + 1, every), double(i + 2), double(every + 1),
                           line.seconds()));
  }
  line.finish(fmt::format("{} heads in {:.1f} s", every, line.seconds()));
  warn_if_cut(settings, model, all.truncated, data.size(), "rows");
  if (settings.json) {
    JsonWriter json;
    json.begin_object().field("model", name).field("rows", data.size()).field("metric", with_all.name);
    json.field("value", with_all.value).field("layers", config.depth()).field("heads", config.heads);
    print(json.field("without", found.without).end_object().take() + "\n");
    return 0;
  }
  print("{} {:.4f} with all heads, over {} rows\n", with_all.name, with_all.value, with_commas(data.size()));
  print_without_heads(found, Style::for_output());
  return 0;
}

}  // namespace bertie::cli
