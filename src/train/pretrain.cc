// A pre-training run from its options: model, data, and the loop over them.
#include "train/pretrain.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bertie/error.h"
#include "bertie/tokenizer.h"
#include "io/json.h"
#include "kernels/bf16.h"
#include "model/learner.h"
#include "train/model_sizes.h"
#include "train/pair_source.h"
#include "train/pretraining_source.h"
#include "train/trainer.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kUsualSteps = 20'000;  // where nobody gives a limit

LessonHeads heads_of(Objective objective) {
  if (objective == Objective::kCausal) return {.tokens = Head::kCausalLm};
  if (objective == Objective::kMasked) return {.tokens = Head::kMaskedLm};
  return {.tokens = Head::kMaskedLm, .labels = Head::kNextSentence};
}

void check_choice(const PretrainJob& job) {
  const int given = !job.size.empty() + !job.config.empty();
  if (given > 1) throw Error("a model has a size or a config.json, not both", "--size or --config alone");
  if (given == 0 && job.from.empty())
    throw Error("what model to train is not said", "--size tiny, --config config.json or --from CHECKPOINT");
  if (job.dropout >= 1)
    throw Error(fmt::format("a dropout of {} leaves nothing", job.dropout), "a number below 1, such as 0.1");
}

void check_fit(const PretrainJob& job, const Tokenizer& tokenizer, size_t vocabulary, size_t positions) {
  if (vocabulary < tokenizer.vocab_size())
    throw Error(fmt::format("the model knows {} tokens, but the data's tokenizer has {}", vocabulary,
                            tokenizer.vocab_size()),
                "prepare the data with the model's own tokenizer");
  if (job.max_length > positions)
    throw Error(fmt::format("sequences of {} tokens are too long: the model reads {} at most", job.max_length,
                            positions),
                fmt::format("--max-length {}", positions));
}

fs::path config_file(const PretrainJob& job) { return job.config.empty() ? job.from : job.config; }

int32_t end_of_text(const Tokenizer& tokenizer) {
  return tokenizer.eos_id() >= 0 ? tokenizer.eos_id() : tokenizer.sep_id();
}

// The model's shape, for the tokenizer that made the data.
Config config_of(const PretrainJob& job, const Tokenizer& tokenizer, bool causal) {
  Config config;
  if (!job.size.empty()) {
    config = config_of_size(job.size, causal);
    config.vocabulary = tokenizer.vocab_size();
    if (causal)
      config.bos_id = config.eos_id = end_of_text(tokenizer);
    else
      config.pad_id = std::max(tokenizer.pad_id(), 0);
  } else {
    config = Config::load(config_file(job));
  }
  if (config.causal() != causal)
    throw Error(fmt::format("a {} model is not for the objective {}", config.model_type, job.objective),
                causal ? "a config.json of GPT-2, or --size" : "--objective causal");
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

// What Tokenizer::load reads: a checkpoint has it too.
std::vector<fs::path> tokenizer_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const char* name :
       {"tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model",
        "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"})
    if (fs::is_regular_file(folder / name)) files.push_back(folder / name);
  return files;
}

// What a run is made of.
struct Setup {
  std::unique_ptr<Learner> learner = {};
  std::unique_ptr<LessonSource> source = {}, held_out = {};
  size_t held_out_sequences = 0;
  LessonHeads heads = {};
  fs::path tokenizer = {};  // the folder that has it
  size_t hidden = 0;
  double dropout = 0;  // the largest of the config's
};

Setup encoder_setup(const PretrainJob& job, const LearnerOptions& how) {
  const Objective objective = objective_of(job.objective);
  const Tokenizer tokenizer = Tokenizer::load(job.data);
  const Config config = config_of(job, tokenizer, objective == Objective::kCausal);
  PretrainingOptions data{.objective = objective,
                          .max_length = job.max_length,
                          .mask_rate = job.mask_rate,
                          .whole_words = job.whole_words,
                          .seed = job.train.seed};
  Setup setup{.heads = heads_of(objective), .tokenizer = job.data, .hidden = config.hidden};
  setup.dropout = std::max(
      {config.dropout, config.attention_dropout, config.classifier_dropout, config.embedding_dropout});
  setup.source = make_pretraining_source(job.data, tokenizer, data);
  if (job.train.eval_every > 0 && has_held_out(job.data)) {
    data.held_out = true;
    auto held_out = make_pretraining_source(job.data, tokenizer, data);
    setup.held_out_sequences = held_out->sequences();
    setup.held_out = std::move(held_out);
  }
  std::vector<Head> heads{setup.heads.tokens};
  if (setup.heads.labels) heads.push_back(*setup.heads.labels);
  setup.learner = make_learner(config, heads, job.train.seed, how);
  return setup;
}

