// bertie distill
#include "bertie/config.h"
#include "bertie/hub.h"
#include "cli/commands/training.h"

namespace bertie::cli {
namespace {

PretrainJob language_model_job(const Settings& s) {
  PretrainJob job;
  job.train = train_options(s);
  job.teaching = teaching_of(s);
  job.data = s.data.value_or(""), job.from = s.model.value_or("");
  job.objective = Config::load(find_model(*s.teacher)).causal() ? "causal" : "mlm";
  job.max_length = s.max_length.value_or(job.max_length);
  if (s.dropout) job.dropout = *s.dropout;
  job.recompute = s.recompute;
  job.threads = int(s.threads.value_or(0));
  return job;
}

}  // namespace

int distill_command(const Settings& settings) {
  if (!settings.teacher) throw UsageError("there is no teacher", "--teacher MODEL");
  if (settings.first_word == kDistillLm) return run_pretraining(language_model_job(settings), settings);
  if (settings.data)
    throw UsageError("--data is for lm; a task learns from --train or --unlabeled", "--train FILE");
  return finetune_command(settings);
}

}  // namespace bertie::cli
