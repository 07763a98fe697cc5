// bertie distill
#include "bertie/config.h"
#include "cli/commands/training.h"
#include "cli/task.h"

namespace bertie::cli {
namespace {

void check_language_model(const Settings& s) {
  refuse({{s.train_file.has_value(), "train"},
          {s.dev_file.has_value(), "dev"},
          {s.dev_share.has_value(), "dev-share"},
          {s.unlabeled_file.has_value(), "unlabeled"},
          {s.column.has_value(), "column"},
          {s.column_pair.has_value(), "column-pair"},
          {s.label.has_value(), "label"},
          {s.problem.has_value(), "problem"},
          {s.skip_bad, "skip-bad"},
          {s.stride.has_value(), "stride"},
          {s.epochs.has_value(), "epochs"},
          {s.seeds.has_value(), "seeds"},
          {s.metric.has_value(), "metric"},
          {s.freeze.has_value(), "freeze"},
          {s.layer_decay.has_value(), "layer-decay"},
          {s.balance_classes, "balance-classes"},
          {s.label_smoothing.has_value(), "label-smoothing"},
          {s.fresh_head, "fresh-head"},
          {s.baseline, "baseline"}},
         "for tasks, and lm has none: it learns from --data");
}

void check_task(const Settings& s) {
  refuse({{s.data.has_value(), "data"},
          {s.hidden_weight.has_value(), "hidden-weight"},
          {s.model_size.has_value(), "size"},
          {s.config.has_value(), "config"},
          {s.mask_rate.has_value(), "mask-rate"},
          {s.mask_rate_end.has_value(), "mask-rate-end"},
          {s.max_predictions.has_value(), "max-predictions"},
          {s.random_within.has_value(), "random-within"},
          {s.whole_word, "whole-word"},
          {s.objective.has_value(), "objective"},
          {s.eval_sequences.has_value(), "eval-sequences"}},
         "for lm; a task learns from --train or --unlabeled");
}

PretrainJob language_model_job(const Settings& s) {
  PretrainJob job = pretrain_job(s);
  job.teaching = teaching_of(s);
  job.from = s.model.value_or("");
  if (!s.objective) job.objective = Config::load(*s.teacher).causal() ? "causal" : "mlm";
  return job;
}

}  // namespace

int distill_command(const Settings& settings) {
  if (!settings.teacher) throw UsageError("there is no teacher", "--teacher MODEL");
  if (settings.layers && (settings.model || settings.model_size || settings.config))
    throw UsageError("a student begins as layers of its teacher or as a model of its own",
                     "--layers, or the other, alone");
  if (settings.first_word == kLanguageModel) {
    check_language_model(settings);
    return run_pretraining(language_model_job(settings), settings);
  }
  check_task(settings);
  return finetune_command(settings);
}

}  // namespace bertie::cli
