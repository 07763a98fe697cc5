// Vector exp, erf and tanh for the kernels. Included once per instruction set by each kernel file.
// Every function is within 3e-7 of the true value (relative for exp; erf 3.3e-7 without FMA), which the
// kernel tests measure.
#if defined(BERTIE_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BERTIE_KERNELS_MATH_INL_H_
#undef BERTIE_KERNELS_MATH_INL_H_
#else
#define BERTIE_KERNELS_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/activation.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Where either is NaN, x86's instructions let the second operand win; ARM's, and Highway's plain C++, the one
// that is a number.
inline constexpr bool kSecondWins = HWY_ARCH_X86 && HWY_TARGET < HWY_EMU128;

// max(low, x); NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V max_keeping_nan(D d, float low, V x) {
  const V max = hn::Max(hn::Set(d, low), x);
  return kSecondWins ? max : hn::IfThenElse(hn::IsNaN(x), x, max);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V clamp_keeping_nan(D d, float low, V x, float high) {
  const V clamped = hn::Min(hn::Set(d, high), hn::Max(hn::Set(d, low), x));
  return kSecondWins ? clamped : hn::IfThenElse(hn::IsNaN(x), x, clamped);
}

// eˣ. Below −87.3 the result is 0; above 88 it is about 1.7e38 (callers pass x ≤ 0 or clamp).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V clamped = clamp_keeping_nan(d, -87.33f, x, 88.0f);
  // x = n·ln2 + r with |r| ≤ ln2/2; ln2 in two parts keeps r exact. Adding 1.5·2²³ + 127 rounds to an
  // integer and leaves n + 127 in the low bits, which are the exponent of 2ⁿ.
  const V magic = hn::Set(d, 12583039.0f);
  const V shifted = hn::MulAdd(clamped, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), clamped);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::Set(d, 1.381461535e-03f);
  p = hn::MulAdd(p, r, hn::Set(d, 8.368710111e-03f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.166838734e-02f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.666652069e-01f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.999999345e-01f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  // A product, not a sum of exponents: it keeps NaN whatever its bits.
  const V scaled = hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.33f)), scaled);
}

// 2ˣ for −127 ≤ x ≤ 127; NaN stays NaN. The shortest exponential there is: what attention spends its time on
// beside products. A minimax polynomial for 2ʳ, |r| ≤ ½, within 8e-8; 2⁰ is 1 and 2⁻¹²⁷ is 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_bounded(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12583039.0f);  // as in exp
  const V shifted = hn::Add(x, magic);
  const V r = hn::Sub(x, hn::Sub(shifted, magic));
  V p = hn::Set(d, 1.327647198e-03f);
  p = hn::MulAdd(p, r, hn::Set(d, 9.675541334e-03f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.550713274e-02f));
  p = hn::MulAdd(p, r, hn::Set(d, 2.402211972e-01f));
  p = hn::MulAdd(p, r, hn::Set(d, 6.931469671e-01f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

// 2ˣ for x ≤ 127; 0 below −126.5.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2(D d, V x) {
  return exp2_bounded(d, max_keeping_nan(d, -127.0f, x));
}

// erf(z) = z·P(z²) for |z| ≤ 3.92, where erf is 1 to within 3e-8; P is a minimax fit in z²/7.6832 − 1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V erf(D d, V x) {
  const V z = clamp_keeping_nan(d, -3.92f, x, 3.92f);
  const V t = hn::MulAdd(hn::Mul(z, z), hn::Set(d, 1.0f / 7.6832f), hn::Set(d, -1.0f));
  V p = hn::Set(d, 1.740314636e-03f);
  p = hn::MulAdd(p, t, hn::Set(d, -4.373334221e-03f));
  p = hn::MulAdd(p, t, hn::Set(d, 3.079586839e-03f));
  p = hn::MulAdd(p, t, hn::Set(d, -3.469696921e-03f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.274559851e-02f));
  p = hn::MulAdd(p, t, hn::Set(d, -2.298587070e-02f));
  p = hn::MulAdd(p, t, hn::Set(d, 3.060761992e-02f));
  p = hn::MulAdd(p, t, hn::Set(d, -4.229877097e-02f));
  p = hn::MulAdd(p, t, hn::Set(d, 5.810825884e-02f));
  p = hn::MulAdd(p, t, hn::Set(d, -7.424104361e-02f));
  p = hn::MulAdd(p, t, hn::Set(d, 9.063982816e-02f));
  p = hn::MulAdd(p, t, hn::Set(d, -1.091603683e-01f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.340821929e-01f));
  p = hn::MulAdd(p, t, hn::Set(d, -1.801090903e-01f));
  p = hn::MulAdd(p, t, hn::Set(d, 3.607368322e-01f));
  return hn::Mul(p, z);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  const V e = exp(d, clamp_keeping_nan(d, -20.0f, hn::Add(x, x), 20.0f));
  const V one = hn::Set(d, 1.0f);
  return hn::Div(hn::Sub(e, one), hn::Add(e, one));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, exp(d, clamp_keeping_nan(d, -87.0f, hn::Neg(x), 87.0f))));
}

// s + factor·s·(1 − s), s being sigmoid(x): the derivative of y·sigmoid(x) with factor = y·x'. 1 − s is
// e⁻ˣ·s, which keeps its digits where s is nearly 1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid_slope(D d, V x, V factor) {
  const V one = hn::Set(d, 1.0f), e = exp(d, clamp_keeping_nan(d, -87.0f, hn::Neg(x), 87.0f));
  const V s = hn::Div(one, hn::Add(one, e));
  return hn::MulAdd(hn::Mul(factor, s), hn::Mul(e, s), s);
}

