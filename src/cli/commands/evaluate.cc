// bertie evaluate
#include "bertie/evaluate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "bertie/files.h"
#include "bertie/json.h"
#include "cli/commands/evaluate_heads.h"
#include "cli/commands/evaluate_lm.h"
#include "cli/model.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/task.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

constexpr double kConfidence = 0.95;

bool is_page(const std::filesystem::path& path) {
  return path.extension() == ".html" || path.extension() == ".htm";
}

// Before an hour of work ends at a file that cannot be written.
void check_files(const Settings& settings) {
  if (!settings.data) throw UsageError("evaluate needs labelled data", "--data dev.tsv");
  if (settings.errors && !is_page(*settings.errors) &&
      std::filesystem::path(*settings.errors).extension() != ".json")
    throw UsageError(fmt::format("--errors takes a file that ends with .html or .json, not {}",
                                 in_quotes(*settings.errors)),
                     "--errors mistakes.html");
  for (const auto* file : {&settings.errors, &settings.predictions}) {
    if (!*file) continue;
    check_not_read(settings, **file, {*settings.data, settings.compare.value_or(*settings.data)});
    check_output(settings, **file);
  }
}

// A model's head says what labels are, where it was told.
Problem problem_of(const Settings& settings, const Config& config) {
  if (settings.problem) return Problem(*settings.problem);
  return config.problem == Problem::kUnset && config.labels.size() == 1 ? Problem::kRegression
                                                                        : config.problem;
}

// A file may have 0 and 1 where the model has names.
void tell_places(const std::vector<std::string>& written, const std::vector<std::string>& labels) {
  if (written.empty() || std::ranges::find_first_of(labels, written) != labels.end()) return;
  report_problem(fmt::format("labels 0 to {} are taken as the model's {}", labels.size() - 1,
                             printable(fmt::format("{}", fmt::join(labels, ", ")))));
}

Dataset read_data(const Settings& settings, const TextModel& model) {
  const auto kind = TaskKind(settings.first_word);
  DatasetOptions options{.text = settings.column.value_or(""),
                         .text_pair = settings.column_pair.value_or(""),
                         .label = settings.label.value_or(""),
                         .places_needed = false,
                         .skip_bad = settings.skip_bad,
                         .strict = settings.strict};
  if (head_of(kind) == Head::kClassify) options.problem = problem_of(settings, model.model().config());
  if (!settings.quiet) options.bad_row = [](const Error& error) { report_problem(error.what()); };
  Dataset data = read_dataset(kind, *settings.data, options);
  if (!settings.quiet)
    report_problem(fmt::format("{}: {}, {}", data.file, data.found, counted(data.size(), "row")));
  const std::vector<std::string> written = data.labels;
  data = with_labels_of(model, std::move(data), options);
  if (settings.quiet) return data;
  tell_places(written, data.labels);
  if (data.bad_rows > 0)
    warn(fmt::format("{} {} left out", counted(data.bad_rows, "row"), data.bad_rows == 1 ? "was" : "were"));
  if (data.invalid_rows > 0)
    warn(fmt::format("{} {} not valid UTF-8, the first at {}", counted(data.invalid_rows, "row"),
                     data.invalid_rows == 1 ? "is" : "are", data.first_invalid),
         "iconv -f latin1 -t utf8, if it is Latin-1");
  return data;
}

PredictOptions predict_options(const Settings& settings) {
  PredictOptions options{.max_length = settings.max_length, .stride = settings.stride};
  options.max_answer_tokens = settings.max_answer.value_or(options.max_answer_tokens);
  options.max_question_tokens = settings.max_question.value_or(options.max_question_tokens);
  return options;
}

Predictions predict_with_progress(const Settings& settings, const TextModel& model, const Dataset& data) {
  ProgressLine line(settings, false);
  PredictOptions options = predict_options(settings);
  const auto rate = [&](size_t done) { return double(done) / std::max(line.seconds(), 1e-3); };
  options.progress = [&](size_t done, size_t of) {
    if (line.is_due())
      line.show(with_share(fmt::format("{} rows, {:.0f}/s", with_commas(done), rate(done)), double(done),
                           double(of), line.seconds()));
  };
  Predictions predictions = predict(model, data, options);
  line.finish(fmt::format("{} rows in {:.1f} s, {:.0f}/s", with_commas(data.size()), line.seconds(),
                          rate(data.size())));
  warn_if_cut(settings, model, predictions.truncated, data.size(), "rows");
  return predictions;
}

