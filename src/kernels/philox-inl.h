// Philox (core/random.h) in vectors, for dropout of attention's weights and of hidden states: which columns
// of a row survive. Included once per instruction set.
//
// One call gives 128 bits, 16 for each of 8 columns that lie 16 apart: columns j, j+16 … j+112 of a run of
// 128. So 16 calls side by side serve 128 columns in a row, and any narrower vector serves the same ones.
#if defined(BERTIE_KERNELS_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BERTIE_KERNELS_PHILOX_INL_H_
#undef BERTIE_KERNELS_PHILOX_INL_H_
#else
#define BERTIE_KERNELS_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include "core/random.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Philox for the counters (c0, c1 + lane, c2, c3), 16 lanes: word w at out[16·w + lane].
HWY_INLINE void philox_16(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint64_t seed, uint32_t* out) {
#if HWY_TARGET == HWY_SCALAR
  for (uint32_t lane = 0; lane < 16; ++lane) {
    const auto words = philox({c0, c1 + lane, c2, c3}, {uint32_t(seed), uint32_t(seed >> 32)});
    for (size_t w = 0; w < 4; ++w) out[16 * w + lane] = words[w];
  }
#else
  // A product of two words has 64 bits, so every word has 64 bits of room, of which only the low half counts:
  // even and odd lanes apart, and no moving about in between.
  const hn::ScalableTag<uint32_t> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  using V64 = hn::Vec<decltype(d64)>;
  struct State {
    V64 x0, x1, x2, x3;
  };
  const auto multiply = [&](V64 a, uint32_t m) HWY_ATTR __attribute__((always_inline)) {
    return hn::MulEven(hn::BitCast(d, a), hn::Set(d, m));
  };
  const auto high = [&](V64 a) HWY_ATTR __attribute__((always_inline)) {
    return hn::BitCast(d64, hn::Shuffle2301(hn::BitCast(d, a)));
  };
  const auto turn = [&](State & s, V64 k0, V64 k1) HWY_ATTR __attribute__((always_inline)) {
    const V64 product0 = multiply(s.x0, 0xD2511F53), product1 = multiply(s.x2, 0xCD9E8D57);
    s.x0 = hn::Xor(hn::Xor(high(product1), s.x1), k0);
    s.x2 = hn::Xor(hn::Xor(high(product0), s.x3), k1);
    s.x1 = product1, s.x3 = product0;
  };
  const auto merge = [&](V64 even, V64 odd) HWY_ATTR __attribute__((always_inline)) {
    return hn::OddEven(hn::Shuffle2301(hn::BitCast(d, odd)), hn::BitCast(d, even));
  };
  for (uint32_t lane = 0; lane < 16; lane += uint32_t(hn::Lanes(d))) {
    const V64 twice = hn::ShiftLeft<1>(hn::Iota(d64, 0));
    State even{hn::Set(d64, c0), hn::Add(twice, hn::Set(d64, c1 + lane)), hn::Set(d64, c2), hn::Set(d64, c3)};
    State odd = even;
    odd.x1 = hn::Add(odd.x1, hn::Set(d64, 1));
    uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
      const V64 key0 = hn::Set(d64, k0), key1 = hn::Set(d64, k1);
      turn(even, key0, key1);
      turn(odd, key0, key1);
    }
    hn::StoreU(merge(even.x0, odd.x0), d, out + lane);
    hn::StoreU(merge(even.x1, odd.x1), d, out + 16 + lane);
    hn::StoreU(merge(even.x2, odd.x2), d, out + 32 + lane);
    hn::StoreU(merge(even.x3, odd.x3), d, out + 48 + lane);
  }
#endif
}

// Which columns of a row survive dropout. They are asked for in increasing order for the sake of speed: 128
// in a row share one draw.
class Keep {
 public:
  // The row is (c0, c2, c3); a column is dropped when its 16 bits are below `drop_below`.
  Keep(uint32_t c0, uint32_t c2, uint32_t c3, uint64_t seed, uint32_t drop_below)
      : c0_(c0), c2_(c2), c3_(c3), drop_below_(drop_below), seed_(seed) {}

  // Columns 32·panel + i: bit i is 1 where it is kept.
  HWY_INLINE uint32_t bits(size_t panel) {
    const hn::ScalableTag<float> d;
    uint32_t kept = 0;
    for (size_t i = 0; i < 32; i += hn::Lanes(d)) {
      uint8_t bytes[8] = {};
      hn::StoreMaskBits(d, mask(32 * panel + i), bytes);
      kept |= (uint32_t(bytes[0]) | uint32_t(bytes[1]) << 8) << i;
    }
    return kept;
  }

  // The columns of one vector of floats, from `column` on, which is a multiple of its length.
  HWY_INLINE hn::Mask<hn::ScalableTag<float>> mask(size_t column) {
    if (uint32_t(column / 128) != run_) {
      run_ = uint32_t(column / 128);
      philox_16(c0_, run_ * 16, c2_, c3_, seed_, words_);
    }
    const hn::ScalableTag<float> d;
    const hn::RebindToSigned<decltype(d)> di;
    const hn::RebindToUnsigned<decltype(d)> du;
    const auto word = hn::LoadU(du, words_ + column % 128 / 32 * 16 + column % 16);
    const auto half = column % 32 < 16 ? hn::And(word, hn::Set(du, 0xFFFF)) : hn::ShiftRight<16>(word);
    return hn::RebindMask(d, hn::Not(hn::Lt(hn::BitCast(di, half), hn::Set(di, int32_t(drop_below_)))));
  }

 private:
  uint32_t c0_, c2_, c3_, drop_below_, run_ = ~0u;
  uint64_t seed_;
  HWY_ALIGN uint32_t words_[64];
};

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