template <Activation f, class D, class V = hn::Vec<D>>
HWY_INLINE V activate(D d, V x) {
  if constexpr (f == Activation::kGelu) {
    // Below −5.54 the result is 0 to float precision; holding the factor there keeps erf's last bit from
    // being multiplied by a large |x|.
    const V half_x = hn::Mul(hn::Set(d, 0.5f), max_keeping_nan(d, -5.54f, x));
    return hn::MulAdd(half_x, erf(d, hn::Mul(x, hn::Set(d, 0.70710678f))), half_x);
  } else if constexpr (f == Activation::kGeluTanh) {
    // x/2·(1 + tanh y) = x·sigmoid(2y)
    const V bounded = max_keeping_nan(d, -12.0f, x);
    const V x2 = hn::Mul(bounded, bounded);
    const V two_y = hn::Mul(bounded, hn::MulAdd(x2, hn::Set(d, 0.0713548163f), hn::Set(d, 1.59576912f)));
    return hn::Mul(bounded, sigmoid(d, two_y));
  } else if constexpr (f == Activation::kRelu) {
    return max_keeping_nan(d, 0.0f, x);
  } else if constexpr (f == Activation::kSilu) {
    return hn::Mul(max_keeping_nan(d, -100.0f, x), sigmoid(d, x));
  } else if constexpr (f == Activation::kTanh) {
    return tanh(d, x);
  } else {
    return x;
  }
}

// f'(x), with the limits at ±Inf: where x is a factor it is held within what makes a difference.
template <Activation f, class D, class V = hn::Vec<D>>
HWY_INLINE V derivative(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  if constexpr (f == Activation::kGelu) {  // Φ(x) + x·φ(x)
    const V bounded = clamp_keeping_nan(d, -15.0f, x, 15.0f), half = hn::Set(d, 0.5f);
    const V density =
        hn::Mul(hn::Set(d, 0.398942280f), exp(d, hn::Mul(hn::Mul(bounded, bounded), hn::Set(d, -0.5f))));
    const V below = hn::MulAdd(half, erf(d, hn::Mul(x, hn::Set(d, 0.70710678f))), half);
    return hn::MulAdd(bounded, density, below);
  } else if constexpr (f == Activation::kGeluTanh) {  // f = x·s(u), u = 2y
    const V bounded = clamp_keeping_nan(d, -12.0f, x, 12.0f), x2 = hn::Mul(bounded, bounded);
    const V u = hn::Mul(bounded, hn::MulAdd(x2, hn::Set(d, 0.0713548163f), hn::Set(d, 1.59576912f)));
    const V slope = hn::MulAdd(x2, hn::Set(d, 3 * 0.0713548163f), hn::Set(d, 1.59576912f));
    return sigmoid_slope(d, u, hn::Mul(bounded, slope));
  } else if constexpr (f == Activation::kRelu) {
    return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), one);
  } else if constexpr (f == Activation::kSilu) {
    return sigmoid_slope(d, x, clamp_keeping_nan(d, -80.0f, x, 80.0f));
  } else if constexpr (f == Activation::kTanh) {
    const V y = tanh(d, x);
    return hn::NegMulAdd(y, y, one);
  } else {
    return one;
  }
}

// f over rows of n floats in place. Four vectors at a time, also across rows: the polynomials are chains
// of dependent steps, and four chains keep the processor busy.
template <Activation f>
HWY_INLINE void activate_rows(float* x, size_t rows, size_t n, size_t stride) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), whole = n / lanes * lanes;
  size_t column = 0;
  float* row = x;
  const auto advance = [&]() HWY_ATTR {
    float* here = row + column;
    if ((column += lanes) == whole) column = 0, row += stride;
    return here;
  };
  const size_t vectors = rows * (whole / lanes);
  size_t v = 0;
  for (; v + 4 <= vectors; v += 4) {
    float *p0 = advance(), *p1 = advance(), *p2 = advance(), *p3 = advance();
    const auto y0 = activate<f>(d, hn::LoadU(d, p0)), y1 = activate<f>(d, hn::LoadU(d, p1));
    const auto y2 = activate<f>(d, hn::LoadU(d, p2)), y3 = activate<f>(d, hn::LoadU(d, p3));
    hn::StoreU(y0, d, p0);
    hn::StoreU(y1, d, p1);
    hn::StoreU(y2, d, p2);
    hn::StoreU(y3, d, p3);
  }
  for (; v < vectors; ++v) {
    float* p = advance();
    hn::StoreU(activate<f>(d, hn::LoadU(d, p)), d, p);
  }
  if (whole == n) return;
  for (size_t r = 0; r < rows; ++r) {
    float* rest = x + r * stride + whole;
    HWY_ALIGN float tail[hn::MaxLanes(hn::ScalableTag<float>())] = {};
    for (size_t j = 0; j < n - whole; ++j) tail[j] = rest[j];
    hn::Store(activate<f>(d, hn::Load(d, tail)), d, tail);
    for (size_t j = 0; j < n - whole; ++j) rest[j] = tail[j];
  }
}

// Not inlined: clang takes minutes where gemm.cc has all of these twice.
HWY_NOINLINE inline void activate_rows(Activation f, float* x, size_t rows, size_t n, size_t stride) {
  switch (f) {
    case Activation::kNone:
      return;
    case Activation::kGelu:
      return activate_rows<Activation::kGelu>(x, rows, n, stride);
    case Activation::kGeluTanh:
      return activate_rows<Activation::kGeluTanh>(x, rows, n, stride);
    case Activation::kRelu:
      return activate_rows<Activation::kRelu>(x, rows, n, stride);
    case Activation::kSilu:
      return activate_rows<Activation::kSilu>(x, rows, n, stride);
    case Activation::kTanh:
      return activate_rows<Activation::kTanh>(x, rows, n, stride);
  }
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
