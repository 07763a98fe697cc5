#pragma once
// Which texts make a sequence: cuts documents into sequences for an objective, before anything is masked. The
// result is positions in shards, a few numbers for each sequence.
#include <cstdint>
#include <span>
#include <vector>

#include "core/random.h"
#include "train/data/pretraining_source.h"
#include "train/data/shard.h"

namespace bertie {

// A stretch of a shard's tokens.
struct Stretch {
  uint32_t shard = 0, begin = 0, count = 0;
  friend bool operator==(const Stretch&, const Stretch&) = default;
};

struct PlannedSequence {
  Stretch a, b = {};  // b: of pairs only. Causal: a counts in a stream with an end token after each document
  int32_t label = 0;
  friend bool operator==(const PlannedSequence&, const PlannedSequence&) = default;
};

struct PlanOptions {
  Objective objective;
  size_t room;  // tokens of a sequence without the special ones (causal: all)
  double short_rate;
  size_t random_within = 0;  // of a random pair; 0: any two documents
};

// What random numbers are used for: each purpose has a stream of its own.
enum class Purpose : uint32_t { kShardOrder = 1, kDocument, kSequenceOrder, kSequence };
Random keyed_random(uint64_t seed, Purpose purpose, uint64_t epoch, uint64_t place);

// All sequences of some shards in an epoch, in the text's order, into `out`. A shard is named by its index
// among `shards`; those in `group`, which must be verified, are read.
class Planner {
 public:
  Planner(std::span<const Shard> shards, const PlanOptions& options, uint64_t seed)
      : shards_(shards), options_(options), seed_(seed) {}
  void plan(std::span<const uint32_t> group, uint64_t epoch, std::vector<PlannedSequence>& out);

 private:
  struct Document {
    uint32_t shard, document;
  };
  size_t draw_target(Random& random) const;
  void plan_stretches(const Document& document, Random& random, std::vector<PlannedSequence>& out) const;
  void plan_pairs(size_t index, Random& random, std::vector<PlannedSequence>& out) const;
  void plan_causal(uint32_t shard, std::vector<PlannedSequence>& out) const;
  Stretch random_text(size_t other_than, size_t least, Random& random) const;

  std::span<const Shard> shards_;
  PlanOptions options_;
  uint64_t seed_;
  std::vector<Document> documents_;  // of the group, those with sentences
};

}  // namespace bertie
