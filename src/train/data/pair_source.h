#pragma once
// Batches for an encoder-decoder, from pairs of texts: a file with a pair on each line, source TAB target.
//
//   source   the tokens and eos_id
//   target   what the decoder reads is start_id and the tokens; what it is to say, the tokens and eos_id
//
// Texts that are too long are truncated, before eos_id. All tokens are kept in memory, four bytes each. The
// order is a pure function of (file, seed, epoch, position in the epoch). The only loss is "token".
#include <cstdint>
#include <filesystem>
#include <memory>

#include "bertie/tokenizer.h"
#include "bertie/transformer.h"
#include "train/data/batch_source.h"

namespace bertie {

struct PairOptions {
  size_t max_length = 0;  // of either side, start_id and eos_id included; 0: the model's positions
  uint64_t seed = 0;
  bool shuffle = true;  // a new order in each epoch; else the file's
};

class PairSource : public BatchSource {
 public:
  virtual size_t sequences() const = 0;  // pairs
  virtual size_t truncated() const = 0;  // of them those that were too long
};

// Error for a line that is no pair, a token that the model does not know, or a file without pairs.
std::unique_ptr<PairSource> make_pair_source(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                             const TransformerConfig& config, const PairOptions& options);

}  // namespace bertie