// Pairs of texts: a file, or train.tsv and perhaps held_out.tsv in a folder; the tokenizer lies beside them.
Setup pairs_setup(const PretrainJob& job, const LearnerOptions& how) {
  const bool folder = fs::is_directory(job.data);
  const fs::path file = folder ? job.data / "train.tsv" : job.data, held_out = job.data / "held_out.tsv";
  Setup setup{.heads = {.tokens = Head::kCausalLm}};
  setup.tokenizer = folder ? job.data : job.data.parent_path().empty() ? "." : job.data.parent_path();
  const Tokenizer tokenizer = Tokenizer::load(setup.tokenizer);
  const TransformerConfig config = transformer_of(job, tokenizer);
  setup.hidden = config.hidden;
  setup.dropout = std::max({config.dropout, config.attention_dropout, config.activation_dropout});
  PairOptions data{.max_length = job.max_length, .seed = job.train.seed};
  setup.source = make_pair_source(file, tokenizer, config, data);
  if (folder && job.train.eval_every > 0 && fs::exists(held_out)) {
    data.shuffle = false;
    auto pairs = make_pair_source(held_out, tokenizer, config, data);
    setup.held_out_sequences = pairs->sequences();
    setup.held_out = std::move(pairs);
  }
  setup.learner = make_learner(config, job.train.seed, how);
  return setup;
}

}  // namespace

TrainResult pretrain(const PretrainJob& job, Collective& ranks, const TrainEvents& events) {
  if (job.data.empty()) throw Error("there is no data to learn from", "--data FOLDER, from bertie prepare");
  check_choice(job);
  const LearnerOptions how{.threads = job.threads > 0 ? job.threads : threads_for_rank(ranks),
                           .recompute = job.recompute,
                           .bf16 = job.bf16 && kernels::has_bf16_instruction()};
  if (job.bf16 && !how.bf16 && ranks.rank() == 0 && events.warning)
    events.warning("this processor has no instruction for bf16 (avx512_bf16): the run computes in fp32");
  const Setup setup = job.objective == "seq2seq" ? pairs_setup(job, how) : encoder_setup(job, how);
  if (!job.from.empty()) {
    const std::vector<std::string> fresh = setup.learner->load(job.from);
    if (!fresh.empty() && ranks.rank() == 0 && events.note)
      events.note(fmt::format("{} has no {}{}: fresh ones are taken", job.from.string(), fresh[0],
                              fresh.size() > 1 ? fmt::format(" and {} more tensors", fresh.size() - 1) : ""));
  }

  TrainOptions options = job.train;
  if (options.rate == 0) options.rate = usual_rate(setup.hidden);
  if (options.steps == 0 && options.tokens == 0 && options.seconds == 0) options.steps = kUsualSteps;
  options.max_length = job.max_length;
  options.drops_out = setup.dropout > 0;
  options.eval_sequences = std::min(options.eval_sequences, setup.held_out_sequences);
  Trainer trainer({.learner = *setup.learner,
                   .source = *setup.source,
                   .held_out = options.eval_sequences > 0 ? setup.held_out.get() : nullptr,
                   .ranks = ranks,
                   .heads = setup.heads,
                   .files = tokenizer_files(setup.tokenizer),
                   .about = {{"objective", job.objective},
                             {"max_length", job.max_length},
                             {"mask_rate", job.mask_rate},
                             {"whole_words", job.whole_words},
                             {"dropout", setup.dropout},
                             {"precision", how.bf16 ? "bf16" : "fp32"}}},
                  options, events);
  return trainer.run();
}

TrainResult pretrain(const PretrainJob& job, const TrainEvents& events) {
  const std::unique_ptr<Collective> ranks = join_ranks();
  try {
    return pretrain(job, *ranks, events);
  } catch (const Error& error) {
    if (ranks->size() > 1) {
      if (events.warning) events.warning(error.what());
      ranks->abort(1);
    }
    throw;
  }
}

}  // namespace bertie
