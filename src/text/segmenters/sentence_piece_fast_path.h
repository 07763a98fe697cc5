#pragma once
// The fast path of SentencePiece models: normalizers and pre-tokenizers in one pass, for text of code points
// that each become one code point whatever their neighbors are. That is most text in Latin, Greek, Cyrillic,
// Hebrew and Arabic script. A table of the results is made by running the normalizers once for each code
// point.
#include <array>
#include <memory>
#include <vector>

#include "text/segmenters/composed_segmenter.h"
#include "text/steps/metaspace.h"

namespace bertie::text {

class SentencePieceFastPath : public FastPath {
 public:
  // Nothing if these steps have no fast path. Refers to the normalizers and the model of `steps`. `added`
  // tells which code points may begin a token that is matched in normalized text.
  static std::unique_ptr<const SentencePieceFastPath> make(const SegmenterSteps& steps,
                                                           const std::vector<AddedToken>& added);

  bool normalizes() const override { return true; }
  bool tokenize(std::string_view text, uint32_t first, PieceWriter& out) const override;

 private:
  SentencePieceFastPath(const SegmenterSteps& steps, const MetaspaceSplit& split,
                        const std::vector<AddedToken>& added);
  uint32_t make_entry(uint32_t point, const std::array<bool, 256>& begins_token) const;
  // The code point that `point` becomes, with kSpace if it ends a word; kSlowPath if it needs the steps.
  uint32_t entry(uint32_t point) const {
    if (point < kTwoBytes) return table_[point];
    return point - kPunctuation < kPunctuationCount ? table_[kTwoBytes + point - kPunctuation] : kSlowPath;
  }

  // The table holds the code points below kTwoBytes, then kPunctuationCount ones from kPunctuation on.
  static constexpr uint32_t kTwoBytes = 0x800, kPunctuation = 0x2000, kPunctuationCount = 0x70;
  static constexpr uint32_t kSlowPath = UINT32_MAX, kSpace = 1u << 31;

  const SubwordModel& model_;
  std::vector<const Normalizer*> per_point_;   // Context::kCodePoint: applied in the table
  std::vector<const Normalizer*> per_string_;  // Context::kString: must leave the text unchanged
  // A normalizer looks at whitespace: the text may contain single spaces only, and none at its ends.
  bool single_spaces_ = false;
  MetaspaceSplit split_;
  std::array<uint32_t, kTwoBytes + kPunctuationCount> table_;
};

}  // namespace bertie::text
