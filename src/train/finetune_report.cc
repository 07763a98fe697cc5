// What a fine-tuned model says of itself: metrics.json for programs, README.md for people.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "bertie/json.h"
#include "io/json.h"
#include "train/finetune.h"
#include "train/metrics/scorer.h"

namespace bertie {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json scores_of(const std::vector<NamedScore>& scores) {
  Json out = Json::object();
  for (const NamedScore& s : scores) out[s.name] = number(s.value);
  return out;
}

Json json_of(const SeedResult& r) {
  return {{"seed", r.seed},
          {"best_step", r.best_step},
          {"scores", scores_of(r.scores)},
          {"seconds", r.seconds},
          {"tokens", r.tokens}};
}

Json json_of(const std::vector<BaselineResult>& results) {
  Json out = Json::array();
  for (const BaselineResult& r : results)
    out.push_back({{"name", r.name}, {"scores", scores_of(r.evaluation.scores)}, {"seconds", r.seconds}});
  return out;
}

std::vector<NamedScore> scores_from(const Json& object) {
  std::vector<NamedScore> out;
  for (const auto& [key, value] : object.items()) {
    const double score = value.is_number() ? value.get<double>() : NAN;
    out.push_back(metrics::named(key, score));
  }
  return out;
}

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::string shown(double value) { return std::isfinite(value) ? fmt::format("{:.4f}", value) : "–"; }

// What the hub calls a task.
std::string_view pipeline_of(TaskKind kind) {
  if (kind == TaskKind::kTag) return "token-classification";
  return kind == TaskKind::kAnswer ? "question-answering" : "text-classification";
}

// What the model was at first, without the path to it.
std::string began_as(const FinetuneReport& r) {
  std::string words = r.plan.model;
  if (words.ends_with(r.job.model)) words.resize(words.size() - r.job.model.size());
  return words + file_name(r.job.model);
}

std::string labels_in_words(const std::vector<std::string>& labels) {
  constexpr size_t kMost = 30;
  std::string out;
  for (size_t i = 0; i < std::min(labels.size(), kMost); ++i)
    out += fmt::format("{}`{}`", i > 0 ? ", " : "", labels[i]);
  if (labels.size() > kMost) out += fmt::format(" and {} more", labels.size() - kMost);
  return out;
}

// Their rows, then this model's, with its scores.
std::string baselines_table(const FinetuneResult& result) {
  const SeedResult& best = result.seeds[result.best];
  std::string out = "Simpler models that learned the same rows, on the same dev rows:\n\n| model |",
              line = "|---|";
  for (const NamedScore& s : best.scores) out += fmt::format(" {} |", s.name), line += "---|";
  out += fmt::format(" seconds |\n{}---|\n", line);
  const auto add = [&](const std::string& name, const std::vector<NamedScore>& scores, double seconds) {
    out += fmt::format("| {} |", name);
    for (const NamedScore& wanted : best.scores) {
      const auto found = std::ranges::find(scores, wanted.name, &NamedScore::name);
      out += fmt::format(" {} |", shown(found == scores.end() ? NAN : found->value));
    }
    out += fmt::format(" {:.1f} |\n", seconds);
  };
  for (const BaselineResult& b : result.baselines) add(b.name, b.evaluation.scores, b.seconds);
  add("this model", best.scores, best.seconds);
  return out + "\n";
}

}  // namespace

std::string seed_json(const SeedResult& result, const std::string& key) {
  Json all = json_of(result);
  all["key"] = key;
  return io::dump(all) + "\n";
}

std::optional<SeedResult> seed_from_json(const std::string& text, const std::string& name,
                                         const std::string& key) {
  const Json all = Json::parse(text, nullptr, false);  // in which scores keep their order
  if (!all.is_object() || !all.contains("scores") || !all["scores"].is_object())
    throw Error(fmt::format("{} is not the result of a run", name), "remove it, and the run is done again");
  if (all.value("key", Json()) != key) return {};
  constexpr size_t kMost = size_t{1} << 53;
  const nlohmann::json plain = all;
  SeedResult out{.seed = io::get_size(plain, "seed", name, {}, kMost),
                 .best_step = io::get_size(plain, "best_step", name, {}, kMost),
                 .seconds = io::get_number(plain, "seconds", name),
                 .tokens = io::get_size(plain, "tokens", name, {}, kMost)};
  out.scores = scores_from(all["scores"]);
  return out;
}

std::string baselines_json(const std::vector<BaselineResult>& results, const std::string& key) {
  return io::dump(Json{{"key", key}, {"baselines", json_of(results)}}) + "\n";
}

