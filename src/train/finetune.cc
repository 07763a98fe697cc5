// A fine-tuning run from its options: data, model, head, and the loop over them, once for each seed.
//
//   OUT/                 the model: config.json, model.safetensors, tokenizer, metrics.json, README.md
//   OUT/run/seed-1/      log.jsonl and, while it is trained, checkpoints; result.json when it is done
//   OUT/run/baselines.json   what simpler models came to, where that was asked for
//
// A seed that is better than those before it replaces the model in OUT; then its checkpoints go. What is
// killed anywhere continues with `resume`: a seed with a result.json is not done again.
#include "train/finetune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "bertie/error.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/folder_lock.h"
#include "io/json.h"
#include "io/model_file_names.h"
#include "model/learner.h"
#include "tasks/text_model_state.h"
#include "train/data/shard_folder.h"
#include "train/data/task_source.h"
#include "train/data/unlabeled.h"
#include "train/loop/trainer.h"
#include "train/ranks/on_ranks.h"
#include "train/ranks/rank_checks.h"
#include "train/teaching.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr size_t kAnswerLength = 384;  // as BERT's authors had it for SQuAD
constexpr double kFewestSteps = 100;   // of a run whose length is not given: a dozen rows need many epochs
constexpr double kMostEvaluations = 20;
constexpr size_t kMostDevRows = 2000;  // that are taken out of the training rows
constexpr size_t kMostTokens = 8192;   // of a micro-batch: memory stays bounded
constexpr const char* kResult = "result.json";

void check_job(const FinetuneJob& job) {
  const auto need = [](bool good, const char* field, const std::string& what, const std::string& hint) {
    if (!good) throw Error(what, hint, field);
  };
  const bool taught = !job.teaching.teacher.empty();
  need(taught || !job.model.empty(), "model", "there is no model to begin with",
       "`model` FOLDER or NAME: one that was pre-trained, such as bert-base-uncased");
  need(!job.train_file.empty() || (taught && !job.unlabeled_file.empty()), "train_file",
       "there is no data to learn from",
       taught ? "`train_file` FILE, or an `unlabeled_file`" : "`train_file` FILE");
  need(taught || job.unlabeled_file.empty(), "unlabeled_file",
       "rows without labels are for a teacher to say something of", "`teacher` MODEL");
  check_teaching(job.teaching);
  need(!job.train.out.empty(), "out", "the model needs a folder to go to", "`out` FOLDER");
  need(job.dev_share >= 0 && job.dev_share < 1, "dev_share",
       fmt::format("`dev_share` {} leaves nothing to learn from", job.dev_share), "`dev_share` 0.1");
  need(job.epochs >= 0 && std::isfinite(job.epochs), "epochs",
       fmt::format("`epochs` {} makes no sense", job.epochs), "`epochs` 3");
  need(job.seeds >= 1, "seeds", "`seeds` is at least 1", "`seeds` 3");
  need(job.layer_decay > 0 && job.layer_decay <= 1, "layer_decay",
       fmt::format("`layer_decay` {} is not above 0 and at most 1", job.layer_decay), "`layer_decay` 0.9");
  need(job.label_smoothing >= 0 && job.label_smoothing < 1, "label_smoothing",
       fmt::format("`label_smoothing` {} is not from 0 to below 1", job.label_smoothing),
       "`label_smoothing` 0.1");
  if (job.baseline) check_baselines(job.kind);
  need(job.dropout < 1, "dropout", fmt::format("`dropout` {} leaves nothing", job.dropout), "`dropout` 0.1");
}

// Rows to learn from and rows to measure with. Without a train_file those to learn from have no labels.
SplitDataset read_data(const FinetuneJob& job) {
  const bool labeled = !job.train_file.empty(), taught = !job.teaching.teacher.empty();
  Dataset train = labeled ? read_dataset(job.kind, job.train_file, job.data)
                          : read_unlabeled(job.kind, job.unlabeled_file, job.data);
  if (!taught) check_learnable(train);
  if (!labeled && job.dev_file.empty()) return {std::move(train), {}};
  if (!job.dev_file.empty()) {
    DatasetOptions options = job.data;
    if (labeled) options.problem = train.problem;
    Dataset dev = read_dataset(job.kind, job.dev_file, options);
    return {std::move(train), std::move(dev)};
  }
  const double share = std::min(job.dev_share, double(kMostDevRows) / double(train.size()));
  if (share == 0) return {std::move(train), {}};
  return split(std::move(train), share, job.train.seed);
}

