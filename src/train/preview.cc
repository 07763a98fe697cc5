// What pre-training reads, for people.
#include <algorithm>

#include "bertie/error.h"
#include "bertie/tokenizer.h"
#include "train/pretrain.h"

namespace bertie {
namespace {

constexpr size_t kCounted = 1000;

// Where a term says what is to be predicted: for each token of the batch its target, or -1.
std::vector<int32_t> targets_of(const BatchStorage& batch, const BatchStorage::Term& term) {
  std::vector<int32_t> targets(batch.ids.size(), -1);
  for (size_t i = 0; i < term.targets.size(); ++i)
    targets[term.rows.empty() ? i : size_t(term.rows[i])] = term.targets[i];
  return targets;
}

}  // namespace

PretrainPreview preview(const PretrainJob& job, size_t sequences) {
  check_data(job);
  if (job.objective == "seq2seq")
    throw Error("a preview is of masked or causal language modeling, not of seq2seq", "`objective` mlm",
                "objective");
  const Tokenizer tokenizer = Tokenizer::load(job.data);
  const auto source = make_pretraining_source(job.data, tokenizer, sequences_of(job));
  PretrainPreview p{.counted = std::max(sequences, kCounted)};
  BatchStorage batch(source->terms());
  source->begin_step(p.counted);
  source->make(0, p.counted, batch);
  const bool masks = batch.terms[0].spec.head == Head::kMaskedLm;
  const std::vector<int32_t> targets = targets_of(batch, batch.terms[0]);
  const std::vector<int32_t>* labels = batch.terms.size() > 1 ? &batch.terms[1].targets : nullptr;
  const auto word = [&](int32_t id) { return std::string(tokenizer.token(id)); };
  p.tokens = batch.ids.size();
  for (size_t t = 0; t < batch.ids.size(); ++t) {
    if (targets[t] < 0) continue;
    ++p.chosen;
    if (masks)
      ++(batch.ids[t] == tokenizer.mask_id() ? p.masked : batch.ids[t] == targets[t] ? p.kept : p.changed);
  }
  for (size_t s = 0; s < batch.sequences(); ++s) {
    if (labels) ++p.pairs, p.next += (*labels)[s] == 0;
    if (s >= sequences) continue;
    PretrainPreview::Sequence& shown = p.sequences.emplace_back();
    if (labels) shown.label = (*labels)[s];
    for (auto t = size_t(batch.offsets[s]); t < size_t(batch.offsets[s + 1]); ++t) {
      shown.tokens.push_back({word(batch.ids[t])});
      if (targets[t] >= 0) shown.tokens.back().target = word(targets[t]);
    }
  }
  return p;
}

}  // namespace bertie
