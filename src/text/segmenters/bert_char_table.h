#pragma once
// What one code point alone becomes under a normaliser: the fast road's one look-up.
//
// Two levels, 128 code points a page; pages of equal content are shared. Const after building.
#include <cstdint>
#include <vector>

#include "text/steps/bert_normalizer.h"

namespace bertie::text {

enum class Turn : uint32_t {
  kKeep,     // part of a word, as it is
  kOne,      // part of a word, as another code point (payload)
  kMany,     // part of a word, as several (payload: place in sequence())
  kDrop,     // nothing
  kSpace,    // ends a word
  kPunct,    // ends a word and is one (payload: the code point it becomes; 0: as it is)
  kHangul,   // part of a word, as two or three jamo
  kThorough  // needs the thorough normaliser: a mark that stays, and may change places with its neighbours
};

class CharTable {
 public:
  // With clean_text; text that is not cleaned goes by the thorough normaliser.
  explicit CharTable(const NormalizerSettings& settings);

  uint32_t operator[](uint32_t point) const {
    return entries_[size_t{pages_[point >> kShift]} << kShift | (point & kMask)];
  }
  static Turn turn(uint32_t entry) { return Turn(entry & 7); }
  static uint32_t payload(uint32_t entry) { return entry >> 3; }

  // The code points of a kMany entry: count, then the points.
  const uint32_t* sequence(uint32_t payload) const { return sequences_.data() + payload; }

 private:
  static constexpr uint32_t kShift = 7, kMask = (1u << kShift) - 1;
  static uint32_t entry(Turn turn, uint32_t payload = 0) { return uint32_t(turn) | payload << 3; }
  uint32_t judge(uint32_t point, const NormalizerSettings& settings);
  void set(uint32_t point, uint32_t entry);
  void set_run(uint32_t first, uint32_t last, uint32_t entry);
  uint16_t add_page(uint32_t entry);

  std::vector<uint16_t> pages_;
  std::vector<uint32_t> entries_;
  std::vector<bool> shared_;  // by page: may not be written to
  std::vector<uint32_t> sequences_;
};

}  // namespace bertie::text
