#pragma once
// What BertNormalizer and BertPreTokenizer do with each code point, as a table.
//
// Two levels, 128 code points a page; equal pages are shared. Const after building.
#include <cstdint>
#include <vector>

#include "text/steps/bert_normalizer.h"

namespace bertie::text {

enum class CharAction : uint32_t {
  kKeep,     // part of a word, unchanged
  kReplace,  // part of a word, as another code point (payload)
  kExpand,   // part of a word, as several code points (payload: index for sequence())
  kDrop,     // removed
  kSpace,    // ends a word
  kPunct,    // ends a word and is a word itself (payload: the code point it becomes; 0: unchanged)
  kHangul,   // part of a word, as two or three jamo
  kSlowPath  // needs bert_normalize: a mark that is kept, and may be reordered with its neighbors
};

class BertCharTable {
 public:
  // For clean_text = true, whatever the settings say.
  explicit BertCharTable(const BertNormalizerSettings& settings);

  uint32_t operator[](uint32_t point) const {
    return entries_[size_t{pages_[point >> kShift]} << kShift | (point & kMask)];
  }
  static CharAction action(uint32_t entry) { return CharAction(entry & 7); }
  static uint32_t payload(uint32_t entry) { return entry >> 3; }

  // The code points of a kExpand entry: their count, then the code points.
  const uint32_t* sequence(uint32_t payload) const { return sequences_.data() + payload; }

 private:
  static constexpr uint32_t kShift = 7, kMask = (1u << kShift) - 1;
  static uint32_t entry(CharAction action, uint32_t payload = 0) { return uint32_t(action) | payload << 3; }
  uint32_t make_entry(uint32_t point, const BertNormalizerSettings& settings);
  void set(uint32_t point, uint32_t entry);
  void set_run(uint32_t first, uint32_t last, uint32_t entry);
  uint16_t add_page(uint32_t entry);

  std::vector<uint16_t> pages_;
  std::vector<uint32_t> entries_;
  std::vector<bool> shared_;  // by page: copied before it is written to
  std::vector<uint32_t> sequences_;
};

}  // namespace bertie::text
