// A fine-tuning run from its options: data, model, head, and the loop over them, once for each seed.
//
//   OUT/                 the model: config.json, model.safetensors, tokenizer, metrics.json, README.md
//   OUT/run/seed-1/      log.jsonl and, while it is trained, checkpoints; result.json when it is done
//   OUT/run/baselines.json   what simpler models came to, where that was asked for
//   OUT/run/teacher*     a teacher's logits and scores
//
// A seed that is better than those before it replaces the model in OUT; then its checkpoints go. What is
// killed anywhere continues with `resume`: a seed with a result.json is not done again.
#include "train/finetune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/folder_lock.h"
#include "io/json.h"
#include "io/model_file_names.h"
#include "model/learner.h"
#include "tasks/text_model_state.h"
#include "train/data/shard_folder.h"
#include "train/finetune_setup.h"
#include "train/loop/trainer.h"
#include "train/model_sizes.h"
#include "train/ranks/on_ranks.h"
#include "train/ranks/rank_checks.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr const char *kResult = "result.json", *kMetrics = "metrics.json", *kCard = "README.md";

void write_file(const fs::path& path, const std::string& text) {
  io::AtomicFile out(path);
  out.write(text);
  out.commit();
}

class Finetuning {
 public:
  Finetuning(const FinetuneJob& job, Collective& ranks, const FinetuneEvents& events)
      : ranks_(ranks),
        events_(events),
        threads_(job.threads > 0 ? job.threads : threads_for_rank(ranks)),
        setup_(job, threads_, size_t(ranks.size())),
        key_(setup_.key()) {}

  FinetuneResult run() {
    if (first_rank()) {
      check_folder();
      std::error_code error;
      fs::create_directories(job_.train.out / "run", error);
      if (error)
        throw Error(fmt::format("the folder {} cannot be made: {}", (job_.train.out / "run").string(),
                                error.message()),
                    "another `out`", "out");
      lock_.emplace(job_.train.out / "run");
      if (lock_->taken())
        throw Error(fmt::format("another process trains in {}", job_.train.out.string()),
                    "wait for it, or another `out`", "out");
      if (events_.planned) events_.planned(plan_);
      if (const std::string warning = warning_of(job_.train); !warning.empty() && events_.warning)
        events_.warning(warning);
    }
    result_.rank = ranks_.rank();
    result_.folder = job_.train.out;
    result_.rows = plan_.rows, result_.dev_rows = plan_.dev_rows;
    try {
      // What is wrong with the model is said before the long work.
      if (setup_.teacher || job_.baseline) first_learner_ = make_fresh_learner(job_.train.seed);
      if (setup_.teacher) ask_teacher();
      if (first_rank() && job_.baseline) measure_baselines();
      for (size_t i = 0; i < job_.seeds && result_.end != TrainEnd::kStopped; ++i)
        run_seed(job_.train.seed + i);
      if (first_rank() && result_.end != TrainEnd::kStopped) finish();
    } catch (const Trainer::EvaluationStopped&) {  // outside of the steps: all that was done is saved
      result_.end = TrainEnd::kStopped;
    }
    return std::move(result_);
  }

 private:
  bool first_rank() const { return ranks_.rank() == 0; }
  bool evaluates() const { return setup_.evaluates(); }
  fs::path folder_of(uint64_t seed) const { return job_.train.out / "run" / fmt::format("seed-{}", seed); }
  void tell(const std::function<void(std::string_view)>& event, const std::string& what) const {
    if (first_rank() && event) event(what);
  }

  // Once, for all seeds and epochs; and how good the teacher is itself.
  void ask_teacher() {
    const fs::path run = job_.train.out / "run", kept = run / "teacher.json";
    TaskTeacher::Request request{
        .data = {&setup_.data.train}, .encoding = setup_.encoding(), .folder = run, .tokens = setup_.tokens};
    if (setup_.unlabeled) request.data.push_back(&*setup_.unlabeled);
    if (job_.kind != TaskKind::kAnswer) request.encoding.max_length = setup_.teacher->max_length();
    if (setup_.loss_weights().soft > 0)
      taught_ = setup_.teacher->soft_targets(request, ranks_, [this](size_t done, size_t all) {
        if (first_rank() && events_.taught) events_.taught(done, all);
        return events_.stop && events_.stop();
      });
    const ModelFiles teacher = setup_.teacher->files();
    setup_.teacher.reset();
    if (!first_rank() || !evaluates()) return;
    std::optional<SeedResult> before;
    if (job_.train.resume && fs::exists(kept))
      before = seed_from_json(std::string(io::MappedFile(kept).text()), kept.string(), key_);
    result_.teacher = before ? before->scores : measure(load(teacher, {.threads = threads_})).scores;
    if (!before) write_file(kept, seed_json({.scores = result_.teacher}, key_));
  }

