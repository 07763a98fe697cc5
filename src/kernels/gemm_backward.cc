// The gradients of a linear layer's weights; those of its input are a product like the forward one (gemm.cc).
//
// A panel of the packed gradient is K rows of 32, dW += xᵀ·dy[:, panel], the sum over tokens in order. As the
// left side of that product x would be read a cache line here and there, so it is packed first:
//
//   inputs go in tiles of up to 14 (as many as the inner loop takes), tokens in slices of 256;
//   of each slice the pieces of a tile, kPieceStride floats a token, lie one after the other.
//
// Then, for a slice and a block of tiles, which stay in L2, one panel of dy after another is packed into L1,
// and the sums so far wait in the gradient. For products of bf16 two tokens are packed as one, in pairs. AMX
// wants the left side the other way round: its tiles are 32 inputs, each a row of a slice's pairs of tokens.
#include <algorithm>
#include <cassert>

#include "core/arena.h"
#include "core/system.h"
#include "kernels/amx.h"
#include "kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/pack-inl.h"
#include "kernels/tile-inl.h"

#ifndef BERTIE_KERNELS_GEMM_BACKWARD_CC_
#define BERTIE_KERNELS_GEMM_BACKWARD_CC_
namespace bertie::kernels {

inline constexpr size_t kTokens = 256;       // of a slice
inline constexpr size_t kMostTokens = 1024;  // that are packed at a time
// Tokens that are packed together: their cache lines L1 keeps from tile to tile. AMX transposes 16 pairs.
inline constexpr size_t packed_together(Products products) { return products == Products::kAmx ? 32 : 16; }

}  // namespace bertie::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {

size_t input_tiles(size_t inputs, Products products) { return RowTiles(inputs, products).count; }

// Floats of a tile of the left side, for so many tokens of a slice.
size_t tile_floats(size_t tokens, Products products) {
  const size_t steps = steps_of(tokens, products);
  return products == Products::kAmx ? kAmxRows * round_up(steps, kAmxSteps) : kPieceStride * steps;
}

// Floats of the left side for so many tokens, in slices of kTokens.
size_t left_floats(size_t inputs, size_t tokens, Products products) {
  return input_tiles(inputs, products) *
         (tokens / kTokens * tile_floats(kTokens, products) + tile_floats(tokens % kTokens, products));
}

// Tokens t0.. of a slice, which is x, up to packed_together() of them.
void pack_pieces(Matrix<const float> x, size_t t0, Products products, float* pieces) {
  const RowTiles tiles(x.cols(), products);
  const Matrix<const float> some = x.slice_rows(t0, std::min(packed_together(products), x.rows() - t0));
  const size_t floats = tile_floats(x.rows(), products);
  for (size_t tile = 0; tile < tiles.count; ++tile) {
    float* const to = pieces + tile * floats;
    if (products == Products::kAmx)
      pack_amx_tile(some, tiles.begin(tile), to + t0 / 2, floats / kAmxRows);
    else
      pack_tile(some, tiles.begin(tile), products, to + steps_of(t0, products) * kPieceStride);
  }
}

// bias[0..31] += the sum of the rows of a packed panel.
HWY_INLINE void add_rows(const float* panel, size_t rows, float* bias) {
  const hn::ScalableTag<float> d;
  for (size_t c = 0; c < kPanel; c += hn::Lanes(d)) {
    auto sum = hn::LoadU(d, bias + c);
    for (size_t r = 0; r < rows; ++r) sum = hn::Add(sum, hn::LoadU(d, panel + r * kPanel + c));
    hn::StoreU(sum, d, bias + c);
  }
}