std::vector<BaselineResult> baselines_from_json(const std::string& text, const std::string& name,
                                                const std::string& key) {
  const Json file = Json::parse(text, nullptr, false);
  if (!file.is_object() || !file.contains("baselines"))
    throw Error(fmt::format("{} is not what baselines came to", name), "remove it, and they are done again");
  if (file.value("key", Json()) != key) return {};
  const Json& all = file["baselines"];
  std::vector<BaselineResult> out;
  const auto good = [](const Json& one) {
    return one.is_object() && one.contains("name") && one["name"].is_string() && one.contains("scores") &&
           one["scores"].is_object() && one.contains("seconds") && one["seconds"].is_number();
  };
  if (!all.is_array() || !std::all_of(all.begin(), all.end(), good))
    throw Error(fmt::format("{} is not what baselines came to", name), "remove it, and they are done again");
  for (const Json& one : all)
    out.push_back({one["name"], {.scores = scores_from(one["scores"])}, one["seconds"]});
  return out;
}

MeanScore mean_score(const std::vector<SeedResult>& seeds, const std::string& name) {
  std::vector<double> values;
  for (const SeedResult& seed : seeds)
    for (const NamedScore& s : seed.scores)
      if (s.name == name) values.push_back(s.value);
  MeanScore out;
  for (const double v : values) out.mean += v / double(values.size());
  for (const double v : values) out.deviation += (v - out.mean) * (v - out.mean);
  out.deviation = values.size() > 1 ? std::sqrt(out.deviation / double(values.size() - 1)) : 0;
  return out;
}

std::string metrics_json(const FinetuneReport& r) {
  const TrainOptions& o = r.plan.train;
  const bool labeled = !r.job.train_file.empty();
  Json all = {{"task", name_of(r.job.kind)},
              {"model", r.job.model},
              {"train",
               {{"file", file_name(labeled ? r.job.train_file : r.job.unlabeled_file)},
                {"rows", r.plan.rows},
                {"format", r.plan.train_found}}},
              {"options",
               {{"epochs", r.plan.epochs},
                {"steps", o.steps},
                {"batch", o.batch},
                {"rate", o.rate},
                {"schedule", name_of(o.schedule)},
                {"warmup", o.warmup},
                {"optimizer", name_of(o.method)},
                {"decay", o.decay},
                {"clip", o.clip},
                {"bf16", o.bf16},
                {"eval_every", o.eval_every.value_or(0)},
                {"patience", o.patience},
                {"max_length", r.plan.max_length},
                {"stride", r.job.stride},
                {"freeze", r.job.freeze ? Json(*r.job.freeze) : Json(nullptr)},
                {"layer_decay", r.job.layer_decay},
                {"balance_classes", r.job.balance_classes},
                {"label_smoothing", r.job.label_smoothing},
                {"dropout", r.job.dropout >= 0 ? Json(r.job.dropout) : Json(nullptr)}}}};
  if (const Teaching& t = r.job.teaching; !t.teacher.empty()) {
    all["teacher"] = {
        {"model", t.teacher}, {"temperature", t.temperature}, {"scores", scores_of(r.result.teacher)}};
    all["teacher"]["student"] = began_as(r);
    if (!r.job.unlabeled_file.empty())
      all["unlabeled"] = {{"file", file_name(r.job.unlabeled_file)},
                          {"rows", labeled ? r.plan.unlabeled_rows : r.plan.rows}};
  }
  if (r.plan.dev_rows > 0)
    all["dev"] = {{"file", r.job.dev_file.empty() ? "" : file_name(r.job.dev_file)},
                  {"rows", r.plan.dev_rows}};
  if (!r.result.seeds.empty()) {
    const SeedResult& best = r.result.seeds[r.result.best];
    all["scores"] = scores_of(best.scores);
    all["best_seed"] = best.seed;
    for (const SeedResult& seed : r.result.seeds) all["seeds"].push_back(json_of(seed));
    if (r.result.seeds.size() > 1)
      for (const NamedScore& s : best.scores) {
        const MeanScore mean = mean_score(r.result.seeds, s.name);
        all["over_seeds"][s.name] = {{"mean", number(mean.mean)}, {"deviation", number(mean.deviation)}};
      }
  }
  if (!r.result.baselines.empty()) all["baselines"] = json_of(r.result.baselines);
  if (r.result.evaluation.rows > 0) all["evaluation"] = Json::parse(to_json(r.result.evaluation));
  return io::dump(all, 1) + "\n";
}

