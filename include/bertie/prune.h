#pragma once
// A model without some of its heads: smaller and faster, and for transformers a model with `pruned_heads`.
//
//   bertie::prune({.from = "bert-base-uncased", .to = "bert-pruned", .heads = {{0, 3}, {11, 7}}});
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "bertie/export.h"
#include "bertie/files.h"
#include "bertie/model.h"

namespace bertie {

struct PruneOptions {
  ModelFiles from;
  std::filesystem::path to;      // a folder, written whole or not at all
  std::vector<WhichHead> heads;  // to remove; each layer keeps one at least
  bool force = false;            // replace a model's folder that is there
};

struct Pruned {
  size_t heads = 0;  // that were removed
  size_t parameters_before = 0, parameters = 0;
};

// The tokenizer and a sentence-transformers model's modules come with it; numbers are stored as they were.
BERTIE_API Pruned prune(const PruneOptions& options);

// The share of a model's heads that matter least, given each one's importance (layers, heads): the lowest
// first, but for the last of a layer. Those that are gone already do not count.
BERTIE_API std::vector<WhichHead> least_important(std::span<const double> importance, const Config& config,
                                                  double share);

}  // namespace bertie
