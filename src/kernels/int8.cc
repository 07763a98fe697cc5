#include "kernels/int8.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/arena.h"
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/int8.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/math-inl.h"

// Instruction sets with products of bytes, in registers of 64, 32 or 16 of them; others go by plain C++.
#undef BERTIE_INT8_BYTES
#undef BERTIE_IN_REGISTER
#if HWY_ARCH_X86_64
#define BERTIE_IN_REGISTER "+x"
#else
#define BERTIE_IN_REGISTER "+w"
#endif
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX3
#define BERTIE_INT8_BYTES 64
#elif HWY_ARCH_X86_64 && HWY_TARGET == HWY_AVX2
#define BERTIE_INT8_BYTES 32
#elif HWY_ARCH_X86_64 && HWY_TARGET == HWY_SSE4
#define BERTIE_INT8_BYTES 16
#elif HWY_ARCH_ARM_A64 && HWY_TARGET < HWY_EMU128  // NEON, by whatever name
#define BERTIE_INT8_BYTES 16
#else
#define BERTIE_INT8_BYTES 0
#endif

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Int8Tile {
  const float* rows;  // of quantize_rows, R of them
  size_t row_stride;
  const Int8Layer& layer;
  size_t panel;
  float* out;  // R rows of kPanel, stride out_stride
  size_t out_stride;
  const float* next;  // to be brought into L2 on the way, `next_lines` of 64 bytes
  size_t next_lines;
};

// y of one vector of columns, from its sum of products: the formula of int8.h.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V dequantized(D d, const Int8Tile& t, const float* head, size_t column, V sum) {
  const Int8Layer& l = t.layer;
  const float* const bias = l.layer.bias;
  V y = bias ? hn::LoadU(d, bias + t.panel * kPanel + column) : hn::Zero(d);
  for (size_t e = 0; e < l.exact; ++e)
    y = hn::MulAdd(hn::Set(d, head[2 + e]), hn::LoadU(d, l.exact_weights(t.panel, e) + column), y);
  const V offset = hn::Mul(hn::Set(d, head[1]), hn::LoadU(d, l.sums(t.panel) + column));
  const V whole = hn::MulAdd(sum, hn::Set(d, head[0]), offset);
  return hn::MulAdd(whole, hn::LoadU(d, l.scales(t.panel) + column), y);
}

