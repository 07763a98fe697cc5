#pragma once
// A long short-term memory (Hochreiter & Schmidhuber 1997; with forget gates, Gers et al. 2000), in one
// direction over many sequences at once. h' and c' are those of the step before, 0 at the beginning.
//
//   z = Wx·x + Wh·h' + b               (4·H): i, f, o, g
//   i, f, o = σ(z)   g = tanh(z)
//   c = f∘c' + i∘g
//   h = o∘tanh(c)
//
//   backward, from the last step to the first; dh has what later steps add to it, dc begins with 0:
//   dc += dh∘o∘(1 − tanh²(c))
//   dz_i = dc∘g∘i∘(1 − i)    dz_f = dc∘c'∘f∘(1 − f)    dz_o = dh∘tanh(c)∘o∘(1 − o)    dz_g = dc∘i∘(1 − g²)
//   dc' = dc∘f     dh' += Whᵀ·dz     dx = Wxᵀ·dz     dWx += dz·xᵀ     dWh += dz·h'ᵀ     db += dz
//
// Rows lie step by step: those of step 0 for all sequences, then those of step 1 for all that have one …, the
// longest sequence first. So a step's matrix product takes neighboring rows, and nothing is padded.
//
//   x (T, E)   h (T, H)   Wx (4·H, E)   Wh (4·H, H)   b (4·H)        T words of all sequences
#include <cstddef>
#include <span>
#include <vector>

#include "bertie/view.h"

namespace bertie::baseline {

enum class Direction : bool { kForward, kBackward };  // from the first word on, or from the last

struct Lstm {
  Matrix<const float> wx, wh;
  std::span<const float> bias;
};
struct LstmGradients {
  Matrix<float> wx, wh;  // added to
  std::span<float> bias;
};

// What the backward pass needs of the forward pass beside its inputs, and memory of both. Reuse it.
struct LstmMemory {
  std::vector<float> gates;         // (T, 4·H): i, f, o, g
  std::vector<float> cells, tanhs;  // (T, H): c and tanh(c)
  std::vector<float> before;        // (T, H): h'
  std::vector<float> d_gates, d_cells, panels;
};

// steps[t] .. steps[t + 1] − 1 are the rows of step t. One thread; h may be columns of something wider.
void lstm_forward(Matrix<const float> x, std::span<const size_t> steps, Direction direction, const Lstm& lstm,
                  Matrix<float> h, LstmMemory& memory);

// dh is used up. dx is assigned.
void lstm_backward(Matrix<const float> x, std::span<const size_t> steps, Direction direction,
                   const Lstm& lstm, LstmMemory& memory, Matrix<float> dh, Matrix<float> dx,
                   const LstmGradients& gradients);

}  // namespace bertie::baseline