// The model's own order of labels, where it has a head for just these.
std::optional<std::vector<std::string>> labels_of_head(const Config& config, const Dataset& data) {
  if (data.kind == TaskKind::kAnswer || data.problem == Problem::kRegression) return config.labels;
  const std::set<std::string> mine(data.labels.begin(), data.labels.end());
  const std::set<std::string> known(config.labels.begin(), config.labels.end());
  return mine == known && config.problem != Problem::kRegression ? std::optional(config.labels)
                                                                 : std::nullopt;
}

std::vector<float> balanced_weights(const Dataset& data) {
  std::vector<double> counts(data.labels.size());
  double all = 0;
  const auto count = [&](int32_t label) { ++counts[size_t(label)], ++all; };
  for (const TextExample& row : data.texts)
    for (const int32_t label : row.labels) count(label);
  for (const TaggedSentence& sentence : data.sentences)
    for (const int32_t tag : sentence.tags) count(tag);
  std::vector<float> weights;
  for (const double n : counts) weights.push_back(n > 0 ? float(all / (double(counts.size()) * n)) : 0.0f);
  return weights;
}

void write_file(const fs::path& path, const std::string& text) {
  io::AtomicFile out(path);
  out.write(text);
  out.commit();
}

class Finetuning {
 public:
  Finetuning(const FinetuneJob& job, Collective& ranks, const FinetuneEvents& events)
      : job_(job), ranks_(ranks), events_(events) {}

