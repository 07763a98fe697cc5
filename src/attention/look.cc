#include "attention/look.h"

#include <cmath>
#include <cstring>

#include "attention/big_bird.h"

namespace bertie {
namespace {

using Kind = Look::Kind;

// The words for keys j0..j1−1, to which ranges of keys are added.
struct Words {
  Words(uint32_t* words, int64_t from, int64_t to) : bits(words), j0(from), j1(to) {
    std::fill_n(bits, (j1 - j0 + 31) / 32, 0u);
  }
  void add(int64_t from, int64_t to) const {
    from = std::max(from, j0) - j0, to = std::min(to, j1) - j0;
    if (from >= to) return;
    const int64_t first = from / 32, last = (to - 1) / 32;
    const uint32_t head = ~0u << (from % 32), tail = ~0u >> (31 - (to - 1) % 32);
    if (first == last) {
      bits[first] |= head & tail;
      return;
    }
    bits[first] |= head;
    std::fill(bits + first + 1, bits + last, ~0u);
    bits[last] |= tail;
  }
  uint32_t* bits;
  int64_t j0, j1;
};

bool overlap(int64_t a0, int64_t a1, int64_t b0, int64_t b1) { return std::max(a0, b0) < std::min(a1, b1); }

// Bit b: byte b of 8 is not 0.
uint32_t nonzero_bytes(const uint8_t* bytes) {
  uint64_t x;
  std::memcpy(&x, bytes, 8);
  if (x == 0) return 0;
  // Adding 0x7F carries into a byte's top bit unless its low bits are 0; the product collects the top bits.
  constexpr uint64_t kLow = 0x7F7F7F7F7F7F7F7F;
  const uint64_t tops = (((x & kLow) + kLow) | x) & ~kLow;
  return uint32_t(((tops >> 7) * 0x0102040810204080) >> 56);
}

// Is there a global token in [from, to)?
bool any_global(std::span<const int32_t> global, int64_t from, int64_t to) {
  const auto it = std::lower_bound(global.begin(), global.end(), from);
  return it != global.end() && *it < to;
}

}  // namespace

Pattern::Pattern(const Look& look, size_t head, size_t first_row, size_t n, size_t m)
    : look_(look),
      head_(head),
      first_row_(first_row),
      m_(int64_t(m)),
      shift_(look.queries_at_end ? int64_t(m) - int64_t(n) : 0),
      before_(int64_t(std::min(look.before, n + m))),
      after_(int64_t(std::min(look.after, n + m))) {
  if (look.kind == Kind::kAdaptiveSpan) {
    span_ = look.spans[head];
    // Distances x < ramp + span have a weight; beyond the keys it does not matter how far.
    before_ = int64_t(std::min(std::ceil(double(look.ramp) + double(span_)) - 1, double(n + m)));
    after_ = look.both_sides ? before_ : 0;
  }
}

size_t Pattern::memory_size(const Look& look, size_t rows, size_t m) {
  if (look.kind != Kind::kBigBird) return 0;
  const size_t block = look.blocks.block, most = std::min(look.blocks.random, (m + block - 1) / block);
  return (rows / block + 2) * (1 + most);
}

void Pattern::prepare(size_t r0, size_t r1, int32_t* memory) {
  if (look_.kind != Kind::kBigBird || r0 >= r1) return;
  const size_t block = look_.blocks.block, key_blocks = (size_t(m_) + block - 1) / block;
  first_block_ = big_bird_block(look_.blocks, position(r0));
  random_ = memory;
  per_block_ = 1 + std::min(look_.blocks.random, key_blocks);
  for (int64_t b = first_block_; b <= big_bird_block(look_.blocks, position(r1 - 1));
       ++b, memory += per_block_)
    memory[0] = int32_t(random_blocks(look_.blocks, head_, b, key_blocks, memory + 1));
}

std::pair<size_t, size_t> Pattern::band(size_t r0, size_t r1) const {
  const int64_t first = std::clamp<int64_t>(position(r0) - before_, 0, m_);
  return {size_t(first), size_t(std::clamp<int64_t>(position(r1 - 1) + after_ + 1, first, m_))};
}

bool Pattern::any(size_t r0, size_t r1, size_t first_key, size_t last_key) const {
  const int64_t p0 = position(r0), p1 = position(r1 - 1), j0 = int64_t(first_key), j1 = int64_t(last_key);
  switch (look_.kind) {
    case Kind::kFull:
    case Kind::kMask:
      return true;
    case Kind::kCausal:
    case Kind::kStrided:
    case Kind::kFixed:
      return j0 <= p1;
    case Kind::kWindowAndGlobal:
      if (any_global(look_.global, j0, j1) || any_global(look_.global, p0, p1 + 1)) return true;
      [[fallthrough]];
    case Kind::kWindow:
    case Kind::kAdaptiveSpan:
      return overlap(p0 - before_, p1 + after_ + 1, j0, j1);
    case Kind::kBigBird: {
      const int64_t block = int64_t(look_.blocks.block), side = int64_t(look_.blocks.window) / 2;
      const int64_t global = int64_t(look_.blocks.global), b0 = big_bird_block(look_.blocks, p0),
                    b1 = big_bird_block(look_.blocks, p1);
      if (b0 < global || j0 < global * block) return true;
      if (overlap((b0 - side) * block, (b1 + side + 1) * block, j0, j1)) return true;
      for (int64_t b = b0; b <= b1; ++b)
        for (int32_t r : random_blocks_of(b))
          if (overlap(r * block, (r + 1) * block, j0, j1)) return true;
      return false;
    }
  }
  return true;
}

void Pattern::row(size_t i, size_t first_key, size_t last_key, uint32_t* bits) const {
  const Words words(bits, int64_t(first_key), std::min(int64_t(last_key), m_));
  const int64_t p = position(i);
  switch (look_.kind) {
    case Kind::kFull:
      return words.add(0, m_);
    case Kind::kCausal:
      return words.add(0, p + 1);
    case Kind::kWindowAndGlobal:
      if (any_global(look_.global, p, p + 1)) return words.add(0, m_);
      for (auto g = std::lower_bound(look_.global.begin(), look_.global.end(), words.j0);
           g != look_.global.end() && *g < words.j1; ++g)
        words.add(*g, *g + 1);
      [[fallthrough]];
    case Kind::kWindow:
    case Kind::kAdaptiveSpan:
      return words.add(p - before_, p + after_ + 1);
    case Kind::kBigBird: {
      const int64_t block = int64_t(look_.blocks.block), side = int64_t(look_.blocks.window) / 2;
      const int64_t global = int64_t(look_.blocks.global), b = big_bird_block(look_.blocks, p);
      if (p >= 0 && b < global) return words.add(0, m_);
      words.add(0, global * block);
      words.add((b - side) * block, (b + side + 1) * block);
      for (int32_t r : random_blocks_of(b)) words.add(r * block, (r + 1) * block);
      return;
    }
    case Kind::kStrided: {
      const int64_t stride = int64_t(look_.stride);
      words.add(p - stride + 1, p + 1);
      // p − t·stride for t ≥ 1, from the first one at or after j0
      const int64_t first = words.j0 + (((p - words.j0) % stride) + stride) % stride;
      for (int64_t j = first; j < std::min(words.j1, p); j += stride) words.add(j, j + 1);
      return;
    }
    case Kind::kFixed: {
      const int64_t stride = int64_t(look_.stride), block = p >= 0 ? p / stride : -1;
      words.add(block * stride, p + 1);
      for (int64_t b = words.j0 / stride; b < block && b * stride < words.j1; ++b)
        words.add((b + 1) * stride - int64_t(look_.summary), (b + 1) * stride);
      return;
    }
    case Kind::kMask: {
      const uint8_t* allowed = look_.allowed.row(first_row_ + i);
      int64_t j = words.j0;
      for (; j + 8 <= words.j1; j += 8)
        bits[(j - words.j0) / 32] |= nonzero_bytes(allowed + j) << ((j - words.j0) % 32);
      for (; j < words.j1; ++j)
        bits[(j - words.j0) / 32] |= uint32_t(allowed[j] != 0) << ((j - words.j0) % 32);
      return;
    }
  }
}

}  // namespace bertie