std::string model_card(const FinetuneReport& r) {
  const TrainOptions& o = r.plan.train;
  std::string out = fmt::format(
      "---\nlibrary_name: transformers\npipeline_tag: {}\ntags:\n- bertie\n---\n\n"
      "# {} {}: {}\n\n",
      pipeline_of(r.job.kind), file_name(r.job.model),
      r.job.teaching.teacher.empty() ? "fine-tuned" : "as a student", name_of(r.job.kind));
  const bool labeled = !r.job.train_file.empty();
  out += fmt::format("Trained by Bertie {} on {} rows of `{}` ({}).\n\n", BERTIE_VERSION, r.plan.rows,
                     file_name(labeled ? r.job.train_file : r.job.unlabeled_file), r.plan.train_found);
  if (!r.job.teaching.teacher.empty())
    out += fmt::format("It learned to say what its teacher, `{}`, says{}, and began as {}.\n\n",
                       file_name(r.job.teaching.teacher),
                       labeled && r.plan.unlabeled_rows > 0
                           ? fmt::format(", also of {} rows without labels", r.plan.unlabeled_rows)
                           : "",
                       began_as(r));
  if (r.plan.problem == Problem::kRegression && r.job.kind != TaskKind::kTag)
    out += fmt::format("It gives a number, `{}`.\n\n", r.plan.labels[0]);
  else if (r.job.kind != TaskKind::kAnswer && !r.plan.labels.empty())
    out += fmt::format("Labels: {}.\n\n", labels_in_words(r.plan.labels));
  if (!r.job.command.empty()) out += fmt::format("```sh\n{}\n```\n\n", r.job.command);
  if (r.plan.dev_rows > 0 && !r.result.seeds.empty()) {
    const SeedResult& best = r.result.seeds[r.result.best];
    const bool several = r.result.seeds.size() > 1, taught = !r.result.teacher.empty();
    out += fmt::format(
        "## Scores\n\nOn {} {} {}{}.\n\n", r.plan.dev_rows, r.plan.dev_rows == 1 ? "row" : "rows",
        r.job.dev_file.empty() ? "that were taken out of the training rows"
                               : fmt::format("of `{}`", file_name(r.job.dev_file)),
        several ? fmt::format("; the best of {} seeds, {}", r.result.seeds.size(), best.seed) : "");
    std::vector<std::string> cells{"score", "this model"};
    if (several) cells.push_back("mean ± deviation over seeds");
    if (taught) cells.push_back("teacher");
    const auto add_row = [&] { out += fmt::format("| {} |\n", fmt::join(cells, " | ")); };
    add_row();
    cells.assign(cells.size(), "---");
    add_row();
    for (const NamedScore& s : best.scores) {
      cells = {s.name, shown(s.value)};
      if (several) {
        const MeanScore mean = mean_score(r.result.seeds, s.name);
        cells.push_back(fmt::format("{} ± {}", shown(mean.mean), shown(mean.deviation)));
      }
      if (taught) {
        const auto its = std::ranges::find(r.result.teacher, s.name, &NamedScore::name);
        cells.push_back(its == r.result.teacher.end() ? "–" : shown(its->value));
      }
      add_row();
    }
    if (std::isfinite(best.scores[0].value))
      out +=
          "\nThis checkpoint was chosen by the first of them on the same rows, so on new text expect a "
          "little "
          "less.\n\n";
    else
      out += "\nThere were too few rows to choose a checkpoint by the first of them.\n\n";
  }
  if (!r.result.baselines.empty() && !r.result.seeds.empty()) out += baselines_table(r.result);
  const std::string length =
      o.steps > 0 ? fmt::format("{} steps of {} sequences ({:.3g} epochs)", o.steps, o.batch, r.plan.epochs)
                  : fmt::format("Steps of {} sequences", o.batch);
  out += fmt::format(
      "## How it was trained\n\n{}, highest learning rate {:.3g} ({}), sequences of up to {} tokens. `run/` "
      "has "
      "the logs, `metrics.json` all numbers.\n\n",
      length, o.rate, name_of(o.schedule), r.plan.max_length);
  out += fmt::format("## Use it\n\n```sh\nbertie {} -m . {}\n```\n", name_of(r.job.kind),
                     r.job.kind == TaskKind::kPair     ? "\"first text\" \"second text\""
                     : r.job.kind == TaskKind::kAnswer ? "\"question?\" --context text.txt"
                                                       : "\"your text\"");
  return out;
}

}  // namespace bertie