  // What somebody else put into the folder is not written over.
  void check_folder() const {
    const fs::path& out = job_.train.out;
    std::error_code error;
    bool begun = false;
    for (const auto& entry : fs::directory_iterator(out / "run", error)) {
      if (!entry.is_directory() || !entry.path().filename().string().starts_with("seed-")) continue;
      begun = true;
      // Of any seed: the model in the folder is the best of all.
      if (job_.train.resume && fs::exists(entry.path() / kResult)) result_of(entry.path() / kResult);
    }
    if (begun && !job_.train.resume)
      throw Error(fmt::format("{} has a run already", out.string()),
                  "`resume` to continue it, or another `out`", "out");
    std::vector<fs::path> files{io::kConfigFile, io::kWeightsFile, kMetrics, kCard};
    for (const std::string& name : tokenizer_files_in(*setup_.files)) files.emplace_back(name);
    for (const fs::path& file : files)
      if (!begun && fs::exists(out / file))
        throw Error(
            fmt::format("{} has a {} already, which would be overwritten", out.string(), file.string()),
            "another `out`", "out");
  }

  // Of a seed that was done before.
  SeedResult result_of(const fs::path& file) const {
    const auto before = seed_from_json(std::string(io::MappedFile(file).text()), file.string(), key_);
    if (!before)
      throw Error(
          fmt::format("{} is the result of a run on other rows, or with other options", file.string()),
          "`resume` with what that run had, or another `out`", "out");
    return *before;
  }

  std::unique_ptr<Learner> make_fresh_learner(uint64_t seed) {
    const LearnerOptions how{.threads = threads_,
                             .recompute = job_.recompute,
                             .bf16 = job_.train.bf16,
                             .frozen_layers = job_.freeze,
                             .layer_decay = job_.layer_decay};
    std::unique_ptr<Learner> learner = make_learner(setup_.config, {head_of(job_.kind)}, seed, how);
    const std::vector<std::string> fresh =
        learner->load(*setup_.files, {.fresh_heads = !setup_.continues_head, .layers = setup_.layers});
    check_finite(*learner, setup_.files->name(), "model");
    std::string pooler;
    for (const std::string& name : fresh)
      if (name.find("pooler") != name.npos) pooler = name;
    if (!pooler.empty() && seed == job_.train.seed)
      tell(events_.note,
           fmt::format("{} has no {}: it begins with fresh numbers, as the head does", job_.model, pooler));
    return learner;
  }

  // The learner's parameters as everybody will use them later.
  TextModel model_of(const Learner& learner) const {
    auto loaded = std::make_shared<LoadedModel>(
        LoadedModel{Tokenizer::load(*setup_.files), learner.view(), Modules{}, std::nullopt});
    return TextModelAccess::make(loaded, load_options());
  }
  LoadOptions load_options() const {
    return {.threads = threads_, .max_length = job_.kind == TaskKind::kAnswer ? 0 : setup_.max_length};
  }

  Evaluation measure(const TextModel& model) const {
    PredictOptions how;
    how.max_length = setup_.max_length, how.stride = job_.stride;
    if (events_.stop && ranks_.size() == 1)  // of several, the others wait for the result
      how.progress = [this](size_t, size_t) {
        if (events_.stop()) throw Trainer::EvaluationStopped{};
      };
    return evaluate(model, setup_.data.dev, how, {.metric = job_.metric});
  }

  void measure_baselines() {
    const fs::path kept = job_.train.out / "run" / "baselines.json";
    if (job_.train.resume && fs::exists(kept))
      result_.baselines = baselines_from_json(std::string(io::MappedFile(kept).text()), kept.string(), key_);
    if (!result_.baselines.empty()) return;
    BaselineOptions how{.model = job_.model,
                        .metric = job_.metric,
                        .seed = job_.train.seed,
                        .threads = threads_,
                        .done = events_.baseline_done,
                        .note = events_.note};
    how.progress = [this](std::string_view name, double fraction) {
      if (events_.stop && ranks_.size() == 1 && events_.stop()) throw Trainer::EvaluationStopped{};
      if (events_.baseline) events_.baseline(name, fraction);
    };
    result_.baselines = train_baselines(setup_.data.train, setup_.data.dev, how);
    write_file(kept, baselines_json(result_.baselines, key_));
  }

