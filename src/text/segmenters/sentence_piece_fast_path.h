#pragma once
// Normalizers and pre-tokenizers of SentencePiece models in one pass, for text of code points that become one
// code point each whatever their neighbours are: most of what is written in Latin, Greek, Cyrillic, Hebrew
// and Arabic. What each becomes is asked of the normalizers once, when the table is made.
//
// Const after building; any number of threads may tokenize.
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "text/steps/metaspace.h"
#include "text/segmenters/composed_segmenter.h"

namespace bertie::text {

class UnigramShortcut : public Shortcut {
 public:
  // Nothing if there is no shortcut through these steps. `parts` must outlive it, as the pipeline's do;
  // `added` tells which code points may begin a token that is found in normalised text.
  static std::unique_ptr<const UnigramShortcut> make(const PipelineParts& parts,
                                                     const std::vector<AddedToken>& added);

  bool normalizes() const override { return true; }
  bool tokenize(std::string_view text, uint32_t first, Pieces& out) const override;

 private:
  UnigramShortcut(const PipelineParts& parts, const MarkedWords& words, const std::vector<AddedToken>& added);
  uint32_t judge(uint32_t point, const std::array<bool, 256>& begins_token) const;
  // What a code point becomes, with kSpace if that ends a word; kThorough if it needs the steps.
  uint32_t entry(uint32_t point) const {
    if (point < kTwoBytes) return table_[point];
    return point - kPunctuation < kPunctuationCount ? table_[kTwoBytes + point - kPunctuation] : kThorough;
  }

  static constexpr uint32_t kTwoBytes = 0x800, kPunctuation = 0x2000, kPunctuationCount = 0x70;
  static constexpr uint32_t kThorough = UINT32_MAX, kSpace = 1u << 31;

  const Model& model_;
  std::vector<const Normalizer*> points_;   // that decide by the code point
  std::vector<const Normalizer*> strings_;  // before them, that must find nothing in the text
  bool single_spaces_ = false;              // a later step looks at spaces: there must be no other kind
  MarkedWords words_;
  std::array<uint32_t, kTwoBytes + kPunctuationCount> table_;
};

}  // namespace bertie::text
