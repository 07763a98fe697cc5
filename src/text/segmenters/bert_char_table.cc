#include "text/segmenters/bert_char_table.h"

#include <algorithm>

#include "text/unicode/tables.h"
#include "text/unicode/unicode.h"

namespace bertie::text {

BertCharTable::BertCharTable(const BertNormalizerSettings& settings) {
  entries_.reserve(size_t{400} << kShift);
  pages_.assign(kPoints >> kShift, add_page(entry(CharAction::kKeep)));
  shared_.back() = true;

  // Runs of code points that are all treated alike.
  for (size_t i = 0; i < kFlagRunCount; ++i) {
    auto [first, last, f] = kFlagRuns[i];
    if (f & text::kDrop)
      set_run(first, last, entry(CharAction::kDrop));
    else if (f & text::kSpace)
      set_run(first, last, entry(CharAction::kSpace));
    else if (settings.strip_accents && (f & text::kMark))
      set_run(first, last, entry(CharAction::kDrop));
    else if ((f & text::kPunct) || (settings.split_cjk && (f & text::kCjk)))
      set_run(first, last, entry(CharAction::kPunct));
  }
  if (settings.strip_accents) set_run(kHangulFirst, kHangulLast, entry(CharAction::kHangul));
  if (settings.lowercase) {
    for (size_t i = 0; i < kLowerRunCount; ++i)
      for (uint32_t c = kLowerRuns[i].first; c <= kLowerRuns[i].last; c += kLowerRuns[i].step)
        set(c, make_entry(c, settings));
    set(0x130, make_entry(0x130, settings));
  }
  if (settings.strip_accents) {
    for (size_t i = 0; i < kDecompositionCount; ++i)
      set(kDecompositions[i].point, make_entry(kDecompositions[i].point, settings));
    for (size_t i = 0; i < kClassRunCount; ++i)
      for (uint32_t c = kClassRuns[i].first; c <= kClassRuns[i].last; ++c) set(c, make_entry(c, settings));
  }
}

// Applies the steps of bert_normalize to one code point.
uint32_t BertCharTable::make_entry(uint32_t point, const BertNormalizerSettings& settings) {
  uint8_t f = flags(point);
  if (f & text::kDrop) return entry(CharAction::kDrop);
  if (f & text::kSpace) return entry(CharAction::kSpace);
  bool is_cjk = settings.split_cjk && (f & text::kCjk);

  uint32_t points[8], count = 0;
  Mapped parts = settings.strip_accents ? decompose(point) : Mapped{1, {point}};
  for (uint32_t i = 0; i < parts.count; ++i) {
    if (settings.strip_accents) {
      if (flags(parts.points[i]) & text::kMark) continue;
      if (combining_class(parts.points[i]) != 0) return entry(CharAction::kSlowPath);
    }
    Mapped low = settings.lowercase ? lower(parts.points[i]) : Mapped{1, {parts.points[i]}};
    for (uint32_t k = 0; k < low.count; ++k) points[count++] = low.points[k];
  }
  bool splits = std::any_of(points, points + count,
                            [](uint32_t p) { return flags(p) & (text::kPunct | text::kRawSpace); });
  if (count == 0) return entry(is_cjk ? CharAction::kSpace : CharAction::kDrop);
  if (count == 1 && !(flags(points[0]) & text::kRawSpace)) {
    if (is_cjk || splits) return entry(CharAction::kPunct, points[0]);
    return points[0] == point ? entry(CharAction::kKeep) : entry(CharAction::kReplace, points[0]);
  }
  if (is_cjk || splits) return entry(CharAction::kSlowPath);
  uint32_t index = uint32_t(sequences_.size());
  sequences_.push_back(count);
  sequences_.insert(sequences_.end(), points, points + count);
  return entry(CharAction::kExpand, index);
}

uint16_t BertCharTable::add_page(uint32_t entry) {
  entries_.insert(entries_.end(), size_t{1} << kShift, entry);
  shared_.push_back(false);
  return uint16_t(shared_.size() - 1);
}

void BertCharTable::set(uint32_t point, uint32_t entry) {
  uint16_t& page = pages_[point >> kShift];
  if (shared_[page]) page = add_page(entries_[size_t{page} << kShift]);
  entries_[size_t{page} << kShift | (point & kMask)] = entry;
}

void BertCharTable::set_run(uint32_t first, uint32_t last, uint32_t entry) {
  uint32_t point = first;
  for (; point <= last && (point & kMask); ++point) set(point, entry);
  if (point + kMask <= last) {
    uint16_t page = add_page(entry);
    shared_[page] = true;
    for (; point + kMask <= last; point += kMask + 1) pages_[point >> kShift] = page;
  }
  for (; point <= last; ++point) set(point, entry);
}

}  // namespace bertie::text
