#pragma once
// Batches for pre-training, from the shards of bertie::prepare (docs/data.md): masked language modeling
// alone, with next-sentence or sentence-order prediction, or causal.
//
//   auto source = make_pretraining_source(folder, tokenizer, {.seed = 7});
//
//   source->begin_step(256);
//
//   source->make(0, 32, store);  // the first 32 of the step's 256
//
// A sequence is a pure function of (shards, options, epoch, its position in the epoch): ranks, batches and
// where a run was stopped do not matter. Masks, pairs and cuts are drawn anew in each epoch.
//
// The losses:
//   "token"  rows and targets are the masked tokens, in the order of rows; for kCausal rows are empty, which
//            means all, and targets have the next token for each
//   "label"  one target for each sequence: kMaskedNext 0 is next, 1 a random text; kMaskedOrder 0 in order, 1
//            swapped
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bertie/tokenizer.h"
#include "train/data/batch_source.h"

namespace bertie {

enum class Objective { kMasked, kMaskedNext, kMaskedOrder, kCausal };

// "mlm", "mlm+nsp", "mlm+sop", "causal". objective_of throws Error for any other word.
std::string_view name_of(Objective objective);
Objective objective_of(std::string_view name);

struct PretrainingOptions {
  Objective objective = Objective::kMaskedNext;
  size_t max_length = 128;                   // of a sequence, special tokens included
  double mask_rate = 0.15;                   // of a sequence's tokens, special ones counted
  std::optional<double> mask_rate_end = {};  // at the end of the run, to which it goes in a straight line
  size_t max_predictions = 0;                // masked in a sequence, at most; 0: no such limit
  bool whole_words = false;                  // mask all pieces of a word or none
  size_t random_within = 0;  // a random pair's documents are at most so far from each other; 0: any two
  double short_rate = 0.1;   // share of sequences that are shorter on purpose (not for causal)
  uint64_t seed = 0;
  uint64_t shuffled_tokens = uint64_t{1} << 27;  // text that is shuffled as one, or a shard if that is more
  // The held-out part: in the text's order, cut and masked the same in every epoch.
  bool held_out = false;
};

class PretrainingSource : public BatchSource {
 public:
  virtual uint64_t tokens() const = 0;  // in the shards
  // In the epoch that the stream is in. Reads all shards, so it is for the held-out part only.
  virtual size_t sequences() = 0;
  // The share of tokens in documents of a single sentence, if the objective takes pairs: such a document
  // makes none, and is not learned from.
  virtual double share_without_pairs() const = 0;
};

// `folder` is what bertie::prepare wrote. Error where there are no shards (of this part), where that folder
// is not complete, where a shard is missing or not whole, or of another vocabulary. A shard's checksum is
// verified when it is first used, so begin_step throws Error for one that is damaged.
std::unique_ptr<PretrainingSource> make_pretraining_source(const std::filesystem::path& folder,
                                                           const Tokenizer& tokenizer,
                                                           const PretrainingOptions& options);
// Whether there is a held-out part. Error where the folder is not one of shards.
bool has_held_out(const std::filesystem::path& folder);

}  // namespace bertie
