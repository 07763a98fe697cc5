// A pre-training run from its options: model, data, and the loop over them.
#include "train/pretrain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bertie/error.h"
#include "bertie/tokenizer.h"
#include "core/parallel.h"
#include "io/json.h"
#include "model/learner.h"
#include "train/data/pair_source.h"
#include "train/data/pretraining_source.h"
#include "train/data/shard_folder.h"
#include "train/data/subset_source.h"
#include "train/data/taught_source.h"
#include "train/loop/trainer.h"
#include "train/model_sizes.h"
#include "train/ranks/on_ranks.h"
#include "train/teaching.h"
#include "train/watch.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr double kMuchUnused = 0.05;        // of the text: worth a warning
constexpr uint64_t kDefaultSteps = 20'000;  // where there is no limit
constexpr const char* kSeq2Seq = "seq2seq";
constexpr const char* kNearby = "nearby";

void check_choice(const PretrainJob& job) {
  check_data(job);
  const int given = !job.size.empty() + !job.config.empty();
  if (given > 1)
    throw Error("a model has a size or a config.json, not both", "`size` or `config` alone", "size");
  if (given == 0 && job.from.empty() && job.teaching.teacher.empty())
    throw Error("there is no model to train", "`size` tiny, `config` config.json or `from` CHECKPOINT",
                "size");
  if (job.dropout >= 1)
    throw Error(fmt::format("`dropout` {} leaves nothing", job.dropout), "`dropout` 0.1", "dropout");
  if (job.random_within > 0 && job.objective != "mlm+nsp")
    throw Error(fmt::format("`objective` {} has no random pairs", job.objective),
                "no `random_within`, or `objective` mlm+nsp", "random_within");
  if (job.initial != "random" && job.initial != kNearby)
    throw Error(fmt::format("`initial` {} is unknown", job.initial), "`initial` random or nearby", "initial");
  if (job.initial == kNearby && (!job.from.empty() || job.objective == kSeq2Seq))
    throw Error("`initial` nearby is for fresh weights of an encoder",
                job.from.empty() ? "`objective` mlm" : "`from` alone", "initial");
  check_teaching(job.teaching);
  if (!job.watch.empty() && job.objective == kSeq2Seq)
    throw Error("`watch` fills masks, and this model does not learn to", "`objective` mlm", "watch");
  if (!job.teaching.teacher.empty() && job.objective == kSeq2Seq)
    throw Error("a teacher is for a language model's objectives, not for seq2seq", "`objective` mlm",
                "objective");
}

// A teacher of words, for the data's tokenizer.
struct WordTeacher {
  ModelFiles files;
  Model model;

  WordTeacher(const std::string& name, const Tokenizer& tokenizer, Head head)
      : files(name), model(Model::load(files)) {
    const Tokenizer its = Tokenizer::load(files);
    bool same = its.vocab_size() == tokenizer.vocab_size();
    for (size_t id = 0; same && id < its.vocab_size(); ++id)
      same = its.token(int32_t(id)) == tokenizer.token(int32_t(id));
    if (!same)
      throw Error(fmt::format("the data was prepared with another vocabulary than the teacher {} has", name),
                  "prepare it with the teacher's tokenizer", "data");
    if (!model.has(head))
      throw Error(fmt::format("the teacher {} is no language model for this objective", name),
                  "a checkpoint that was pre-trained, with its head", "teacher");
  }
};

void check_fit(const PretrainJob& job, const Tokenizer& tokenizer, size_t vocabulary, size_t positions) {
  if (vocabulary < tokenizer.vocab_size())
    throw Error(fmt::format("the model knows {} tokens, but the data's tokenizer has {}", vocabulary,
                            tokenizer.vocab_size()),
                "prepare the data with the model's own tokenizer", "data");
  if (job.max_length > positions)
    throw Error(fmt::format("sequences of {} tokens are too long: the model reads {} at most", job.max_length,
                            positions),
                fmt::format("`max_length` {}", positions), "max_length");
}

bool has_config(const PretrainJob& job) { return !job.config.empty() || !job.from.empty(); }
ModelFiles config_file(const PretrainJob& job) {
  return job.config.empty() ? ModelFiles(job.from) : ModelFiles(job.config);
}

