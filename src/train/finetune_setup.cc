#include "train/finetune_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bertie/error.h"
#include "io/checksum.h"
#include "io/json.h"
#include "tasks/text_model_state.h"
#include "train/data/unlabeled.h"
#include "train/model_sizes.h"

namespace bertie {
namespace {

constexpr size_t kAnswerLength = 384;  // as BERT's authors had it for SQuAD
constexpr double kFewestSteps = 100;   // of a run whose length is not given: a dozen rows need many epochs
constexpr double kMostEvaluations = 20;
constexpr double kDevShare = 0.1;  // of the training rows, where nobody says how many are to be taken out,
constexpr size_t kMostDevRows = 2000;  // and at most so many
constexpr size_t kMostTokens = 8192;   // of a micro-batch: memory stays bounded

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
  const double dev_share = job.dev_share.value_or(kDevShare);
  need(dev_share >= 0 && dev_share < 1, "dev_share",
       fmt::format("`dev_share` {} leaves nothing to learn from", dev_share), "`dev_share` 0.1");
  need(job.epochs >= 0 && std::isfinite(job.epochs), "epochs",
       fmt::format("`epochs` {} makes no sense", job.epochs), "`epochs` 3");
  need(job.dev_file.empty() || !job.dev_share, "dev_share",
       "there is a `dev_file`: nothing is taken out of the rows to learn from", "one of the two");
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
  const double share =
      job.dev_share.value_or(std::min(kDevShare, double(kMostDevRows) / double(train.size())));
  if (share == 0) return {std::move(train), {}};
  return split(std::move(train), share, job.train.seed);
}

// The model's own order of labels, where it has a head for just these.
std::optional<std::vector<std::string>> labels_of_head(const Config& config, const Dataset& data) {
  if (data.kind == TaskKind::kAnswer || data.problem == Problem::kRegression) return config.labels;
  // 0 and 1 are LABEL_0 and LABEL_1.
  const auto is_numbered = [](const std::vector<std::string>& labels, const char* before) {
    for (size_t i = 0; i < labels.size(); ++i)
      if (labels[i] != fmt::format("{}{}", before, i)) return false;
    return true;
  };
  if (config.labels.size() == data.labels.size() && is_numbered(config.labels, "LABEL_") &&
      is_numbered(data.labels, "") && config.problem != Problem::kRegression)
    return data.labels;
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

uint64_t checksum_of(const Dataset& data, uint64_t sum) {
  const auto add = [&](std::string_view text) { sum = io::checksum(text, io::chain(sum, text.size())); };
  const auto add_numbers = [&](const std::vector<int32_t>& numbers) {
    sum = io::checksum(std::as_bytes(std::span(numbers)), io::chain(sum, numbers.size()));
  };
  for (const std::string& label : data.labels) add(label);
  for (const TextExample& row : data.texts) {
    add(row.a), add(row.b), add_numbers(row.labels);
    sum = io::checksum(std::as_bytes(std::span(&row.value, 1)), sum);
  }
  for (const TaggedSentence& sentence : data.sentences) {
    for (const std::string& word : sentence.words) add(word);
    add_numbers(sentence.tags);
  }
  for (const SquadQuestion& q : data.questions) {
    add(q.question), add(q.context);
    for (const SquadQuestion::Answer& answer : q.answers)
      add(answer.text), sum = io::chain(sum, answer.start);
  }
  return sum;
}

}  // namespace

FinetuneSetup::FinetuneSetup(const FinetuneJob& given, int threads, size_t ranks) : job(given) {
  check_job(job);
  for (std::string* path : {&job.model, &job.teaching.teacher})  // so that their last part is their name
    while (path->size() > 1 && path->ends_with('/')) path->pop_back();
  const Teaching& teaching = job.teaching;
  if (!teaching.teacher.empty()) {
    teacher.emplace(teaching.teacher, job.kind, threads);
    take_problem_of_teacher();
  }
  const bool of_teacher = job.model.empty();
  if (of_teacher) job.model = teaching.teacher;
  const ModelFiles inside = transformer_files(ModelFiles(job.model));
  files = inside;
  tokenizer.emplace(Tokenizer::load(inside));
  config = Config::load(inside);
  check_vocabulary(*tokenizer, config, job.model);
  if (of_teacher) {
    layers = student_layers(teaching, config.layers);
    config.layers = layers.size();
  }
  if (config.causal() && job.kind == TaskKind::kAnswer)
    throw Error("a causal model has no head for answers", "an encoder, such as bert-base-uncased", "model");
  data = read_data(job);
  if (teacher) take_labels_of_teacher();

  const std::optional<std::vector<std::string>> known = labels_of_head(config, data.train);
  continues_head = known.has_value() && !job.fresh_head && Model::load(inside).has(head_of(job.kind));
  // What a teacher says is in the order of its labels.
  if (teacher && job.kind != TaskKind::kAnswer)
    continues_head = continues_head && *known == teacher->config().labels;
  if (job.kind != TaskKind::kAnswer) {
    const bool regression = data.train.problem == Problem::kRegression && job.kind != TaskKind::kTag;
    if (regression) continues_head = continues_head && config.labels.size() == 1;
    const std::string& number = data.train.number_name;
    const std::vector<std::string> labels =
        continues_head ? *known
        : regression   ? std::vector<std::string>{number.empty() ? "LABEL_0" : number}
                       : data.train.labels;
    if (!regression) {
      data.train = with_labels(std::move(data.train), labels);
      if (evaluates()) {
        // An unknown label among known ones is no place, but makes a bad row.
        dev_labels_are_places =
            !data.dev.labels.empty() && std::ranges::find_first_of(labels, data.dev.labels) == labels.end();
        data.dev = with_labels(std::move(data.dev), labels, job.data);
      }
    }
    config.labels = labels;
    config.labels_first_pieces = job.kind == TaskKind::kTag;
    config.problem = job.kind == TaskKind::kTag ? Problem::kUnset : data.train.problem;
  }
  if (job.dropout >= 0) {
    config.dropout = config.attention_dropout = job.dropout;
    config.classifier_dropout = config.embedding_dropout = -1;  // as dropout
  }
  size_t limit = config.max_tokens();
  // Answers are places among tokens: a teacher reads the same.
  if (teacher && job.kind == TaskKind::kAnswer) limit = std::min(limit, teacher->max_length());
  const size_t most = std::min(limit, tokenizer->model_max_length());
  max_length = job.max_length > 0              ? job.max_length
               : job.kind == TaskKind::kAnswer ? std::min(most, kAnswerLength)
                                               : most;
  if (max_length > limit)
    throw Error(fmt::format("sequences of {} tokens are too long: the model{} reads {} at most", max_length,
                            teacher ? " or its teacher" : "", limit),
                fmt::format("`max_length` {}", limit), "max_length");
  most_length = limit;
  shorter = max_length < most && job.kind != TaskKind::kAnswer;
  // A correlation is as high where all numbers are of the wrong size.
  if (job.metric.empty() && evaluates() && data.train.problem == Problem::kRegression) job.metric = "r2";
  check_data();
  make_plan(ranks);
}

// What was asked for must fit the rows that were found.
void FinetuneSetup::check_data() const {
  const bool classes = job.kind == TaskKind::kTag ||
                       (job.kind != TaskKind::kAnswer && data.train.problem == Problem::kSingleLabel);
  if (!classes && (job.balance_classes || job.label_smoothing > 0))
    throw Error("class weights and label smoothing are for tasks with one class of several", "leave them out",
                job.balance_classes ? "balance_classes" : "label_smoothing");
  if (loss_weights().hard == 0 && (job.balance_classes || job.label_smoothing > 0))
    throw Error("class weights and label smoothing are for labels, which this student does not hear",
                "leave them out", job.balance_classes ? "balance_classes" : "label_smoothing");
  if (job.seeds > 1 && !evaluates())
    throw Error("several seeds are compared on dev data, and there is none",
                "`dev_file` FILE, or a `dev_share`", "seeds");
  if (job.baseline && !data.train.labeled)
    throw Error("baselines learn from labels, and there are none", "`train_file` FILE", "baseline");
  if (job.baseline && !evaluates())
    throw Error("baselines are compared on dev data, and there is none", "`dev_file` FILE, or a `dev_share`",
                "baseline");
  if (!job.metric.empty() && evaluates()) check_metric();
  for (const auto& [given, field] :
       {std::pair(job.train.patience > 0, "patience"), {!job.metric.empty(), "metric"}})
    if (given && !evaluates())
      throw Error(fmt::format("`{}` is about dev rows, and there are none", field),
                  "`dev_file` FILE, or a `dev_share`", field);
}

// Labels are read as the teacher's are: five rows may have no fraction in them, or no list.
void FinetuneSetup::take_problem_of_teacher() {
  const std::optional<Problem> its = problem_of(teacher->config(), job.kind);
  if (!its) return;
  if (job.data.problem == Problem::kUnset) job.data.problem = *its;
  if (job.data.problem != *its)
    throw Error("the teacher's labels are not of this kind",
                "leave `problem` out: it is what the teacher was trained for", "problem");
}

// The student says what its teacher says, in the same order.
void FinetuneSetup::take_labels_of_teacher() {
  if (!job.train_file.empty() && !job.unlabeled_file.empty())
    unlabeled = read_unlabeled(job.kind, job.unlabeled_file, job.data);
  for (Dataset* rows : {&data.train, &data.dev, unlabeled ? &*unlabeled : nullptr}) {
    if (!rows || rows->size() == 0 || job.kind == TaskKind::kAnswer) continue;
    if (job.kind != TaskKind::kTag) rows->problem = job.data.problem;
    if (rows->problem == Problem::kRegression) continue;
    *rows = with_labels(std::move(*rows), teacher->config().labels, job.data);
    rows->labels = teacher->config().labels;  // also of rows that have none
  }
}

// A score that does not exist is said now, not after the first epoch.
void FinetuneSetup::check_metric() const {
  const NamedScore first = main_score(data.dev, {.metric = job.metric});
  if (!first.higher_is_better)
    throw Error(
        fmt::format("`metric` {} is the better the lower it is, and a checkpoint is chosen by a score "
                    "that is the better the higher",
                    first.name),
        "another score, or none: the task's own", "metric");
}

void FinetuneSetup::make_plan(size_t ranks) {
  const std::unique_ptr<TaskSource> source = make_source(job.train.seed, nullptr);
  const Dataset &train = data.train, &dev = data.dev;
  const size_t rows = train.size() + (unlabeled ? unlabeled->size() : 0);
  plan = {.train_found = train.found,
          .dev_found = job.dev_file.empty() ? "" : dev.found,
          .rows = train.size(),
          .dev_rows = dev.size(),
          .bad_rows = train.bad_rows + dev.bad_rows + (unlabeled ? unlabeled->bad_rows : 0),
          .unlabeled_found = unlabeled ? unlabeled->found : "",
          .unlabeled_rows = unlabeled ? unlabeled->size() : 0,
          .model =
              layers.empty() ? job.model : fmt::format("layers {} of {}", fmt::join(layers, ", "), job.model),
          .problem = data.train.problem,
          .labels = config.labels,
          .lone_rows = lone_rows(data.train),
          .dev_labels_are_places = dev_labels_are_places,
          .truncated = source->truncated(),
          .longest = source->longest(),
          .max_length = max_length,
          .most_length = most_length,
          .tokens = source->tokens(),
          .continues_head = continues_head,
          .epochs = job.epochs > 0 ? job.epochs : default_epochs(rows),
          .train = job.train};
  const Dataset* const others = unlabeled ? &*unlabeled : nullptr;
  if (train.problem == Problem::kRegression && !train.texts.empty()) {
    const auto [least, largest] = std::ranges::minmax_element(train.texts, {}, &TextExample::value);
    plan.least = least->value, plan.largest = largest->value;
  }
  for (const Dataset* part : {&train, &dev, others}) {
    if (!part || part->invalid_rows == 0) continue;
    if (plan.invalid_rows == 0) plan.first_invalid = part->first_invalid;
    plan.invalid_rows += part->invalid_rows;
  }
  EncodedTasks read;
  encode_tasks(dev, *tokenizer, encoding(), read);
  plan.dev_truncated = read.truncated;
  tokens = source->checksum();
  TrainOptions& o = plan.train;
  const size_t sequences = source->sequences();
  if (o.batch == 0) o.batch = std::min(default_batch(rows), std::max<size_t>(sequences, 1));
  if (o.rate == 0) o.rate = default_rate(config.hidden);
  const auto in_epoch = double(sequences) / double(o.batch);
  if (job.epochs == 0) plan.epochs = std::max(plan.epochs, std::round(kFewestSteps / in_epoch));
  if (job.epochs > 0 || (o.steps == 0 && o.tokens == 0 && o.seconds == 0)) {
    const auto steps = uint64_t(std::max(1.0, std::ceil(in_epoch * plan.epochs)));
    o.steps = o.steps > 0 ? std::min(o.steps, steps) : steps;
  }
  plan.epochs = double(o.steps) / in_epoch;  // 0 where tokens or time end the run
  if (!o.outlier) o.outlier = 0;
  if (!o.eval_every) {
    // Once an epoch, in long epochs every thousand steps or four times; in all not much more than twenty
    // times.
    const double times = std::clamp(in_epoch / 1000, 1.0, 4.0);
    o.eval_every = uint64_t(
        std::ceil(std::max({1.0, in_epoch / std::floor(times), double(o.steps) / kMostEvaluations})));
  }
  if (o.accumulate == 0) {
    const size_t share = (o.batch + ranks - 1) / ranks;  // of a rank
    const size_t cuts = (share * source->longest() + kMostTokens - 1) / kMostTokens;
    o.accumulate = std::clamp<size_t>(cuts, 1, std::max<size_t>(o.batch / ranks, 1));
  }
  if (!evaluates()) o.eval_every = 0;
}

FinetuneSetup::LossWeights FinetuneSetup::loss_weights() const {
  const Teaching& t = job.teaching;
  if (t.teacher.empty()) return {};
  const double hard = data.train.labeled ? t.hard_weight.value_or(0.5) : 0;
  const double soft = t.soft_weight.value_or(hard > 0 ? 0.5 : 1);
  if (hard == 0 && soft == 0)
    throw Error("without labels and with a `soft_weight` of 0 there is nothing to learn",
                "a `soft_weight` above 0", "soft_weight");
  return {hard, soft};
}

std::unique_ptr<TaskSource> FinetuneSetup::make_source(uint64_t seed, const SoftTargets* taught) const {
  const LossWeights weights = loss_weights();
  return make_task_source(
      data.train, *tokenizer,
      {.encoding = encoding(),
       .seed = seed,
       .class_weights = job.balance_classes ? balanced_weights(data.train) : std::vector<float>(),
       .smoothing = float(job.label_smoothing),
       .unlabeled = unlabeled ? &*unlabeled : nullptr,
       .teacher = taught,
       .hard_weight = weights.hard,
       .soft_weight = weights.soft,
       .temperature = float(job.teaching.temperature)});
}

std::string FinetuneSetup::description() const {
  nlohmann::ordered_json all = {
      {"task", name_of(job.kind)},
      {"max_length", max_length},
      {"epochs", plan.epochs},
      {"metric", evaluates() ? main_score(data.dev, {.metric = job.metric}).name : ""},
      {"dev rows", fmt::format("{:016x}", checksum_of(data.dev, 0))},
      {"layer_decay", job.layer_decay},
      {"balance_classes", job.balance_classes},
      {"label_smoothing", job.label_smoothing},
      {"dropout", largest_dropout(config)}};
  if (job.train.bf16) all["bf16"] = true;
  if (job.freeze) all["freeze"] = *job.freeze;
  if (!job.teaching.teacher.empty())
    all.update({{"teacher", job.teaching.teacher},
                {"temperature", job.teaching.temperature},
                {"hard_weight", loss_weights().hard},
                {"soft_weight", loss_weights().soft},
                {"layers", layers}});
  const auto shape = nlohmann::ordered_json::parse(config.to_json());
  for (const auto& [key, value] : shape.items()) all["model's " + key] = value;
  return io::dump(all);
}

std::string FinetuneSetup::key() const {
  const TrainOptions& o = plan.train;
  nlohmann::ordered_json all = nlohmann::ordered_json::parse(description());
  all["began as"] = weights_checksum(*files);
  if (teacher) all["teacher's weights"] = weights_checksum(teacher->files());
  all["fresh head"] = !continues_head;
  all["ends"] = {o.steps, o.tokens, o.seconds, o.patience};
  all["evaluates"] = o.eval_every.value_or(0);
  all["learns"] = {
      o.batch, o.rate, name_of(o.schedule), o.warmup, o.cooldown, name_of(o.method), o.beta1, o.beta2, o.eps,
      o.decay, o.clip, *o.outlier,          o.average};
  uint64_t rows = checksum_of(data.dev, checksum_of(data.train, 0));
  if (unlabeled) rows = checksum_of(*unlabeled, rows);
  return fmt::format("{:016x}", io::checksum(io::dump(all), rows));
}

// Small sets take more epochs: some 30,000 rows seen, which is what BERT's authors' three epochs are for the
// smaller ones of GLUE and what Mosbach et al. (2021) found steady.
double default_epochs(size_t rows) {
  if (rows >= 200'000) return 2;
  return std::clamp(std::round(30'000 / double(std::max<size_t>(rows, 1))), 3.0, 20.0);
}

size_t default_batch(size_t rows) { return rows < 10'000 ? 16 : 32; }

// 3e-5 for a width of 768: narrower models take larger steps.
double default_rate(size_t hidden) { return 3e-5 * 768 / double(hidden); }

}  // namespace bertie