#if BERTIE_INT8_BYTES
using Floats = hn::Vec<hn::ScalableTag<float>>;
#if BERTIE_INT8_BYTES == 64
using Bytes = __m512i;
HWY_INLINE Bytes load_bytes(const void* from) { return _mm512_loadu_si512(from); }
HWY_INLINE Bytes quad_everywhere(float quad) { return _mm512_castps_si512(_mm512_set1_ps(quad)); }
HWY_INLINE Bytes no_sum() { return _mm512_setzero_si512(); }
HWY_INLINE Bytes pair_products(Bytes u, Bytes q) { return _mm512_maddubs_epi16(u, q); }
HWY_INLINE Bytes add16(Bytes a, Bytes b) { return _mm512_add_epi16(a, b); }
HWY_INLINE Bytes add32(Bytes a, Bytes b) { return _mm512_add_epi32(a, b); }
HWY_INLINE Bytes widened(Bytes pairs) { return _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)); }
HWY_INLINE Floats as_floats(Bytes sum, const float*) { return Floats{_mm512_cvtepi32_ps(sum)}; }
HWY_INLINE Bytes dot(Bytes sum, Bytes u, Bytes q) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(u), "v"(q));
  return sum;
}
inline constexpr size_t kRowsWithDot = 14, kRowsWithout = 8;
#elif BERTIE_INT8_BYTES == 32
using Bytes = __m256i;
HWY_INLINE Bytes load_bytes(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
HWY_INLINE Bytes quad_everywhere(float quad) { return _mm256_castps_si256(_mm256_set1_ps(quad)); }
HWY_INLINE Bytes no_sum() { return _mm256_setzero_si256(); }
HWY_INLINE Bytes pair_products(Bytes u, Bytes q) { return _mm256_maddubs_epi16(u, q); }
HWY_INLINE Bytes add16(Bytes a, Bytes b) { return _mm256_add_epi16(a, b); }
HWY_INLINE Bytes add32(Bytes a, Bytes b) { return _mm256_add_epi32(a, b); }
HWY_INLINE Bytes widened(Bytes pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }
HWY_INLINE Floats as_floats(Bytes sum, const float*) { return Floats{_mm256_cvtepi32_ps(sum)}; }
// AVX-VNNI: what AVX-512's does, in AVX2's encoding.
HWY_INLINE Bytes dot(Bytes sum, Bytes u, Bytes q) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(u), "x"(q));
  return sum;
}
inline constexpr size_t kRowsWithDot = 6, kRowsWithout = 4;
#elif HWY_ARCH_ARM_A64
// NEON multiplies bytes that both have signs: u − 128 instead of u, and 128·Σq is added in the end.
using Bytes = int8x16_t;
HWY_INLINE Bytes load_bytes(const void* from) { return vld1q_s8(static_cast<const int8_t*>(from)); }
HWY_INLINE Bytes quad_everywhere(float quad) {
  return veorq_s8(vreinterpretq_s8_f32(vdupq_n_f32(quad)), vdupq_n_s8(-128));
}
HWY_INLINE Bytes no_sum() { return vdupq_n_s8(0); }
HWY_INLINE Bytes pair_products(Bytes u, Bytes q) {
  return vreinterpretq_s8_s16(vpaddq_s16(vmull_s8(vget_low_s8(u), vget_low_s8(q)), vmull_high_s8(u, q)));
}
HWY_INLINE Bytes add16(Bytes a, Bytes b) {
  return vreinterpretq_s8_s16(vaddq_s16(vreinterpretq_s16_s8(a), vreinterpretq_s16_s8(b)));
}
HWY_INLINE Bytes add32(Bytes a, Bytes b) {
  return vreinterpretq_s8_s32(vaddq_s32(vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b)));
}
HWY_INLINE Bytes widened(Bytes pairs) {
  return vreinterpretq_s8_s32(vpaddlq_s16(vreinterpretq_s16_s8(pairs)));
}
HWY_INLINE Floats as_floats(Bytes sum, const float* sums_of_q) {
  const int32x4_t missing = vshlq_n_s32(vcvtq_s32_f32(vld1q_f32(sums_of_q)), 7);
  return Floats{vcvtq_f32_s32(vaddq_s32(vreinterpretq_s32_s8(sum), missing))};
}
// What the compiler may not use everywhere the assembler is told to take; with all that later code may have.
#ifdef __ARM_FEATURE_DOTPROD
#define BERTIE_TAKE_SDOT ""
#else
#define BERTIE_TAKE_SDOT ".arch armv8.6-a+crypto+sve2\n\t"
#endif
HWY_INLINE Bytes dot(Bytes sum, Bytes u, Bytes q) {
  asm(BERTIE_TAKE_SDOT "sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(q), "w"(u));
  return sum;
}
inline constexpr size_t kRowsWithDot = 12, kRowsWithout = 8;
#else
using Bytes = __m128i;
HWY_INLINE Bytes load_bytes(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
HWY_INLINE Bytes quad_everywhere(float quad) { return _mm_castps_si128(_mm_set1_ps(quad)); }
HWY_INLINE Bytes no_sum() { return _mm_setzero_si128(); }
HWY_INLINE Bytes pair_products(Bytes u, Bytes q) { return _mm_maddubs_epi16(u, q); }
HWY_INLINE Bytes add16(Bytes a, Bytes b) { return _mm_add_epi16(a, b); }
HWY_INLINE Bytes add32(Bytes a, Bytes b) { return _mm_add_epi32(a, b); }
HWY_INLINE Bytes widened(Bytes pairs) { return _mm_madd_epi16(pairs, _mm_set1_epi16(1)); }
HWY_INLINE Floats as_floats(Bytes sum, const float*) { return Floats{_mm_cvtepi32_ps(sum)}; }
HWY_INLINE Bytes dot(Bytes sum, Bytes, Bytes) { return sum; }  // never chosen
inline constexpr size_t kRowsWithDot = 4, kRowsWithout = 4;
#endif

inline constexpr size_t kAheadInt8 = 12;  // rows of quads to prefetch into L1

// R rows × 32 columns. kDot: by VNNI; else four products are added in 16 bits, where they have room (int8.h).
template <size_t R, bool kDot>
HWY_NOINLINE void int8_tile(const Int8Tile& t) {
  const hn::ScalableTag<float> d;
  constexpr size_t kLanes = BERTIE_INT8_BYTES / 4, kStep = 2 * kLanes;
  for (size_t column = 0; column < kPanel; column += kStep) {
    Bytes sum[R][2];
#pragma GCC unroll 16
    for (size_t i = 0; i < R; ++i) sum[i][0] = sum[i][1] = no_sum();
    const float* HWY_RESTRICT a = t.rows + kInt8Head;
    const float* HWY_RESTRICT b = t.layer.panel(t.panel) + column;
    const size_t steps = t.layer.steps;
    const float* next = t.next;
    const size_t lines = column == 0 ? t.next_lines : 0, per_pair = (2 * lines + steps - 1) / steps;
    const float* const next_end = next + lines * 16;
    for (size_t k = 0; k < steps; k += 2) {
      for (size_t i = 0; i < per_pair && next < next_end; ++i, next += 16) __builtin_prefetch(next, 0, 2);
      __builtin_prefetch(b + (k + kAheadInt8) * kPanel);
      __builtin_prefetch(b + (k + 1 + kAheadInt8) * kPanel);
      const Bytes b00 = load_bytes(b + k * kPanel), b01 = load_bytes(b + k * kPanel + kLanes);
      const Bytes b10 = load_bytes(b + (k + 1) * kPanel), b11 = load_bytes(b + (k + 1) * kPanel + kLanes);
      if constexpr (kDot && kLanes == 16) {
        __builtin_prefetch(b + (k + kAheadInt8) * kPanel + kLanes);
        __builtin_prefetch(b + (k + 1 + kAheadInt8) * kPanel + kLanes);
      }
#pragma GCC unroll 16
      for (size_t i = 0; i < R; ++i) {
        const Bytes u0 = quad_everywhere(a[i * t.row_stride + k]);
        if constexpr (kDot) {
          sum[i][0] = dot(sum[i][0], u0, b00);
          sum[i][1] = dot(sum[i][1], u0, b01);
        } else {
          const Bytes u1 = quad_everywhere(a[i * t.row_stride + k + 1]);
          sum[i][0] = add32(sum[i][0], widened(add16(pair_products(u0, b00), pair_products(u1, b10))));
          sum[i][1] = add32(sum[i][1], widened(add16(pair_products(u0, b01), pair_products(u1, b11))));
        }
      }
      if constexpr (kDot) {
#pragma GCC unroll 16
        for (size_t i = 0; i < R; ++i) {
          const Bytes u1 = quad_everywhere(a[i * t.row_stride + k + 1]);
          sum[i][0] = dot(sum[i][0], u1, b10);
          sum[i][1] = dot(sum[i][1], u1, b11);
        }
      }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < R; ++i) {
      const float* const head = t.rows + i * t.row_stride;
      float* const out = t.out + i * t.out_stride + column;
      const auto whole = [&](size_t half) HWY_ATTR {
        return as_floats(sum[i][half], t.layer.sums(t.panel) + column + half * kLanes);
      };
      hn::StoreU(dequantized(d, t, head, column, whole(0)), d, out);
      hn::StoreU(dequantized(d, t, head, column + kLanes, whole(1)), d, out + kLanes);
    }
  }
}

// Chains of sums enough for two units of latency 5.
inline constexpr size_t kChains = 12;
template <bool kDot>
HWY_NOINLINE int32_t burst_of(size_t rounds) {
  Bytes sum[kChains];
  for (Bytes& s : sum) s = no_sum();
  Bytes u = quad_everywhere(1.5f), q = quad_everywhere(2.5f);
  for (size_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (size_t c = 0; c < kChains; ++c) {
      // Or the compiler would see that all products are the same.
      asm volatile("" : BERTIE_IN_REGISTER(u), BERTIE_IN_REGISTER(q));
      sum[c] = kDot ? dot(dot(sum[c], u, q), q, u)
                    : add32(sum[c], widened(add16(pair_products(u, q), pair_products(q, u))));
    }
  Bytes all = sum[0];
  for (size_t c = 1; c < kChains; ++c) all = add32(all, sum[c]);
  int32_t lane;
  std::memcpy(&lane, &all, sizeof lane);
  return lane;
}

double operations_of_burst(size_t rounds, bool with_dot) {
  [[maybe_unused]] static std::atomic<int32_t> sink;  // the result is wanted by somebody
  sink.store(with_dot ? burst_of<true>(rounds) : burst_of<false>(rounds), std::memory_order_relaxed);
  return double(rounds) * double(kChains) * 2 * 2 * BERTIE_INT8_BYTES;
}

template <bool kDot, size_t... R>
HWY_INLINE void int8_tile_of(size_t rows, const Int8Tile& t, std::index_sequence<R...>) {
  (void)((rows == R + 1 && (int8_tile<R + 1, kDot>(t), true)) || ...);
}

size_t int8_tile_rows(bool with_dot) { return with_dot ? kRowsWithDot : kRowsWithout; }

void int8_tile_rows(size_t rows, const Int8Tile& t, bool with_dot) {
  if (with_dot)
    int8_tile_of<true>(rows, t, std::make_index_sequence<kRowsWithDot>());
  else
    int8_tile_of<false>(rows, t, std::make_index_sequence<kRowsWithout>());
}

#else

size_t int8_tile_rows(bool) { return 4; }

double operations_of_burst(size_t rounds, bool) {
  static std::atomic<int32_t> sink;
  int32_t sum = 0;
  for (size_t i = 0; i < rounds; ++i) sum += int32_t(uint8_t(i)) * int32_t(int8_t(i >> 3));
  sink.store(sum, std::memory_order_relaxed);
  return double(rounds) * 2;
}

void int8_tile_rows(size_t rows, const Int8Tile& t, bool) {
  const hn::CappedTag<float, 1> d;
  for (size_t i = 0; i < rows; ++i) {
    const float* const head = t.rows + i * t.row_stride;
    const auto* u = reinterpret_cast<const uint8_t*>(head + kInt8Head);
    for (size_t c = 0; c < kPanel; ++c) {
      int32_t sum = 0;
      for (size_t k = 0; k < 4 * t.layer.steps; ++k)
        sum += int32_t{u[k]} * t.layer.quads(t.panel)[(k / 4 * kPanel + c) * 4 + k % 4];
      hn::StoreU(dequantized(d, t, head, c, hn::Set(d, float(sum))), d, t.out + i * t.out_stride + c);
    }
  }
}

#endif

// Rows of a block times panels [first, last), tile by tile; a panel stays in the cache for all of them.
void panels_of_int8(Matrix<const float> rows, const Linear& linear, size_t first, size_t last, size_t then,
                    const Int8Output& to, bool with_dot) {
  const Int8Layer layer(linear);
  const size_t most = int8_tile_rows(with_dot), tiles = (rows.rows() + most - 1) / most;
  HWY_ALIGN float edge[14 * kPanel];
  for (size_t panel = first; panel < last; ++panel) {
    const size_t n0 = panel * kPanel, width = std::min(kPanel, linear.outputs - n0);
    const size_t next = panel + 1 < last ? panel + 1 : then;
    const size_t next_lines = next < panels_for(linear.outputs) ? layer.panel_floats() / 16 : 0;
    for (size_t t = 0; t < tiles; ++t) {
      const size_t r0 = t * rows.rows() / tiles, r1 = (t + 1) * rows.rows() / tiles;
      const size_t line = t * next_lines / tiles;
      const bool whole = width == kPanel;
      float* const out = to.y.row(r0) + n0;
      int8_tile_rows(r1 - r0,
                     {.rows = rows.row(r0),
                      .row_stride = rows.stride(),
                      .layer = layer,
                      .panel = panel,
                      .out = whole ? out : edge,
                      .out_stride = whole ? to.y.stride() : kPanel,
                      .next = next_lines ? layer.panel(next) + line * 16 : nullptr,
                      .next_lines = (t + 1) * next_lines / tiles - line},
                     with_dot);
      for (size_t r = r0; !whole && r < r1; ++r)
        std::copy_n(edge + (r - r0) * kPanel, width, to.y.row(r) + n0);
      activate_rows(to.f, out, r1 - r0, width, to.y.stride());
    }
  }
}

// One token. Steps are single roundings, so that every instruction set gives the same integers.
void quantize_one(const float* x, const Linear& linear, float* to, float* scratch) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), inputs = linear.inputs, places = round_up(4 * int8_steps(inputs), 16);
  const Int8Layer layer(linear);
  std::copy_n(x, inputs, scratch);
  std::fill(scratch + inputs, scratch + round_up(places, kPanel), 0.0f);
  const std::span<const uint32_t> columns = layer.columns();
  float* const head = to;
  for (size_t e = 0; e < columns.size(); ++e) head[2 + e] = x[columns[e]], scratch[columns[e]] = 0;

  auto low = hn::Zero(d), high = hn::Zero(d),
       none = hn::Zero(d);  // `none` is NaN once a number is not finite
  for (size_t k = 0; k < inputs; k += lanes) {
    const auto v = hn::Load(d, scratch + k);
    low = hn::Min(low, v), high = hn::Max(high, v), none = hn::Add(none, hn::Sub(v, v));
  }
  const float least = hn::GetLane(hn::MinOfLanes(d, low)), most = hn::GetLane(hn::MaxOfLanes(d, high));
  const float nan = hn::GetLane(hn::SumOfLanes(d, none));
  const float range = most - least;
  head[0] = range / 255 + nan, head[1] = least;
  const auto inverse = hn::Set(d, range > 0 ? 255 / range : 0.0f), start = hn::Set(d, least);
  auto* const u = reinterpret_cast<uint8_t*>(to + kInt8Head);
  const hn::Rebind<uint8_t, decltype(d)> d8;
  for (size_t k = 0; k < places; k += lanes) {
    const auto v = hn::NearestInt(hn::Mul(hn::Sub(hn::Load(d, scratch + k), start), inverse));
    hn::StoreU(hn::DemoteTo(d8, v), d8, u + k);
  }
}

void quantize_some(Matrix<const float> x, const Linear& layer, Matrix<float> to) {
  static thread_local Block block;
  const size_t bytes = round_up(4 * int8_steps(layer.inputs), kPanel) * sizeof(float);
  if (block.size() < bytes) block = Block(bytes);
  for (size_t r = 0; r < x.rows(); ++r) quantize_one(x.row(r), layer, to.row(r), block.as<float>());
}

// Whether the instruction that the tiles of this target would use is there.
bool has_dot() {
#if BERTIE_INT8_BYTES == 64
  static const bool there = __builtin_cpu_supports("avx512vnni");
#elif BERTIE_INT8_BYTES == 32
  // AVX-VNNI, by its bit: not every compiler's __builtin_cpu_supports knows it.
  static const bool there = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
  }();
#elif HWY_ARCH_ARM_A64 && defined(__linux__)
  static const bool there = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__ARM_FEATURE_DOTPROD)
  constexpr bool there = true;
