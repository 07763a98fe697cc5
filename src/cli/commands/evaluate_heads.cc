#include "cli/commands/evaluate_heads.h"

#include "bertie/json_writer.h"
#include "cli/task.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/without_heads.h"

namespace bertie::cli {

int evaluate_each_head(const Settings& settings, const TextModel& model, const std::string& name,
                       const Dataset& data, const PredictOptions& predicting, ScoreOptions scoring) {
  const Config& config = model.model().config();
  const size_t layers = config.depth(), passes = 1 + layers * config.heads;
  scoring.resamples = 0;
  ProgressLine line(settings, false);
  WithoutHeads found{.score = {}, .heads = config.heads, .without = {}};
  NamedScore with_all;
  for (size_t pass = 0; pass < passes; ++pass) {
    throw_if_stopped();
    const WhichHead off{(pass + passes - 1) % passes / config.heads, (pass + passes - 1) % passes % config.heads};
    const TextModel one = pass == 0 ? model : model.without({off});
    const NamedScore main = score(data, predict(one, data, predicting), scoring).scores[0];
    if (pass == 0)
      with_all = main;
    else
      found.without.push_back(main.value);
    if (line.is_due())
      line.show(with_share(fmt::format("{} of {} heads", found.without.size(), passes - 1), double(pass + 1),
                           double(passes), line.seconds()));
  }
  line.finish(fmt::format("{} heads in {:.1f} s", passes - 1, line.seconds()));
  found.score = with_all.name, found.with_all = with_all.value;
  if (settings.json) {
    JsonWriter json;
    json.begin_object().field("model", name).field("rows", data.size()).field("metric", with_all.name);
    json.field("value", with_all.value).field("layers", layers).field("heads", config.heads);
    print(json.field("without", found.without).end_object().take() + "\n");
    return 0;
  }
  print("{} {:.4f} with all heads, over {} rows\n", with_all.name, with_all.value, with_commas(data.size()));
  print_without_heads(found, Style::for_output());
  return 0;
}

}  // namespace bertie::cli