void print_scores(const std::vector<NamedScore>& scores, bool intervals, const Style& style) {
  std::vector<std::string> headings{"score", "value"};
  if (intervals) headings.push_back(fmt::format("{:.0f}% interval", 100 * kConfidence));
  Table table(headings, intervals ? "lrl" : "lr");
  for (const NamedScore& score : scores) {
    std::vector<std::string> row{score.name, score_text(score.value)};
    if (intervals) row.push_back(fmt::format("{} to {}", score_text(score.low), score_text(score.high)));
    table.add(std::move(row));
  }
  print(table.text(style, output_width()));
}

void print_classes(const Evaluation& evaluation, const Style& style) {
  if (evaluation.classes.empty()) return;
  Table table({"precision", "recall", "f1", "rows", "predicted",
               evaluation.kind == TaskKind::kTag ? "kind" : "class"},
              "rrrrrl");
  constexpr size_t kNumbers = 52;  // columns of the other cells
  std::vector<std::string> labels;
  for (const ClassScore& one : evaluation.classes) labels.push_back(one.label.empty() ? "(none)" : one.label);
  labels = short_names(labels, std::max(output_width(), kNumbers + 24) - kNumbers);
  for (size_t i = 0; i < labels.size(); ++i) {
    const ClassScore& one = evaluation.classes[i];
    table.add({score_text(one.precision), score_text(one.recall), score_text(one.f1),
               with_commas(one.support), with_commas(one.predicted), labels[i]});
  }
  print("\n{}", table.text(style, output_width()));
}

void print_confusion(const Evaluation& evaluation, const Style& style) {
  constexpr size_t kMost = 12;
  const size_t n = evaluation.labels.size();
  if (evaluation.confusion.empty() || n > kMost) return;
  constexpr size_t kHeading = 17, kCell = 12;  // "right / predicted"
  // Where names do not fit above the columns, the numbers of their rows do.
  const bool names_fit = kHeading + n * (kCell + 2) <= output_width();
  const size_t room =
      names_fit ? kHeading : std::max<size_t>(kHeading, output_width() - std::min(output_width(), n * 8 + 4));
  const std::vector<std::string> rows = short_names(evaluation.labels, room);
  const std::vector<std::string> columns = short_names(evaluation.labels, kCell);
  const auto numbered = [](size_t i) { return fmt::format("{}.", i + 1); };
  std::vector<std::string> headings{"right / predicted"};
  for (size_t c = 0; c < n; ++c) headings.push_back(names_fit ? columns[c] : numbered(c));
  std::string alignment(n + 1, 'r');
  alignment[0] = 'l';
  Table table(headings, alignment);
  for (size_t r = 0; r < n; ++r) {
    std::vector<std::string> row{names_fit ? rows[r] : numbered(r) + " " + rows[r]};
    for (size_t c = 0; c < n; ++c) row.push_back(with_commas(evaluation.confusion[r * n + c]));
    table.add(std::move(row));
  }
  print("\n{}", table.text(style, output_width()));
}

void print_thresholds(const Evaluation& evaluation, double threshold) {
  if (std::ranges::find(evaluation.scores, "best_f1", &NamedScore::name) == evaluation.scores.end()) return;
  print(
      "\nno answer above a threshold of {:.4g}; best on these rows: {:.4g} for f1, {:.4g} for exact_match\n",
      threshold, evaluation.best_threshold, evaluation.best_exact_threshold);
}

void print_comparison(const Comparison& c, const std::string& a, const std::string& b) {
  if (std::isnan(c.difference)) {
    print("\n{} is not defined on these rows, so that the two cannot be compared by it\n", c.metric);
    return;
  }
  print("\n{}: {} of {} minus {} of {} is {:+.4f}, {:.0f}% interval {:+.4f} to {:+.4f}\n", c.metric,
        score_text(c.b), printable(b), score_text(c.a), printable(a), c.difference, 100 * kConfidence, c.low,
        c.high);
  print("paired bootstrap: p = {:.4f}\n", c.p_value);
  if (std::isnan(c.mcnemar_p)) return;
  print("McNemar's exact test: p = {:.4f}; {} rows are right with {} alone, {} with {} alone\n", c.mcnemar_p,
        with_commas(c.only_a), printable(a), with_commas(c.only_b), printable(b));
}

