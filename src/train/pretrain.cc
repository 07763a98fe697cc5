// A pre-training run from its options: model, data, and the loop over them.
#include "train/pretrain.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bertie/error.h"
#include "bertie/tokenizer.h"
#include "io/json.h"
#include "model/learner.h"
#include "train/model_sizes.h"
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

// The model's shape, for the tokenizer that made the data.
Config config_of(const PretrainJob& job, const Tokenizer& tokenizer, bool causal) {
  const int given = !job.size.empty() + !job.config.empty();
  if (given > 1) throw Error("a model has a size or a config.json, not both", "--size or --config alone");
  if (given == 0 && job.from.empty())
    throw Error("what model to train is not said", "--size tiny, --config config.json or --from CHECKPOINT");
  Config config;
  if (!job.size.empty()) {
    config = config_of_size(job.size, causal);
    config.vocabulary = tokenizer.vocab_size();
    if (causal) {
      const int32_t end = tokenizer.eos_id() >= 0 ? tokenizer.eos_id() : tokenizer.sep_id();
      config.bos_id = config.eos_id = end;
    } else {
      config.pad_id = std::max(tokenizer.pad_id(), 0);
    }
  } else {
    config = Config::load(job.config.empty() ? job.from : job.config);
  }
  if (config.causal() != causal)
    throw Error(fmt::format("a {} model is not for {}", config.model_type, io::quote(job.objective)),
                causal ? "a config.json of GPT-2, or --size" : "--objective causal");
  if (config.vocabulary < tokenizer.vocab_size())
    throw Error(fmt::format("the model knows {} tokens, but the data's tokenizer has {}", config.vocabulary,
                            tokenizer.vocab_size()),
                "prepare the data with the model's own tokenizer");
  if (job.max_length > config.max_tokens())
    throw Error(fmt::format("sequences of {} tokens are too long: the model reads {} at most", job.max_length,
                            config.max_tokens()),
                fmt::format("--max-length {}", config.max_tokens()));
  if (job.dropout >= 0) {
    if (!(job.dropout < 1))
      throw Error(fmt::format("a dropout of {} leaves nothing", job.dropout),
                  "a number below 1, such as 0.1");
    config.dropout = config.attention_dropout = job.dropout;
  }
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

}  // namespace

TrainResult pretrain(const PretrainJob& job, Collective& ranks, const TrainEvents& events) {
  if (job.data.empty()) throw Error("there is no data to learn from", "--data FOLDER, from bertie prepare");
  const Objective objective = objective_of(job.objective);
  const LessonHeads heads = heads_of(objective);
  const Tokenizer tokenizer = Tokenizer::load(job.data);
  const Config config = config_of(job, tokenizer, objective == Objective::kCausal);

  PretrainingOptions data{.objective = objective,
                          .max_length = job.max_length,
                          .mask_rate = job.mask_rate,
                          .whole_words = job.whole_words,
                          .seed = job.train.seed};
  const auto source = make_pretraining_source(job.data, tokenizer, data);
  std::unique_ptr<PretrainingSource> held_out;
  TrainOptions options = job.train;
  if (options.eval_every > 0 && has_held_out(job.data)) {
    data.held_out = true;
    held_out = make_pretraining_source(job.data, tokenizer, data);
    options.eval_sequences = std::min(options.eval_sequences, held_out->sequences());
    if (options.eval_sequences == 0) held_out.reset();
  }

  std::vector<Head> all_heads{heads.tokens};
  if (heads.labels) all_heads.push_back(*heads.labels);
  const auto learner =
      make_learner(config, all_heads, job.train.seed, {.threads = job.threads, .recompute = job.recompute});
  if (!job.from.empty()) {
    const std::vector<std::string> fresh = learner->load(job.from);
    if (!fresh.empty() && ranks.rank() == 0 && events.note)
      events.note(fmt::format("{} has no {}{}: fresh ones are taken", job.from.string(), fresh[0],
                              fresh.size() > 1 ? fmt::format(" and {} more tensors", fresh.size() - 1) : ""));
  }

  if (options.rate == 0) options.rate = usual_rate(config.hidden);
  if (options.steps == 0 && options.tokens == 0 && options.seconds == 0) options.steps = kUsualSteps;
  options.max_length = job.max_length;
  options.drops_out = config.dropout > 0 || config.attention_dropout > 0;
  Trainer trainer({.learner = *learner,
                   .source = *source,
                   .held_out = held_out.get(),
                   .ranks = ranks,
                   .heads = heads,
                   .files = tokenizer_files(job.data),
                   .about = {{"objective", job.objective},
                             {"max_length", job.max_length},
                             {"mask_rate", job.mask_rate},
                             {"whole_words", job.whole_words},
                             {"dropout", config.dropout}}},
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
