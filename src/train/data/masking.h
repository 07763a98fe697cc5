#pragma once
// Masked language modeling's masks, as BERT draws them: of a sequence of n tokens (special ones counted)
// min(max_predictions, max(1, round(rate·n))) are to be predicted, never special ones; of these 80% become
// [MASK], 10% a random token, 10% stay. Drawn from a Random that the caller seeds.
#include <cstdint>
#include <span>
#include <vector>

#include "bertie/tokenizer.h"
#include "core/random.h"

namespace bertie {

struct MaskingOptions {
  double rate = 0.15;
  size_t max_predictions = 0;  // 0: no such limit
  bool whole_words = false;    // all pieces of a word or none; each piece's replacement is drawn on its own
};

class Masking {
 public:
  // Error where the tokenizer has no mask token.
  Masking(const Tokenizer& tokenizer, const MaskingOptions& options);

  // Masks `ids` in place. Appends the positions to predict, ascending and counted from `first_row` on, to
  // `rows`, and the tokens that were there to `targets`.
  void apply(std::span<int32_t> ids, int32_t first_row, Random& random, std::vector<int32_t>& rows,
             std::vector<int32_t>& targets);
  void set_rate(double rate) { options_.rate = rate; }
  // How many of n tokens, where there are enough that are not special.
  size_t predictions(size_t n) const;

 private:
  bool is_special(int32_t id) const { return kinds_[size_t(id)] == Kind::kSpecial; }

  enum class Kind : uint8_t { kBegins, kContinues, kSpecial };
  MaskingOptions options_;
  int32_t mask_id_;
  std::vector<Kind> kinds_;      // by id
  std::vector<int32_t> random_;  // what a random token may be: all but special ones
  struct Word {
    uint32_t begin, end;
  };
  std::vector<Word> words_;  // of a sequence; single tokens unless whole_words
  std::vector<uint32_t> chosen_;
};

}  // namespace bertie