// Before the first model's hour: whether the second one can be asked about these rows at all.
void check_fits(const TextModel& model, const std::string& name, const Dataset& data) {
  try {
    predict(model, {.kind = data.kind, .problem = data.problem, .labels = data.labels});
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", printable(name), error.what()), error.hint(), "compare");
  }
}

// One model's part of the work, and of the output.
class ModelReport {
 public:
  ModelReport(const Settings& settings, const ScoreOptions& scoring)
      : settings_(settings), scoring_(scoring) {}

  Predictions operator()(const TextModel& model, const std::string& name, const Dataset& data) {
    Predictions predictions = predict_with_progress(settings_, model, data);
    evaluation_ = score(data, predictions, scoring_);
    if (settings_.json) {
      print(to_json(evaluation_, name) + "\n");
      return predictions;
    }
    const Style style = Style::for_output();
    if (settings_.compare) print("{}{}\n", first_ ? "" : "\n", style.bold(printable(name)));
    first_ = false;
    print_scores(evaluation_.scores, scoring_.resamples > 0, style);
    print_classes(evaluation_, style);
    print_confusion(evaluation_, style);
    print_thresholds(evaluation_, scoring_.threshold);
    return predictions;
  }
  const Evaluation& last() const { return evaluation_; }

 private:
  const Settings& settings_;
  const ScoreOptions& scoring_;
  Evaluation evaluation_;
  bool first_ = true;
};

void write_files(const Settings& settings, const Dataset& data, const Predictions& predictions,
                 const Evaluation& evaluation, const ScoreOptions& scoring) {
  if (settings.errors) {
    const std::vector<Mistake> wrong = mistakes(data, predictions, settings.top.value_or(100), scoring);
    write_file(*settings.errors,
               is_page(*settings.errors) ? mistakes_page(data, evaluation, wrong) : to_json(wrong) + "\n");
  }
  if (!settings.predictions) return;
  std::string lines;
  for (size_t row = 0; row < data.size(); ++row) lines += to_json(data, predictions, row, scoring) + "\n";
  write_file(*settings.predictions, lines);
}

}  // namespace

int evaluate_command(const Settings& settings) {
  if (settings.first_word == kLanguageModel) return evaluate_lm(settings);
  check_files(settings);
  if (settings.each)
    refuse({{settings.compare.has_value(), "compare"},
            {settings.without.has_value(), "without"},
            {settings.bootstrap.has_value(), "bootstrap"},
            {settings.errors.has_value(), "errors"},
            {settings.predictions.has_value(), "predictions"}},
           "not for --each-head");
  const auto kind = TaskKind(settings.first_word);
  refuse_for(kind, settings);
  const Head head = head_of(kind);
  Settings tasks = settings;
  if (head == Head::kAnswer) tasks.max_length.reset();  // that of windows
  const Work work = work_of(TaskKind(settings.first_word));
  const TextModel model = load_model(tasks, work);
  std::optional<TextModel> other;
  if (settings.compare) {
    tasks.model = settings.compare;
    tasks.without.reset();  // so that a model can be compared with itself
    other = load_model(tasks, work);
  }
  const Dataset data = read_data(settings, model);
  ScoreOptions scoring{.threshold = settings.threshold.value_or(0),
                       .metric = settings.metric.value_or(""),
                       .resamples = settings.bootstrap.value_or(1000),
                       .confidence = kConfidence};
  main_score(data, scoring);  // throws now, not after an hour, where there is no such score
  if (settings.compare && scoring.resamples == 0)
    throw UsageError("two models are compared by the bootstrap, which --bootstrap 0 leaves out",
                     "--bootstrap 2000");
  if (other) check_fits(*other, *settings.compare, data);
  if (settings.each)
    return evaluate_each_head(settings, model, model_name(settings, work), data, predict_options(settings),
                              scoring);
  ModelReport report(settings, scoring);
  const Predictions predictions = report(model, model_name(settings, work), data);
  write_files(settings, data, predictions, report.last(), scoring);
  if (!settings.compare) return 0;
  const Predictions others = report(*other, *settings.compare, data);
  const Comparison comparison = compare(data, predictions, others, scoring);
  if (settings.json)
    print(to_json(comparison) + "\n");
  else
    print_comparison(comparison, model_name(settings, work), *settings.compare);
  return 0;
}

}  // namespace bertie::cli
