// bertie evaluate lm
#include "cli/commands/evaluate_lm.h"

#include <cmath>

#include "bertie/json.h"
#include "bertie/train.h"
#include "cli/model.h"
#include "cli/output.h"
#include "cli/task.h"
#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

void check(const Settings& s) {
  if (!s.data)
    throw UsageError("evaluate lm needs shards of bertie prepare, with a held-out part", "--data DIR");
  refuse({{s.compare.has_value(), "compare"},
          {s.without.has_value(), "without"},
          {s.each, "each-head"},
          {s.metric.has_value(), "metric"},
          {s.bootstrap.has_value(), "bootstrap"},
          {s.threshold.has_value(), "threshold"},
          {s.errors.has_value(), "errors"},
          {s.top.has_value(), "top"},
          {s.predictions.has_value(), "predictions"},
          {s.column.has_value(), "column"},
          {s.column_pair.has_value(), "column-pair"},
          {s.label.has_value(), "label"},
          {s.problem.has_value(), "problem"},
          {s.skip_bad, "skip-bad"},
          {s.precision.has_value(), "precision"},
          {s.stride.has_value(), "stride"},
          {s.max_answer.has_value(), "max-answer"},
          {s.max_question.has_value(), "max-question"}},
         "for tasks; lm reads --data, shards of bertie prepare");
}

void print_scores(const LanguageModelScores& scores) {
  Table table({"what", "loss", "perplexity", "right", "of"}, "lrrrr");
  for (const Metric& m : scores.metrics)
    table.add({m.name == "label" ? "next sentences" : "tokens", fmt::format("{:.4f}", m.loss),
               fmt::format("{:.2f}", std::exp(m.loss)), fmt::format("{:.1f}%", 100 * m.accuracy),
               with_commas(m.count)});
  print("{}\n{:.3f} bits for each byte of text; {} tokens in {} sequences were read\n",
        table.text(Style::for_output(), output_width()), scores.bits_per_byte, with_commas(scores.tokens),
        with_commas(scores.sequences));
}

}  // namespace

int evaluate_lm(const Settings& settings) {
  check(settings);
  LanguageModelJob job{.model = model_name(settings, Work::kFillMask), .data = *settings.data};
  job.max_length = settings.max_length.value_or(0);
  job.objective = settings.objective.value_or("");
  job.threads = int(settings.threads.value_or(0));
  ProgressLine line(settings, false);
  job.progress = [&](size_t done, size_t all) {
    if (line.is_due())
      line.show(with_share(fmt::format("{} sequences", with_commas(done)), double(done), double(all),
                           line.seconds()));
  };
  const LanguageModelScores scores = evaluate(job);
  line.finish("");
  if (scores.rank > 0) return 0;
  if (settings.json)
    print(to_json(scores, job.model) + "\n");
  else
    print_scores(scores);
  return 0;
}

}  // namespace bertie::cli