  void run_seed(uint64_t seed) {
    const fs::path folder = folder_of(seed), done = folder / kResult;
    if (value_of_rank_0(ranks_, first_rank() && fs::exists(done)) > 0) {
      first_learner_.reset();
      if (first_rank()) keep(result_of(done), {});
      return;
    }
    const std::unique_ptr<Learner> learner =
        first_learner_ && seed == job_.train.seed ? std::move(first_learner_) : make_fresh_learner(seed);
    const std::unique_ptr<TaskSource> source = setup_.make_source(seed, taught_ ? &*taught_ : nullptr);
    TrainOptions options = plan_.train;
    options.out = folder, options.seed = seed;
    options.resume = options.resume && fs::exists(folder);
    Evaluation evaluation;
    std::optional<TextModel> model;
    if (first_rank() && evaluates()) model.emplace(model_of(*learner));
    Trainer::Parts parts{.learner = *learner,
                         .source = *source,
                         .ranks = ranks_,
                         .max_length = source->longest(),
                         .dropout = largest_dropout(setup_.config) > 0,
                         .tokenizer = setup_.files,
                         .description = setup_.description()};
    Evaluation best;
    uint64_t best_step = 0;
    if (evaluates())
      parts.scores = [&] {
        evaluation = measure(*model);
        return evaluation.scores;
      };
    TrainEvents events = events_;
    events.evaluated = [&](const EvalResult& r) {
      if (r.best) best = evaluation, best_step = r.step;
      if (events_.evaluated) events_.evaluated(r);
    };
    if (first_rank() && events_.seed_begun) events_.seed_begun(size_t(seed - job_.train.seed));
    const TrainResult trained = Trainer(parts, options, events).run();
    result_.end = trained.end;
    if (trained.end == TrainEnd::kStopped || !first_rank()) return;

    const fs::path checkpoint = folder / (evaluates() && trained.best_step > 0 ? "best" : "last");
    // It was found before the run was resumed; or no evaluation gave a number, and the last one is taken.
    if (evaluates() && (best_step != trained.best_step || trained.best_step == 0)) {
      learner->load(checkpoint);
      best = measure(*model);
    }
    SeedResult result{.seed = seed,
                      .best_step = evaluates() ? trained.best_step : trained.step,
                      .scores = best.scores,
                      .seconds = trained.seconds,
                      .tokens = trained.tokens};
    keep(result, checkpoint);
    if (result_.best + 1 == result_.seeds.size()) result_.evaluation = best;
    write_file(done, seed_json(result, key_));
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("step-") || entry.is_symlink())
        fs::remove_all(entry.path());
    if (events_.seed_done) events_.seed_done(result);
  }

  // By the first score that is a number for both.
  static bool is_better(const SeedResult& one, const SeedResult& other) {
    for (size_t i = 0; i < std::min(one.scores.size(), other.scores.size()); ++i) {
      const NamedScore &a = one.scores[i], &b = other.scores[i];
      if (std::isfinite(a.value) && std::isfinite(b.value))
        return a.higher_is_better ? a.value > b.value : a.value < b.value;
    }
    return false;
  }

  // A seed is done. Where it is the best so far, its model goes to the folder; `checkpoint` empty: it is
  // there.
  void keep(const SeedResult& result, const fs::path& checkpoint) {
    result_.seeds.push_back(result);
    if (result_.seeds.size() > 1 && !is_better(result, result_.seeds[result_.best])) return;
    result_.best = result_.seeds.size() - 1;
    if (checkpoint.empty()) return;
    for (const auto& entry : fs::directory_iterator(checkpoint)) {
      const std::string name = entry.path().filename().string();
      if (name != "optimizer.safetensors" && name != "state.json")
        io::copy_whole(entry.path(), job_.train.out / name);
    }
    if (setup_.shorter)  // it was trained and measured with so many tokens: it is to be used with as many
      keep_length(setup_.max_length);
    else if (setup_.tokenizer->model_max_length() > setup_.config.max_tokens())
      keep_length(setup_.config.max_tokens());  // or transformers' tokenizer would not cut what is too long
  }

  void keep_length(size_t length) const {
    const fs::path file = job_.train.out / io::kTokenizerConfigFile;
    nlohmann::ordered_json config = nlohmann::ordered_json::object();
    if (fs::exists(file)) config = nlohmann::ordered_json::parse(io::MappedFile(file).text(), nullptr, false);
    if (!config.is_object()) throw Error(fmt::format("{} is not a JSON object", file.string()));
    config["model_max_length"] = length;
    write_file(file, io::dump(config, 2) + "\n");
  }

  void finish() {
    if (result_.evaluation.rows == 0 && evaluates())  // of a seed that was done before
      result_.evaluation = measure(load(job_.train.out, load_options()));
    const FinetuneReport report{job_, plan_, result_};
    write_file(job_.train.out / kMetrics, metrics_json(report));
    write_file(job_.train.out / kCard, model_card(report));
  }

  Collective& ranks_;
  const FinetuneEvents& events_;
  const int threads_;
  FinetuneSetup setup_;
  const std::string key_;
  const FinetuneJob& job_ = setup_.job;
  const FinetunePlan& plan_ = setup_.plan;
  std::optional<io::FolderLock> lock_;
  std::optional<SoftTargets> taught_;
  std::unique_ptr<Learner> first_learner_;
  FinetuneResult result_;
};

}  // namespace

FinetuneResult finetune(const FinetuneJob& job, Collective& ranks, const FinetuneEvents& events) {
  return Finetuning(job, ranks, events).run();
}

FinetuneResult finetune(const FinetuneJob& job, const FinetuneEvents& events) {
  return on_ranks(job.threads, events, [&](Collective& ranks) { return finetune(job, ranks, events); });
}

}  // namespace bertie
