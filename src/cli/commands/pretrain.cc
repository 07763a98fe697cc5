// bertie pretrain
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bertie/json.h"
#include "bertie/train.h"
#include "cli/commands/training.h"
#include "cli/output.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

void report(const TrainResult& result, const Settings& settings, const Launcher& launcher) {
  const std::string resume =
      result.end == TrainEnd::kStopped ? resume_command(settings, launcher) : std::string();
  if (settings.json) return print(to_json(result, resume) + "\n");
  print("{}: {} steps, {} tokens in {}, loss {:.3f}\n", printable(result.checkpoint.string()),
        with_commas(result.step), with_commas(result.tokens), duration_text(result.seconds), result.loss);
  if (result.best_step > 0)
    print("best on held-out data: step {}, loss {:.3f} ({})\n", result.best_step, result.best_loss,
          printable((std::filesystem::path(*settings.out) / "best").string()));
  else
    print("there was no evaluation on held-out data: the model to use is {}\n",
          printable((std::filesystem::path(*settings.out) / "last").string()));
  if (result.end == TrainEnd::kPatience) print("ended because the held-out loss no longer fell\n");
  if (!resume.empty()) print("stopped; it goes on with:\n  {}\n", printable(resume));
}

// Tokens that are to be predicted as [MASK]:found, river:bank and me:me.
void show(const PretrainPreview& p, const PretrainJob& job, const Settings& settings) {
  if (settings.json) return print(to_json(p) + "\n");
  const Style style = Style::for_output();
  using Names = std::array<const char*, 2>;
  const Names names = job.objective == "mlm+sop" ? Names{"in order", "swapped"} : Names{"next", "not next"};
  for (const PretrainPreview::Sequence& s : p.sequences) {
    std::string text;
    for (const PretrainPreview::Token& t : s.tokens)
      text += (text.empty() ? "" : " ") + printable(t.token) +
              (t.target ? style.accent(":" + printable(*t.target)) : std::string());
    if (s.label) text += "  " + style.dim(fmt::format("({})", names[size_t(*s.label)]));
    print("{}\n\n", text);
  }
  const auto percent = [](size_t part, size_t all) {
    return 100 * double(part) / double(std::max<size_t>(all, 1));
  };
  print("{} sequences, {} tokens; {:.1f}% are to be predicted", with_commas(p.counted), with_commas(p.tokens),
        percent(p.chosen, p.tokens));
  if (p.masked > 0)
    print(": {:.1f}% of them read as the mask, {:.1f}% as another token, {:.1f}% as themselves",
          percent(p.masked, p.chosen), percent(p.changed, p.chosen), percent(p.kept, p.chosen));
  if (p.pairs > 0) print("; {:.1f}% of the pairs are {}", percent(p.next, p.pairs), names[0]);
  print("\n");
}

}  // namespace

PretrainJob pretrain_job(const Settings& s) {
  PretrainJob job;
  job.train = train_options(s);
  job.data = s.data.value_or("");
  job.size = s.model_size.value_or(""), job.config = s.config.value_or(""), job.from = s.from.value_or("");
  job.initial = s.initial.value_or(job.initial);
  job.objective = s.objective.value_or(job.objective);
  job.max_length = s.max_length.value_or(job.max_length);
  job.mask_rate = s.mask_rate.value_or(job.mask_rate);
  job.mask_rate_end = s.mask_rate_end;
  job.max_predictions = s.max_predictions.value_or(job.max_predictions);
  job.whole_words = s.whole_word;
  job.random_within = s.random_within.value_or(0);
  job.watch = s.watch;
  if (s.dropout) job.dropout = *s.dropout;
  job.recompute = s.recompute;
  job.threads = int(s.threads.value_or(0));
  return job;
}

int pretrain_command(const Settings& settings) {
  const PretrainJob job = pretrain_job(settings);
  if (!settings.show) return run_pretraining(job, settings);
  show(preview(job, *settings.show), job, settings);
  return 0;
}

int run_pretraining(const PretrainJob& job, const Settings& settings) {
  const Launcher launcher = Launcher::find();
  catch_stop_signals(settings, launcher);
  TrainLine line(!settings.quiet);
  const TrainResult result = pretrain(job, train_events(settings, line, launcher));
  end_progress_line();
  if (result.rank > 0) return 0;
  report(result, settings, launcher);
  return exit_code(result.end);
}

}  // namespace bertie::cli