#else
  constexpr bool there = false;
#endif
  return there;
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(panels_of_int8);
HWY_EXPORT(quantize_some);
HWY_EXPORT(has_dot);
HWY_EXPORT(operations_of_burst);

double int8_burst(size_t rounds) {
  return HWY_DYNAMIC_DISPATCH(operations_of_burst)(rounds, has_int8_dot_products());
}

bool has_int8_dot_products() { return HWY_DYNAMIC_DISPATCH(has_dot)(); }

void quantize_rows(Matrix<const float> x, const Linear& layer, Matrix<float> to) {
  HWY_DYNAMIC_DISPATCH(quantize_some)(x, layer, to);
}

void int8_panels(Matrix<const float> rows, const Linear& layer, size_t first, size_t last, size_t then,
                 const Int8Output& to, bool may_dot) {
  const bool with_dot = may_dot && has_int8_dot_products();
  HWY_DYNAMIC_DISPATCH(panels_of_int8)(rows, layer, first, last, then, to, with_dot);
}

namespace {

// Calls visit(the four places of a group) for each; places from `count` on are missing.
void for_groups(size_t count, const auto& visit) {
  for (size_t k = 0; k < count; k += 8)
    for (size_t first : {k, k + 2}) visit(std::array{first, first + 1, first + 4, first + 5});
}

}  // namespace

float quantize_row_of_weights(std::span<const float> w, std::span<const uint32_t> columns,
                              std::span<float> q) {
  std::copy(w.begin(), w.end(), q.begin());
  for (uint32_t column : columns) q[column] = 0;
  float most = 0;
  for_groups(q.size(), [&](const auto& group) {
    float sum = 0;
    for (size_t k : group) sum += k < q.size() ? std::abs(q[k]) : 0;
    most = std::max(most, sum);
  });
  // Four roundings add 2 at most.
  // So small a row, whose scale would have no digits left, is 0.
  const float scale = most < 1e-30f ? 0 : most / (kMostOfGroup - 2);
  for (float& x : q) x = scale > 0 ? std::nearbyint(x / scale) : 0;
  return scale;
}

bool are_int8_weights(std::span<const float> q) {
  bool good = true;
  for (float x : q) good = good && std::abs(x) <= 127;
  for_groups(q.size(), [&](const auto& group) {
    float sum = 0;
    for (size_t k : group) sum += k < q.size() ? std::abs(q[k]) : 0;
    good = good && sum <= kMostOfGroup;
  });
  return good;
}

}  // namespace bertie::kernels
#endif