// The model's shape, for the tokenizer that made the data.
Config config_of(const PretrainJob& job, const Tokenizer& tokenizer, bool causal) {
  Config config;
  if (!job.size.empty()) {
    config = config_of_size(job.size, causal);
    config.vocabulary = tokenizer.vocab_size();
    if (!job.teaching.teacher.empty())  // its table may be longer than its tokenizer
      config.vocabulary = Config::load(job.teaching.teacher).vocabulary;
    if (causal)
      config.bos_id = config.eos_id = end_of_text(tokenizer);
    else
      config.pad_id = std::max(tokenizer.pad_id(), 0);
  } else if (!has_config(job)) {
    config = Config::load(job.teaching.teacher);
    config.layers = student_layers(job.teaching, config.layers).size();
  } else {
    config = Config::load(config_file(job));
  }
  if (config.causal() != causal)
    throw Error(fmt::format("a {} model is not for the objective {}", config.model_type, job.objective),
                causal ? "a config.json of GPT-2, or `size`" : "`objective` causal", "objective");
  check_fit(job, tokenizer, config.vocabulary, config.max_tokens());
  if (job.dropout >= 0) {
    config.dropout = config.attention_dropout = job.dropout;
    config.classifier_dropout = config.embedding_dropout = -1;  // as dropout
  }
  return config;
}

TransformerConfig transformer_of(const PretrainJob& job, const Tokenizer& tokenizer) {
  TransformerConfig config;
  if (!job.size.empty()) {
    const Config size = config_of_size(job.size, false);
    config.encoder_layers = config.decoder_layers = size.layers;
    config.hidden = size.hidden;
    config.encoder_heads = config.decoder_heads = size.heads;
    config.encoder_ffn = config.decoder_ffn = size.intermediate;
    config.vocabulary = tokenizer.vocab_size();
    config.eos_id = end_of_text(tokenizer);
    config.pad_id = tokenizer.pad_id();
    config.start_id = config.pad_id >= 0 ? config.pad_id : config.eos_id;  // as Marian does
  } else {
    config = TransformerConfig::load(config_file(job));
  }
  check_fit(job, tokenizer, config.vocabulary, config.positions);
  if (job.dropout >= 0)
    for (double* rate : {&config.dropout, &config.attention_dropout, &config.activation_dropout})
      if (rate == &config.dropout || *rate > 0) *rate = job.dropout;
  return config;
}

double largest_dropout(const TransformerConfig& c) {
  return std::max({c.dropout, c.attention_dropout, c.activation_dropout});
}

// What a run is made of.
struct Setup {
  std::unique_ptr<Learner> learner = {};
  std::unique_ptr<BatchSource> source = {}, held_out = {};
  size_t eval_sequences = 0;  // of held_out, for each evaluation
  std::string note = {};      // worth saying, if not empty
  std::string config = {};    // the model's config.json
  fs::path tokenizer = {};    // the folder that has it
  size_t hidden = 0;
  double dropout = 0;  // the largest of the config's
  double unused = 0;   // share of the text that the objective leaves out
  nlohmann::ordered_json teaching =
      nlohmann::ordered_json::object();  // what becomes part of the run's description
  LearnerLoad start = {};                // of the learner, from `from` or from the teacher

  void evaluate_on(std::unique_ptr<BatchSource> all, size_t sequences, size_t wanted) {
    eval_sequences = wanted == 0 ? sequences : std::min(wanted, sequences);
    if (eval_sequences > 0) held_out = make_subset_source(std::move(all), sequences, eval_sequences);
  }
};