// Adds the gradient of tiles [tile0, tile1) of inputs and of panels [first, last), for up to kMostTokens
// tokens, whose pieces these are.
void weight_panels(const float* pieces, Matrix<const float> dy, const Linear& gradient, size_t tile0,
                   size_t tile1, size_t first, size_t last, Products products) {
  const bool amx = products == Products::kAmx;
  const RowTiles tiles(gradient.inputs, products);
  const AmxScope scope(amx);
  HWY_ALIGN float packed[kTokens * kPanel];
  HWY_ALIGN float pairs[kTokens / 2 * kPanel];
  const auto slice = [&](size_t t0, size_t panel) {
    const size_t n0 = panel * kPanel, rows = t0 < dy.rows() ? std::min(kTokens, dy.rows() - t0) : 0;
    return dy.slice_rows(t0, rows).slice_cols(n0, std::min(kPanel, gradient.outputs - n0));
  };
  const auto pieces_of = [&](size_t t0, size_t tile, size_t tokens) {
    return pieces + left_floats(gradient.inputs, t0, products) + tile * tile_floats(tokens, products);
  };
  const size_t halves = (tile1 - tile0 + 1) / 2;
  for (size_t t0 = 0; t0 < dy.rows(); t0 += kTokens) {
    const size_t tokens = std::min(kTokens, dy.rows() - t0);
    const size_t steps = steps_of(tokens, products), end = t0 + tokens;
    const size_t tokens_next = std::min(kTokens, dy.rows() - end);
    const float* const pieces_next = pieces_of(end, tile0, tokens_next);
    const size_t floats_next = (tile1 - tile0) * tile_floats(tokens_next, products);
    for (size_t panel = first; panel < last; ++panel) {
      copy_panel(slice(t0, panel), packed);
      if (tile0 == 0 && gradient.bias) add_rows(packed, tokens, gradient.bias + panel * kPanel);
      if (are_bf16(products)) pair_panel(packed, tokens, pairs);
      if (amx) fill_amx_step(pairs, steps);
      const auto dy_next = panel + 1 < last ? slice(t0, panel + 1) : slice(t0 + kTokens, first);
      float* to = gradient.floats() + panel * kPanel * gradient.inputs;
      for (size_t tile = tile0; tile < tile1; ++tile) {
        const size_t r0 = tiles.begin(tile), i = tile - tile0;
        // In even tiles the next panel of dy, in odd ones the next slice of x.
        const size_t share = (panel - first) * halves + i / 2, shares = (last - first) * halves;
        const Lines next = i % 2 == 0 ? Lines::of_panel(dy_next, i / 2, halves)
                                      : Lines::of_run(pieces_next, floats_next, share, shares);
        const TileArgs args{.a = pieces_of(t0, tile, tokens),
                            .a_stride = amx ? tile_floats(tokens, products) / kAmxRows : kPieceStride,
                            .b = are_bf16(products) ? pairs : packed,
                            .k_count = steps,
                            .out = to + r0 * kPanel,
                            .out_stride = kPanel,
                            .accumulate = true,
                            .next = next,
                            .products = products};
        const size_t rows = tiles.begin(tile + 1) - r0;
        amx ? tile_amx(rows, args) : tile_transposed(rows, args);
      }
    }
  }
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(left_floats);
HWY_EXPORT(input_tiles);
HWY_EXPORT(pack_pieces);
HWY_EXPORT(weight_panels);

size_t linear_backward_weights_workspace(const Linear& layer, size_t rows) {
  const auto floats = HWY_DYNAMIC_DISPATCH(left_floats);
  const size_t tokens = std::min(rows, kMostTokens);
  return std::max(floats(layer.inputs, tokens, Products::kFloat32),
                  floats(layer.inputs, tokens, products_here(Products::kAmx)));
}

void linear_backward_weights(Matrix<const float> x, Matrix<const float> dy, const Linear& gradient,
                             float* workspace, Team& team, Products products) {
  assert(x.rows() == dy.rows() && x.cols() == gradient.inputs && dy.cols() == gradient.outputs);
  products = products_here(products);
  const auto floats = HWY_DYNAMIC_DISPATCH(left_floats);
  const auto pack = HWY_DYNAMIC_DISPATCH(pack_pieces);
  const auto multiply = HWY_DYNAMIC_DISPATCH(weight_panels);
  // Inputs go in blocks of which a slice takes at most five eighths of the L2 cache, panels in groups: chunks
  // enough for every thread, but large, since every block packs dy and every group reads x anew.
  constexpr size_t kFewInputs = 128;
  const size_t most_inputs = std::max(kFewInputs, l2_cache_bytes() / 8 * 5 / (kTokens * sizeof(float)));
  const auto parts = [](size_t n, size_t of) { return (n + of - 1) / of; };
  const size_t panels = panels_for(gradient.outputs),
               tiles = HWY_DYNAMIC_DISPATCH(input_tiles)(x.cols(), products);
  const size_t threads = size_t(team.threads()), wanted = threads == 1 ? 1 : 4 * threads;
  const size_t groups = std::min(panels, wanted);
  const size_t blocks =
      std::max(parts(x.cols(), most_inputs), std::min(parts(x.cols(), kFewInputs), wanted / groups));
  const size_t together = packed_together(products);
  for (size_t t0 = 0; t0 < x.rows(); t0 += kMostTokens) {
    const size_t tokens = std::min(kMostTokens, x.rows() - t0);
    team.parallel_for(parts(tokens, together), [&](size_t chunk) {
      const size_t t = chunk * together, s0 = t / kTokens * kTokens;
      pack(x.slice_rows(t0 + s0, std::min(kTokens, tokens - s0)), t - s0, products,
           workspace + floats(x.cols(), s0, products));
    });
    team.parallel_for(blocks * groups, [&](size_t chunk) {
      const size_t block = chunk / groups, group = chunk % groups;
      multiply(workspace, dy.slice_rows(t0, tokens), gradient, block * tiles / blocks,
               (block + 1) * tiles / blocks, group * panels / groups, (group + 1) * panels / groups,
               products);
    });
  }
}

}  // namespace bertie::kernels
#endif
