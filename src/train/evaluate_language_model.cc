// How well a language model knows held-out text.
#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "bertie/error.h"
#include "bertie/tokenizer.h"
#include "bertie/train.h"
#include "train/data/pretraining_source.h"
#include "train/data/shard_folder.h"
#include "train/data/subset_source.h"
#include "train/loop/batch_step.h"
#include "train/ranks/collective.h"

namespace bertie {
namespace {

constexpr size_t kSequencesAtOnce = 64;

Objective objective_for(const Model& model, const std::string& wanted) {
  if (!wanted.empty()) {
    const Objective objective = objective_of(wanted);
    const bool pairs = objective == Objective::kMaskedNext || objective == Objective::kMaskedOrder;
    if (!model.has(objective == Objective::kCausal ? Head::kCausalLm : Head::kMaskedLm) ||
        (pairs && !model.has(Head::kNextSentence)))
      throw Error(fmt::format("this model has no head for the objective {}", wanted),
                  "another `objective`, or none", "objective");
    return objective;
  }
  if (model.config().causal()) return Objective::kCausal;
  if (!model.has(Head::kMaskedLm))
    throw Error("this model has no head for masked tokens",
                "a checkpoint that was pre-trained, with its head", "model");
  if (!model.has(Head::kNextSentence)) return Objective::kMasked;
  return model.config().model_type == "albert" ? Objective::kMaskedOrder : Objective::kMaskedNext;
}

}  // namespace

LanguageModelScores evaluate(const LanguageModelJob& job) {
  const ModelFiles files(job.model);
  const Objective objective = objective_for(Model::load(files), job.objective);
  const Config config = Config::load(files);
  const size_t max_length = job.max_length > 0 ? job.max_length : std::min<size_t>(128, config.max_tokens());
  if (max_length > config.max_tokens())
    throw Error(fmt::format("sequences of {} tokens are too long: the model reads {} at most", max_length,
                            config.max_tokens()),
                fmt::format("`max_length` {}", config.max_tokens()), "max_length");
  auto all = make_pretraining_source(job.data, Tokenizer::load(files),
                                     {.objective = objective,
                                      .max_length = max_length,
                                      .mask_rate = job.mask_rate,
                                      .whole_words = job.whole_words,
                                      .seed = job.seed,
                                      .held_out = true});
  LanguageModelScores scores;
  scores.sequences = all->sequences();
  std::unique_ptr<BatchSource> source;
  if (job.sequences > 0 && job.sequences < scores.sequences) {
    source = make_subset_source(std::move(all), scores.sequences, job.sequences);
    scores.sequences = job.sequences;
  } else {
    source = std::move(all);
  }
  std::vector<Head> heads;
  for (const TermSpec& term : source->terms()) heads.push_back(term.head);
  const std::unique_ptr<Collective> ranks = join_ranks();
  scores.rank = ranks->rank();
  const std::unique_ptr<Learner> learner =
      make_learner(config, heads, 1, {.threads = job.threads > 0 ? job.threads : threads_for_rank(*ranks)});
  learner->load(files);
  BatchStep step(*learner, *ranks, *source, {.batch = kSequencesAtOnce, .max_length = max_length});
  StepSums sums(source->terms().size());
  for (size_t done = 0; done < scores.sequences;) {
    const size_t count = std::min(kSequencesAtOnce, scores.sequences - done);
    sums += step.evaluate(count);
    done += count;
    if (job.progress) job.progress(done, scores.sequences);
  }
  sums.means(source->terms(), scores.metrics);
  scores.tokens = sums.tokens;
  const PartSummary text = read_manifest(job.data).held_out;
  scores.bits_per_byte = scores.metrics[0].loss / std::numbers::ln2 * double(text.tokens) /
                         double(std::max<uint64_t>(text.text_bytes, 1));
  return scores;
}

}  // namespace bertie