  FinetuneResult run() {
    check_job(job_);
    prepare();
    if (first_rank()) {
      fs::create_directories(job_.train.out / "run");
      lock_.emplace(job_.train.out / "run");
      if (lock_->taken())
        throw Error(fmt::format("another process trains in {}", job_.train.out.string()),
                    "wait for it, or another `out`", "out");
      check_folder();
      if (events_.planned) events_.planned(plan_);
    }
    result_.rank = ranks_.rank();
    result_.folder = job_.train.out;
    result_.rows = plan_.rows, result_.dev_rows = plan_.dev_rows;
    try {
      if (teacher_) ask_teacher();
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
  bool evaluates() const { return data_.dev.size() > 0; }
  fs::path folder_of(uint64_t seed) const { return job_.train.out / "run" / fmt::format("seed-{}", seed); }
  void tell(const std::function<void(std::string_view)>& event, const std::string& what) const {
    if (first_rank() && event) event(what);
  }

  // Data, labels, shape of the model, and what the run's options become.
  void prepare() {
    const Teaching& teaching = job_.teaching;
    if (!teaching.teacher.empty()) teacher_.emplace(teaching.teacher, job_.kind, threads());
    const bool of_teacher = job_.model.empty();
    if (of_teacher) job_.model = teaching.teacher;
    const ModelFiles inside = transformer_files(ModelFiles(job_.model));
    if (!inside.folder())
      throw Error("a model to fine-tune is a folder or a name", "`model` FOLDER", "model");
    model_folder_ = *inside.folder();
    tokenizer_.emplace(Tokenizer::load(inside));
    config_ = Config::load(inside);
    check_vocabulary(*tokenizer_, config_, job_.model);
    if (of_teacher) {
      layers_ = student_layers(teaching, config_.layers);
      config_.layers = layers_.size();
    }
    if (config_.causal() && job_.kind == TaskKind::kAnswer)
      throw Error("a causal model has no head for answers", "an encoder, such as bert-base-uncased", "model");
    data_ = read_data(job_);
    if (teacher_) take_labels_of_teacher();

    const std::optional<std::vector<std::string>> known = labels_of_head(config_, data_.train);
    continues_ = known.has_value() && !job_.fresh_head && Model::load(inside).has(head_of(job_.kind));
    if (job_.kind != TaskKind::kAnswer) {
      const bool regression = data_.train.problem == Problem::kRegression && job_.kind != TaskKind::kTag;
      if (regression) continues_ = continues_ && config_.labels.size() == 1;
      const std::vector<std::string> labels = regression   ? std::vector<std::string>{"LABEL_0"}
                                              : continues_ ? *known
                                                           : data_.train.labels;
      if (!regression) {
        data_.train = with_labels(std::move(data_.train), labels);
        if (evaluates()) data_.dev = with_labels(std::move(data_.dev), labels);
      }
      config_.labels = labels;
      config_.problem = job_.kind == TaskKind::kTag ? Problem::kUnset : data_.train.problem;
    }
    if (job_.dropout >= 0) {
      config_.dropout = config_.attention_dropout = job_.dropout;
      config_.classifier_dropout = config_.embedding_dropout = -1;  // as dropout
    }
    const size_t most = std::min(config_.max_tokens(), tokenizer_->model_max_length());
    max_length_ = job_.max_length > 0              ? job_.max_length
                  : job_.kind == TaskKind::kAnswer ? std::min(most, kAnswerLength)
                                                   : most;
    if (max_length_ > config_.max_tokens())
      throw Error(fmt::format("sequences of {} tokens are too long: the model reads {} at most", max_length_,
                              config_.max_tokens()),
                  fmt::format("`max_length` {}", config_.max_tokens()), "max_length");
    const bool classes = job_.kind == TaskKind::kTag ||
                         (job_.kind != TaskKind::kAnswer && data_.train.problem == Problem::kSingleLabel);
    if (!classes && (job_.balance_classes || job_.label_smoothing > 0))
      throw Error("class weights and label smoothing are for tasks with one class of several",
                  "leave them out", job_.balance_classes ? "balance_classes" : "label_smoothing");
    if (job_.seeds > 1 && !evaluates())
      throw Error("several seeds are compared on dev data, and there is none",
                  "`dev_file` FILE, or a `dev_share`", "seeds");
    // A correlation is as high where all numbers are of the wrong size.
    if (job_.metric.empty() && data_.train.problem == Problem::kRegression) job_.metric = "r2";
    if (job_.baseline && (!evaluates() || !data_.train.labeled))
      throw Error("baselines learn from labels and are compared on dev data, and there are none",
                  "`train_file` FILE and `dev_file` FILE, or a `dev_share`", "baseline");
    if (!job_.metric.empty() && evaluates()) check_metric();
    plan();
  }

  // A score that does not exist is said now, not after the first epoch.
  void check_metric() const {
    Predictions any{.columns = std::max<size_t>(data_.dev.labels.size(), 1)};
    if (job_.kind != TaskKind::kTag && job_.kind != TaskKind::kAnswer)
      any.scores.resize(data_.dev.size() * any.columns);
    for (const TaggedSentence& sentence : data_.dev.sentences) any.tags.push_back(sentence.tags);
    any.answers.resize(data_.dev.questions.size());
    const NamedScore first = score(data_.dev, any, {.metric = job_.metric}).scores.at(0);
    if (!first.higher_is_better)
      throw Error(
          fmt::format("`metric` {} is the better the lower it is, and a checkpoint is chosen by a score "
                      "that is the better the higher",
                      first.name),
          "another score, or none: the task's own", "metric");
  }

  void plan() {
    const std::unique_ptr<TaskSource> source = make_source(job_.train.seed);
    const Dataset &train = data_.train, &dev = data_.dev;
    plan_ = {.train_found = train.found,
             .dev_found = job_.dev_file.empty() ? "" : dev.found,
             .rows = train.size(),
             .dev_rows = dev.size(),
             .bad_rows = train.bad_rows + (job_.dev_file.empty() ? 0 : dev.bad_rows),
             .unlabeled_found = unlabeled_ ? unlabeled_->found : "",
             .unlabeled_rows = unlabeled_ ? unlabeled_->size() : 0,
             .model = layers_.empty() ? job_.model
                                      : fmt::format("layers {} of {}", fmt::join(layers_, ", "), job_.model),
             .labels = config_.labels,
             .truncated = source->truncated(),
             .longest = source->longest(),
             .max_length = max_length_,
             .tokens = source->tokens(),
             .continues_head = continues_,
             .epochs = job_.epochs > 0 ? job_.epochs : default_epochs(train.size()),
             .train = job_.train};
    TrainOptions& o = plan_.train;
    const size_t sequences = source->sequences();
    if (o.batch == 0) o.batch = std::min(default_batch(train.size()), std::max<size_t>(sequences, 1));
    if (o.rate == 0) o.rate = default_rate(config_.hidden);
    const auto in_epoch = double(sequences) / double(o.batch);
    if (job_.epochs == 0) plan_.epochs = std::max(plan_.epochs, std::round(kFewestSteps / in_epoch));
    if (job_.epochs > 0 || (o.steps == 0 && o.tokens == 0 && o.seconds == 0)) {
      const auto steps = uint64_t(std::max(1.0, std::ceil(in_epoch * plan_.epochs)));
      o.steps = o.steps > 0 ? std::min(o.steps, steps) : steps;
    }
    plan_.epochs = double(o.steps) / in_epoch;  // 0 where tokens or time end the run
    if (o.eval_every == 0) {
      // Once an epoch, in long epochs every thousand steps or four times; in all not much more than twenty
      // times.
      const double times = std::clamp(in_epoch / 1000, 1.0, 4.0);
      o.eval_every = uint64_t(
          std::ceil(std::max({1.0, in_epoch / std::floor(times), double(o.steps) / kMostEvaluations})));
    }
    if (o.accumulate == 1 && o.batch * source->longest() > kMostTokens)
      o.accumulate = std::min(o.batch, (o.batch * source->longest() + kMostTokens - 1) / kMostTokens);
    if (!evaluates()) o.eval_every = 0;
  }

  EncodeTasksOptions encoding() const { return {.max_length = max_length_, .stride = job_.stride}; }

  std::unique_ptr<TaskSource> make_source(uint64_t seed) const {
    const double hard = data_.train.labeled ? job_.teaching.hard_weight.value_or(0.5) : 0;
    return make_task_source(
        data_.train, *tokenizer_,
        {.encoding = encoding(),
         .seed = seed,
         .class_weights = job_.balance_classes ? balanced_weights(data_.train) : std::vector<float>(),
         .smoothing = float(job_.label_smoothing),
         .unlabeled = unlabeled_ ? &*unlabeled_ : nullptr,
         .teacher = taught_ ? &*taught_ : nullptr,
         .hard_weight = hard,
         .soft_weight = job_.teaching.soft_weight.value_or(hard > 0 ? 0.5 : 1),
         .temperature = float(job_.teaching.temperature)});
  }

  // The student says what its teacher says, in the same order.
  void take_labels_of_teacher() {
    const Config& its = teacher_->config();
    Dataset& train = data_.train;
    if (!job_.train_file.empty() && !job_.unlabeled_file.empty())
      unlabeled_ = read_unlabeled(job_.kind, job_.unlabeled_file, job_.data);
    if (job_.kind == TaskKind::kAnswer) return;
    const bool number =
        job_.kind != TaskKind::kTag &&
        (its.problem == Problem::kRegression || (its.problem == Problem::kUnset && its.labels.size() == 1));
    if (job_.kind != TaskKind::kTag && train.labeled && number != (train.problem == Problem::kRegression))
      throw Error(number ? "the teacher says numbers, but the data has labels"
                         : "the data has numbers, but the teacher says labels",
                  "data of the kind that the teacher was trained on", "train_file");
    if (!train.labeled && job_.kind != TaskKind::kTag)
      train.problem = number                                ? Problem::kRegression
                      : its.problem == Problem::kMultiLabel ? Problem::kMultiLabel
                                                            : Problem::kSingleLabel;
    if (unlabeled_) unlabeled_->problem = train.problem;
    if (evaluates()) data_.dev.problem = train.problem;
    if (number) return;
    for (Dataset* data : {&train, &data_.dev, unlabeled_ ? &*unlabeled_ : nullptr})
      if (data && data->size() > 0)
        *data = with_labels(std::move(*data), its.labels), data->labels = its.labels;
  }

  // Once, for all seeds and epochs; and how good the teacher is itself.
  void ask_teacher() {
    TaskTeacher::Question question{
        .data = {&data_.train}, .encoding = encoding(), .file = job_.train.out / "run" / "teacher.bin"};
    if (unlabeled_) question.data.push_back(&*unlabeled_);
    if (job_.kind != TaskKind::kAnswer) question.encoding.max_length = teacher_->max_length();
    taught_ = teacher_->ask(question, ranks_, [this](size_t done, size_t all) {
      if (first_rank() && events_.taught) events_.taught(done, all);
      if (events_.stop && ranks_.size() == 1 && events_.stop()) throw Trainer::EvaluationStopped{};
    });
    if (first_rank() && evaluates())
      result_.teacher = measure(load(teacher_->folder(), load_options())).scores;
    teacher_.reset();
  }

  // A folder with a model that somebody else made is not written over.
  void check_folder() const {
    const fs::path& out = job_.train.out;
    std::error_code error;
    bool begun = false;
    for (const auto& entry : fs::directory_iterator(out / "run", error))
      begun |= entry.is_directory() && entry.path().filename().string().starts_with("seed-");
    if (begun && !job_.train.resume)
      throw Error(fmt::format("{} has a run already", out.string()),
                  "`resume` to continue it, or another `out`", "out");
    if (!begun && (fs::exists(out / io::kConfigFile) || fs::exists(out / io::kWeightsFile)))
      throw Error(fmt::format("{} has a model already, which would be overwritten", out.string()),
                  "another `out`", "out");
  }

  std::unique_ptr<Learner> make_fresh_learner(uint64_t seed) {
    const LearnerOptions how{.threads = threads(),
                             .recompute = job_.recompute,
                             .frozen_layers = job_.freeze,
                             .layer_decay = job_.layer_decay};
    std::unique_ptr<Learner> learner = make_learner(config_, {head_of(job_.kind)}, seed, how);
    const std::vector<std::string> fresh =
        learner->load(model_folder_, {.fresh_heads = !continues_, .layers = layers_});
    check_finite(*learner, model_folder_, "model");
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
        LoadedModel{Tokenizer::load(model_folder_), learner.view(), Modules{}, std::nullopt});
    return TextModelAccess::make(loaded, load_options());
  }
  int threads() const { return job_.threads > 0 ? job_.threads : threads_for_rank(ranks_); }
  LoadOptions load_options() const {
    return {.threads = threads(), .max_length = job_.kind == TaskKind::kAnswer ? 0 : max_length_};
  }

  Evaluation measure(const TextModel& model) const {
    PredictOptions how;
    how.max_length = max_length_, how.stride = job_.stride;
    if (events_.stop && ranks_.size() == 1)  // of several, the others wait for the result
      how.progress = [this](size_t, size_t) {
        if (events_.stop()) throw Trainer::EvaluationStopped{};
      };
    return evaluate(model, data_.dev, how, {.metric = job_.metric});
  }

  void measure_baselines() {
    const fs::path kept = job_.train.out / "run" / "baselines.json";
    if (job_.train.resume && fs::exists(kept)) {
      result_.baselines = baselines_from_json(std::string(io::MappedFile(kept).text()), kept.string());
      return;
    }
    BaselineOptions how{.model = model_folder_.string(),
                        .metric = job_.metric,
                        .seed = job_.train.seed,
                        .threads = threads(),
                        .done = events_.baseline_done};
    how.progress = [this](std::string_view name, double fraction) {
      if (events_.stop && ranks_.size() == 1 && events_.stop()) throw Trainer::EvaluationStopped{};
      if (events_.baseline) events_.baseline(name, fraction);
    };
    result_.baselines = train_baselines(data_.train, data_.dev, how);
    write_file(kept, baselines_json(result_.baselines) + "\n");
  }

  void run_seed(uint64_t seed) {
    const fs::path folder = folder_of(seed), done = folder / kResult;
    if (value_of_rank_0(ranks_, first_rank() && fs::exists(done)) > 0) {
      if (first_rank()) keep(seed_from_json(std::string(io::MappedFile(done).text()), done.string()), {});
      return;
    }
    const std::unique_ptr<Learner> learner = make_fresh_learner(seed);
    const std::unique_ptr<TaskSource> source = make_source(seed);
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
                         .dropout = largest_dropout() > 0,
                         .files = tokenizer_files_in(model_folder_),
                         .description = description()};
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
    write_file(done, to_json(result) + "\n");
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("step-") || entry.is_symlink())
        fs::remove_all(entry.path());
    if (events_.seed_done) events_.seed_done(result);
  }

  double largest_dropout() const {
    const Config& c = config_;
    return std::max({c.dropout, c.attention_dropout, c.classifier_dropout, c.embedding_dropout});
  }

  // A seed is done. Where it is the best so far, its model goes to the folder; `checkpoint` empty: it is
  // there.
  void keep(const SeedResult& result, const fs::path& checkpoint) {
    const auto value = [](const SeedResult& r) {
      const double v = r.scores.empty() ? NAN : r.scores[0].value;
      return std::isfinite(v) ? v : -std::numeric_limits<double>::infinity();
    };
    result_.seeds.push_back(result);
    if (result_.seeds.size() > 1 && !(value(result) > value(result_.seeds[result_.best]))) return;
    result_.best = result_.seeds.size() - 1;
    if (checkpoint.empty()) return;
    for (const auto& entry : fs::directory_iterator(checkpoint)) {
      const std::string name = entry.path().filename().string();
      if (name != "optimizer.safetensors" && name != "state.json")
        io::copy_whole(entry.path(), job_.train.out / name);
    }
  }

  void finish() {
    if (result_.evaluation.rows == 0 && evaluates())  // of a seed that was done before
      result_.evaluation = measure(load(job_.train.out, load_options()));
    const FinetuneReport report{job_, plan_, result_};
    write_file(job_.train.out / "metrics.json", metrics_json(report));
    write_file(job_.train.out / "README.md", model_card(report));
  }

  std::string description() const {
    nlohmann::ordered_json all = {{"task", name_of(job_.kind)},
                                  {"max_length", max_length_},
                                  {"epochs", plan_.epochs},
                                  {"metric", job_.metric},
                                  {"layer_decay", job_.layer_decay},
                                  {"balance_classes", job_.balance_classes},
                                  {"label_smoothing", job_.label_smoothing},
                                  {"dropout", largest_dropout()}};
    if (job_.freeze) all["freeze"] = *job_.freeze;
    if (taught_)
      all.update({{"teacher", job_.teaching.teacher},
                  {"temperature", job_.teaching.temperature},
                  {"hard_weight", job_.teaching.hard_weight.value_or(0.5)},
                  {"soft_weight", job_.teaching.soft_weight.value_or(0.5)},
                  {"layers", layers_}});
    const auto config = nlohmann::ordered_json::parse(config_.to_json());
    for (const auto& [key, value] : config.items()) all["model's " + key] = value;
    return all.dump();
  }

  FinetuneJob job_;
  Collective& ranks_;
  const FinetuneEvents& events_;
  std::optional<io::FolderLock> lock_;
  fs::path model_folder_;
  std::optional<Tokenizer> tokenizer_;
  Config config_;
  SplitDataset data_;
  std::optional<TaskTeacher> teacher_;  // until it was asked
  std::optional<Dataset> unlabeled_;
  std::optional<SoftTargets> taught_;
  std::vector<size_t> layers_;  // of the teacher, where the model is made of them
  bool continues_ = false;
  size_t max_length_ = 0;
  FinetunePlan plan_;
  FinetuneResult result_;
};

}  // namespace

// Small sets take more epochs: some 30,000 rows seen, which is what BERT's authors' three epochs are for the
// smaller ones of GLUE and what Mosbach et al. (2021) found steady.
double default_epochs(size_t rows) {
  if (rows >= 200'000) return 2;
  return std::clamp(std::round(30'000 / double(std::max<size_t>(rows, 1))), 3.0, 20.0);
}

size_t default_batch(size_t rows) { return rows < 10'000 ? 16 : 32; }

// 3e-5 for a width of 768: narrower models take larger steps.
double default_rate(size_t hidden) { return 3e-5 * 768 / double(hidden); }

FinetuneResult finetune(const FinetuneJob& job, Collective& ranks, const FinetuneEvents& events) {
  return Finetuning(job, ranks, events).run();
}

FinetuneResult finetune(const FinetuneJob& job, const FinetuneEvents& events) {
  return on_ranks(job.threads, events, [&](Collective& ranks) { return finetune(job, ranks, events); });
}

}  // namespace bertie