void add_teacher(const PretrainJob& job, const Tokenizer& tokenizer, const Config& student, int threads,
                 Setup& setup) {
  const Teaching& t = job.teaching;
  const WordTeacher teacher(t.teacher, tokenizer, setup.source->terms()[0].head);
  const Config& its = teacher.model.config();
  if (job.max_length > its.max_tokens())
    throw Error(fmt::format("sequences of {} tokens are too long: the teacher reads {} at most",
                            job.max_length, its.max_tokens()),
                fmt::format("`max_length` {}", its.max_tokens()), "max_length");
  if (its.vocabulary != student.vocabulary)
    throw Error(
        fmt::format("the student knows {} tokens, but its teacher {}", student.vocabulary, its.vocabulary),
        "a student whose vocabulary is as large as the teacher's", "teacher");
  const bool same_width = its.hidden == student.hidden;
  if (!same_width && t.hidden_weight.value_or(0) > 0)
    throw Error(fmt::format("hidden states of {} numbers cannot point where the teacher's, of {}, do",
                            student.hidden, its.hidden),
                "`hidden_weight` 0, or a student of the teacher's width", "hidden_weight");
  const TaughtSourceOptions defaults;
  const TaughtSourceOptions how{
      .hard_weight = t.hard_weight.value_or(defaults.hard_weight),
      .soft_weight = t.soft_weight.value_or(defaults.soft_weight),
      .hidden_weight = same_width ? t.hidden_weight.value_or(defaults.hidden_weight) : 0,
      .temperature = float(t.temperature),
      .threads = threads,
      .bf16 = job.train.bf16};
  setup.source = make_taught_source(std::move(setup.source), teacher.model, how);
  setup.teaching = {{"teacher", t.teacher},           {"teacher's weights", weights_checksum(teacher.files)},
                    {"temperature", t.temperature},   {"hard_weight", how.hard_weight},
                    {"soft_weight", how.soft_weight}, {"hidden_weight", how.hidden_weight}};
  if (!job.from.empty() || !job.size.empty() || !job.config.empty()) return;
  setup.start.layers = student_layers(t, its.layers);
  setup.teaching["layers"] = setup.start.layers;
}

Setup encoder_setup(const PretrainJob& job, const LearnerOptions& how) {
  const Objective objective = objective_of(job.objective);
  const Tokenizer tokenizer = Tokenizer::load(job.data);
  const Config config = config_of(job, tokenizer, objective == Objective::kCausal);
  PretrainingOptions data = sequences_of(job);
  Setup setup{.config = config.to_json(),
              .tokenizer = job.data,
              .hidden = config.hidden,
              .dropout = largest_dropout(config)};
  auto source = make_pretraining_source(job.data, tokenizer, data);
  setup.unused = source->share_without_pairs();
  setup.source = std::move(source);
  if (job.train.eval_every > 0 && has_held_out(job.data)) {
    data.held_out = true;
    data.mask_rate = job.mask_rate_end.value_or(job.mask_rate), data.mask_rate_end = {};
    auto held_out = make_pretraining_source(job.data, tokenizer, data);
    const size_t sequences = held_out->sequences();
    setup.evaluate_on(std::move(held_out), sequences, job.train.eval_sequences);
  }
  std::vector<Head> heads;
  for (const TermSpec& term : setup.source->terms()) heads.push_back(term.head);
  setup.learner = make_learner(config, heads, job.train.seed, how);
  if (!job.teaching.teacher.empty()) add_teacher(job, tokenizer, config, how.threads, setup);
  return setup;
}

// Pairs of texts: a file, or train.tsv and perhaps held_out.tsv in a folder; the tokenizer is beside them.
Setup pairs_setup(const PretrainJob& job, const LearnerOptions& how) {
  const bool folder = fs::is_directory(job.data);
  const fs::path file = folder ? job.data / "train.tsv" : job.data, held_out = job.data / "held_out.tsv";
  Setup setup{.tokenizer = folder ? job.data : job.data.parent_path().empty() ? "." : job.data.parent_path()};
  const Tokenizer tokenizer = Tokenizer::load(setup.tokenizer);
  const TransformerConfig config = transformer_of(job, tokenizer);
  setup.config = config.to_json(), setup.hidden = config.hidden, setup.dropout = largest_dropout(config);
  PairOptions data{.max_length = job.max_length, .seed = job.train.seed};
  auto source = make_pair_source(file, tokenizer, config, data);
  if (source->truncated() > 0)
    setup.note = fmt::format("{} of {} pairs are longer than {} tokens and are truncated (`max_length`)",
                             source->truncated(), source->sequences(), job.max_length);
  setup.source = std::move(source);
  if (folder && job.train.eval_every > 0 && fs::exists(held_out)) {
    data.shuffle = false;
    auto pairs = make_pair_source(held_out, tokenizer, config, data);
    const size_t sequences = pairs->sequences();
    setup.evaluate_on(std::move(pairs), sequences, job.train.eval_sequences);
  }
  setup.learner = make_learner(config, job.train.seed, how);
  return setup;
}

}  // namespace

void check_data(const PretrainJob& job) {
  if (job.data.empty())
    throw Error("there is no data to learn from", "`data` FOLDER, which `prepare` writes", "data");
}

