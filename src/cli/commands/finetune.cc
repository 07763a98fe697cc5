// bertie finetune
#include "bertie/finetune.h"

#include <algorithm>

#include "bertie/json.h"
#include "cli/commands/training.h"
#include "cli/model.h"
#include "cli/output.h"
#include "cli/task.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

FinetuneJob job_of(const Settings& s) {
  FinetuneJob job;
  job.kind = TaskKind(s.first_word);
  job.teaching = teaching_of(s);
  // A student begins as a part of its teacher, unless it is given a model outright.
  job.model = s.teacher ? s.model.value_or("") : model_name(s);
  job.unlabeled_file = s.unlabeled_file.value_or("");
  job.train_file = s.train_file.value_or(""), job.dev_file = s.dev_file.value_or("");
  job.data.text = s.column.value_or(""), job.data.text_pair = s.column_pair.value_or("");
  job.data.label = s.label.value_or("");
  if (s.problem) job.data.problem = Problem(*s.problem);
  job.data.skip_bad = s.skip_bad, job.data.strict = s.strict;
  if (!s.quiet) job.data.bad_row = [](const Error& error) { report_problem(error.what()); };
  job.dev_share = s.dev_share;
  if (s.epochs && *s.epochs == 0)
    throw UsageError("--epochs 0 learns nothing", "--epochs 3, or none: by the rows");
  job.epochs = s.epochs.value_or(0), job.seeds = s.seeds.value_or(1), job.metric = s.metric.value_or("");
  job.max_length = s.max_length.value_or(0), job.stride = s.stride.value_or(job.stride);
  job.freeze = s.freeze, job.layer_decay = s.layer_decay.value_or(1);
  job.balance_classes = s.balance_classes, job.label_smoothing = s.label_smoothing.value_or(0);
  job.baseline = s.baseline;
  job.fresh_head = s.fresh_head, job.dropout = s.dropout.value_or(-1), job.recompute = s.recompute;
  job.threads = int(s.threads.value_or(0));
  job.command = given_command(s);
  job.train = train_options(s);
  return job;
}

std::string few(const std::vector<std::string>& labels) {
  constexpr size_t kMost = 12;
  std::string out;
  for (size_t i = 0; i < std::min(labels.size(), kMost); ++i)
    out += (i > 0 ? ", " : "") + printable(labels[i]);
  return labels.size() > kMost ? fmt::format("{} … ({} in all)", out, labels.size()) : out;
}

// What a model is to say of a row.
void tell_labels(const FinetuneJob& job, const FinetunePlan& plan) {
  const bool tags = job.kind == TaskKind::kTag;
  if (plan.problem == Problem::kRegression && !tags) {
    report_problem(fmt::format("a number for each row, {}: from {:.4g} to {:.4g}", printable(plan.labels[0]),
                               plan.least, plan.largest));
    return;
  }
  std::string text = plan.problem == Problem::kMultiLabel && !tags ? "any number of labels for each row: "
                     : tags                                        ? "a tag for each word: "
                                                                   : "one label for each row: ";
  text += few(plan.labels);
  if (plan.dev_labels_are_places)
    text += fmt::format("; in {} they are 0 to {}, in this order", job.dev_file, plan.labels.size() - 1);
  report_problem(text);
  const auto is_number = [](const std::string& label) {
    return label.find_first_not_of("0123456789") == label.npos;
  };
  if (tags && std::ranges::all_of(plan.labels, is_number))
    warn("the tags are numbers: what they name is not known, so that entities are not counted",
         "a file with names, such as B-PER");
  constexpr double kMany = 0.5;
  if (double(plan.lone_rows) > kMany * double(plan.rows))
    warn(fmt::format("{} of {} have a label that no other row has", with_commas(plan.lone_rows),
                     counted(plan.rows, "row")),
         "another column, with --label; or more rows of each label");
}

