#pragma once
// Where a query looks, read off the definitions in bertie/attention.h one key at a time. The fast code works
// with intervals and blocks; it is tested against this text.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "attention/big_bird.h"
#include "bertie/attention.h"

namespace bertie::reference {

// Where query i of n stands among m keys.
inline int64_t position_of(const Look& look, size_t i, size_t n, size_t m) {
  return look.queries_at_end ? int64_t(i) + int64_t(m) - int64_t(n) : int64_t(i);
}

// Does query i of n, of one head of one sequence, see key j of m? `row` is the query's row in the batch.
// An adaptive span is seen where its ramp is above 0; see span_factor.
inline bool sees(const Look& look, size_t head, size_t row, size_t i, size_t j, size_t n, size_t m) {
  const int64_t p = position_of(look, i, n, m), key = int64_t(j);
  const auto in_window = [&] {
    return key <= p ? size_t(p - key) <= look.before : size_t(key - p) <= look.after;
  };
  const auto is_global = [&](int64_t position) {
    return std::find(look.global.begin(), look.global.end(), position) != look.global.end();
  };
  switch (look.kind) {
    case Look::Kind::kFull:
      return true;
    case Look::Kind::kCausal:
      return key <= p;
    case Look::Kind::kWindow:
      return in_window();
    case Look::Kind::kWindowAndGlobal:
      return in_window() || is_global(p) || is_global(key);
    case Look::Kind::kBigBird: {
      const BigBird& pattern = look.blocks;
      const int64_t from = big_bird_block(pattern, p), to = key / int64_t(pattern.block);
      const auto global = int64_t(pattern.global);
      if (std::abs(from - to) <= (int64_t(pattern.window) - 1) / 2) return true;
      if (to < global || (from >= 0 && from < global)) return true;
      std::vector<int32_t> random;
      random_blocks(pattern, head, from, (m + pattern.block - 1) / pattern.block, random);
      return std::find(random.begin(), random.end(), to) != random.end();
    }
    case Look::Kind::kStrided: {
      const auto stride = int64_t(look.stride);
      return key <= p && (p - key < stride || (p - key) % stride == 0);
    }
    case Look::Kind::kFixed: {
      const auto stride = int64_t(look.stride), summary = int64_t(look.summary);
      return key <= p && (key / stride == p / stride || key % stride >= stride - summary);
    }
    case Look::Kind::kMask:
      return look.allowed(row, j) != 0;
    case Look::Kind::kAdaptiveSpan: {
      const int64_t distance = look.both_sides ? std::abs(p - key) : p - key;
      return distance >= 0 && double(look.ramp) + double(look.spans[head]) - double(distance) > 0;
    }
  }
  return false;
}

// The adaptive span's ramp: clamp((ramp + span − distance)/ramp, 0, 1), 0 for keys that are not looked at.
template <class T>
T span_factor(const Look& look, T span, size_t i, size_t j, size_t n, size_t m) {
  const int64_t p = position_of(look, i, n, m), key = int64_t(j);
  if (!look.both_sides && key > p) return T(0);
  const T f = (T(double(look.ramp)) + span - T(double(std::abs(p - key)))) / T(double(look.ramp));
  return f < T(0) ? T(0) : f > T(1) ? T(1) : f;
}

// ∂ span_factor/∂ span: 1/ramp on the ramp, 0 off it.
inline double span_slope(const Look& look, double span, size_t i, size_t j, size_t n, size_t m) {
  const double f = span_factor<double>(look, span, i, j, n, m);
  return f > 0 && f < 1 ? 1 / double(look.ramp) : 0;
}

}  // namespace bertie::reference