PretrainingOptions sequences_of(const PretrainJob& job) {
  return {.objective = objective_of(job.objective),
          .max_length = job.max_length,
          .mask_rate = job.mask_rate,
          .mask_rate_end = job.mask_rate_end,
          .max_predictions = job.max_predictions,
          .whole_words = job.whole_words,
          .random_within = job.random_within,
          .seed = job.train.seed};
}

TrainResult pretrain(const PretrainJob& given, Collective& ranks, const TrainEvents& events) {
  check_choice(given);
  PretrainJob job = given;
  job.train = with_defaults(job.train);
  const LearnerOptions how{.threads = job.threads > 0 ? job.threads : threads_for_rank(ranks),
                           .recompute = job.recompute,
                           .bf16 = job.train.bf16,
                           .nearby = job.initial == kNearby};
  const auto tell = [&](const std::function<void(std::string_view)>& event, const std::string& what) {
    if (!what.empty() && ranks.rank() == 0 && event) event(what);
  };
  const Setup setup = job.objective == kSeq2Seq ? pairs_setup(job, how) : encoder_setup(job, how);
  tell(events.note, setup.note);
  tell(events.warning, warning_of(job.train));
  if (!setup.held_out && job.train.eval_every > 0)
    tell(events.note,
         fmt::format(
             "{} has no held-out part, so there is no evaluation and no best checkpoint: the last one is "
             "{} ({})",
             job.data.string(), (job.train.out / "last").string(),
             job.objective == kSeq2Seq ? "held_out.tsv would be one"
                                       : "prepare the data with `held_out` 0.01 to have one"));
  if (!job.watch.empty() && (!setup.held_out || job.train.eval_every == 0))
    throw Error("`watch` fills masks at each evaluation, and this run has none",
                "data with a held-out part and an `eval_every` above 0, or no `watch`", "watch");
  const bool of_teacher = !setup.start.layers.empty();
  if (!job.from.empty() || of_teacher) {
    const ModelFiles from = of_teacher ? job.teaching.teacher : job.from;
    const std::vector<std::string> fresh = setup.learner->load(from, setup.start);
    check_finite(*setup.learner, from.name(), of_teacher ? "teacher" : "from");
    if (!fresh.empty())
      tell(events.note,
           fmt::format("{} has no {}{}: fresh ones are taken", from.name(), fresh[0],
                       fresh.size() > 1 ? fmt::format(" and {} more tensors", fresh.size() - 1) : ""));
  }
  if (setup.unused >= kMuchUnused)
    tell(events.warning,
         fmt::format("{:.0f}% of the text is in documents of a single sentence, which make no "
                     "pairs, and is not used; `objective` mlm learns from all of it",
                     100 * setup.unused));

  TrainOptions options = job.train;  // with the defaults that bertie/train.h promises
  if (options.rate == 0) options.rate = usual_rate(setup.hidden);
  if (options.steps == 0 && options.tokens == 0 && options.seconds == 0) options.steps = kDefaultSteps;
  nlohmann::ordered_json description = {
      {"objective", job.objective},     {"max_length", job.max_length},
      {"mask_rate", job.mask_rate},     {"max_predictions", job.max_predictions},
      {"whole_words", job.whole_words}, {"dropout", setup.dropout}};
  description["bf16"] = job.train.bf16;
  if (job.random_within > 0) description["random_within"] = job.random_within;
  if (job.initial == kNearby) description["initial"] = job.initial;
  if (job.mask_rate_end) description["mask_rate_end"] = *job.mask_rate_end;
  description.update(setup.teaching);
  const auto config = nlohmann::ordered_json::parse(setup.config);
  for (const auto& [key, value] : config.items()) description["model's " + key] = value;
  Trainer trainer({.learner = *setup.learner,
                   .source = *setup.source,
                   .held_out = setup.held_out.get(),
                   .ranks = ranks,
                   .eval_sequences = setup.eval_sequences,
                   .watch = watch_masks(job.watch, ModelFiles(setup.tokenizer), *setup.learner, how.threads),
                   .max_length = job.max_length,
                   .dropout = setup.dropout > 0,
                   .tokenizer = ModelFiles(setup.tokenizer),
                   .description = io::dump(description)},
                  options, events);
  return trainer.run();
}

TrainResult pretrain(const PretrainJob& job, const TrainEvents& events) {
  return on_ranks(job.threads, events, [&](Collective& ranks) { return pretrain(job, ranks, events); });
}

}  // namespace bertie