// What is about to happen, so that a wrong column or a long text is seen before an hour has gone.
void tell_plan(const FinetuneJob& job, const FinetunePlan& plan) {
  const bool labelled = !job.train_file.empty();
  const auto tell_file = [](const std::string& file, const std::string& found) {
    report_problem(fmt::format("{}: {}", file == "-" ? "standard input" : file, found));
  };
  tell_file(labelled ? job.train_file : job.unlabeled_file, plan.train_found);
  if (!plan.unlabeled_found.empty()) tell_file(job.unlabeled_file, plan.unlabeled_found);
  if (!job.dev_file.empty()) tell_file(job.dev_file, plan.dev_found);
  std::string rows = fmt::format("{} to learn from", counted(plan.rows, "row"));
  if (plan.unlabeled_rows > 0)
    rows += fmt::format(" and {} without labels", with_commas(plan.unlabeled_rows));
  if (plan.dev_rows > 0)
    rows += fmt::format(", {} {}", with_commas(plan.dev_rows),
                        job.dev_file.empty() ? "taken out to measure with" : "to measure with");
  if (plan.bad_rows > 0) rows += fmt::format(", {} left out", with_commas(plan.bad_rows));
  report_problem(rows);
  if (job.kind != TaskKind::kAnswer) tell_labels(job, plan);
  const std::string epochs =
      plan.epochs > 0 ? fmt::format("{:.3g} epochs, {} steps", plan.epochs, with_commas(plan.train.steps))
                      : std::string("steps");
  report_problem(
      fmt::format("{}: {}; {} of {} sequences, rate {:.2g}; {} tokens an epoch, the longest row {}",
                  plan.model, plan.continues_head ? "goes on with its head" : "with a fresh head", epochs,
                  plan.train.batch, plan.train.rate, with_commas(plan.tokens), plan.longest));
  if (job.seeds > 1) report_problem(fmt::format("{} seeds, one after the other", job.seeds));
  constexpr size_t kFewDevRows = 30;
  if (plan.dev_rows > 0 && plan.dev_rows < kFewDevRows)
    warn(fmt::format("there {} {} to measure with: scores are rough, and so is the choice of a checkpoint",
                     plan.dev_rows == 1 ? "is" : "are", counted(plan.dev_rows, "row")),
         job.dev_file.empty() ? "more rows, or a --dev FILE" : "more rows in the --dev FILE");
  if (plan.invalid_rows > 0)
    warn(fmt::format("{} {} not valid UTF-8, the first at {}", counted(plan.invalid_rows, "row"),
                     plan.invalid_rows == 1 ? "is" : "are", printable(plan.first_invalid)),
         "iconv -f latin1 -t utf8, if it is Latin-1");
  const size_t cut_rows = plan.truncated + plan.dev_truncated;
  if (cut_rows > 0 && job.kind == TaskKind::kAnswer)
    warn(fmt::format("cut because they are long: {}", counted(cut_rows, "question")), "shorter questions");
  else if (cut_rows > 0)
    warn(fmt::format("{} of {} have more than {} tokens and are cut", with_commas(cut_rows),
                     counted(plan.rows + plan.unlabeled_rows + plan.dev_rows, "row"), plan.max_length),
         plan.max_length < plan.most_length
             ? fmt::format("--max-length {}, the most this model takes, or shorter texts", plan.most_length)
             : "shorter texts: the model takes no more");
}

void print_scores(const FinetuneResult& result) {
  const SeedResult& best = result.seeds[result.best];
  const bool several = result.seeds.size() > 1, taught = !result.teacher.empty();
  std::vector<std::string> titles{"score", several ? fmt::format("seed {}", best.seed) : "value"};
  if (several) titles.insert(titles.end(), {"mean", "deviation"});
  if (taught) titles.push_back("teacher");
  Table table(titles, "l" + std::string(titles.size() - 1, 'r'));
  for (const NamedScore& s : best.scores) {
    std::vector<std::string> row{s.name, score_text(s.value)};
    if (several) {
      const MeanScore mean = mean_score(result.seeds, s.name);
      row.push_back(score_text(mean.mean)), row.push_back(score_text(mean.deviation));
    }
    if (taught) {
      const auto its = std::ranges::find(result.teacher, s.name, &NamedScore::name);
      row.push_back(its == result.teacher.end() ? "" : score_text(its->value));
    }
    table.add(row);
  }
  print(table.text(Style::for_output(), output_width()));
}

// Baselines and the model below each other, with as many scores as fit beside them; metrics.json has all.
void print_comparison(const FinetuneResult& result, const Settings& settings) {
  const SeedResult& best = result.seeds[result.best];
  const auto name_of_model = [](const std::string& model) {
    const std::filesystem::path path(model);
    return printable((path.has_filename() ? path : path.parent_path()).filename().string());
  };
  const std::string name = settings.teacher ? "the student" : name_of_model(model_name(settings));
  size_t width = name.size() + 12;  // and the time
  for (const BaselineResult& b : result.baselines) width = std::max(width, b.name.size() + 12);
  std::vector<std::string> headings{"model"}, shown;
  for (const NamedScore& s : best.scores) {
    width += std::max<size_t>(s.name.size(), 6) + 2;
    if (shown.empty() || width <= output_width()) shown.push_back(s.name);
  }
  headings.insert(headings.end(), shown.begin(), shown.end());
  headings.push_back("time");
  Table table(headings, "l" + std::string(headings.size() - 1, 'r'));
  const auto add = [&](const std::string& who, const std::vector<NamedScore>& scores, double seconds) {
    std::vector<std::string> row{who};
    for (const std::string& wanted : shown) {
      const auto found = std::ranges::find(scores, wanted, &NamedScore::name);
      row.push_back(found == scores.end() ? "" : score_text(found->value));
    }
    row.push_back(seconds > 0 ? duration_text(seconds) : "");
    table.add(row);
  };
  for (const BaselineResult& b : result.baselines) add(b.name, b.evaluation.scores, b.seconds);
  add(name, best.scores, best.seconds);
  if (!result.teacher.empty())
    add(fmt::format("its teacher {}", name_of_model(*settings.teacher)), result.teacher, 0);
  print(table.text(Style::for_output(), output_width()));
}

void report(const FinetuneResult& result, const Settings& settings, const Launcher& launcher) {
  const std::string resume =
      result.end == TrainEnd::kStopped ? resume_command(settings, launcher) : std::string();
  if (settings.json) return print(to_json(result, resume) + "\n");
  if (!resume.empty()) return print("stopped; it goes on with:\n  {}\n", printable(resume));
  double seconds = 0;
  for (const SeedResult& seed : result.seeds) seconds += seed.seconds;
  if (result.dev_rows > 0 && (result.baselines.empty() || result.seeds.size() > 1)) print_scores(result);
  if (!result.baselines.empty()) print_comparison(result, settings);
  print("{} is ready, after {}. Try it:\n  bertie {} -m {} {}\n", printable(result.folder.string()),
        duration_text(seconds), name_of(TaskKind(settings.first_word)),
        printable(shell_word(result.folder.string())),
        settings.first_word == int(TaskKind::kPair)     ? "\"first text\" \"second text\""
        : settings.first_word == int(TaskKind::kAnswer) ? "\"question?\" --context text.txt"
                                                        : "\"your text\"");
}

}  // namespace

int finetune_command(const Settings& settings) {
  refuse_for(TaskKind(settings.first_word), settings);
  const FinetuneJob job = job_of(settings);
  const Launcher launcher = Launcher::find();
  catch_stop_signals(settings, launcher);
  TrainLine line(!settings.quiet, job.seeds);
  ProgressLine work(settings, false);
  FinetuneEvents events{train_events(settings, line, launcher)};
  if (!settings.quiet) {
    events.planned = [&](const FinetunePlan& plan) { tell_plan(job, plan); };
    events.taught = [&work](size_t done, size_t all) {
      if (!work.is_due()) return;
      work.show(with_share(
          fmt::format("the teacher reads: {} of {} sequences", with_commas(done), with_commas(all)),
          double(done), double(all), work.seconds()));
    };
    events.baseline = [&work](std::string_view name, double fraction) {
      if (work.is_due()) work.show(fmt::format("{:3.0f}%  {}", 100 * fraction, name));
    };
    events.baseline_done = [](const BaselineResult& b) {
      const NamedScore& main = b.evaluation.scores[0];
      report_problem(
          fmt::format("{}: {} {}, {}", b.name, main.name, score_text(main.value), duration_text(b.seconds)));
    };
    events.seed_begun = [&line](size_t index) { line.begin_seed(index); };
    if (job.seeds > 1)
      events.seed_done = [](const SeedResult& seed) {
        std::string text = fmt::format("seed {}:", seed.seed);
        for (const NamedScore& s : seed.scores) text += fmt::format(" {} {}", s.name, score_text(s.value));
        report_problem(text);
      };
  }
  const FinetuneResult result = finetune(job, events);
  end_progress_line();
  if (result.rank > 0) return 0;
  report(result, settings, launcher);
  return exit_code(result.end);
}

}  // namespace bertie::cli
