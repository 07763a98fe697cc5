#include "train/baselines/lstm.h"

#include <algorithm>

#include "core/parallel.h"
#include "kernels/activation.h"
#include "kernels/matmul.h"

namespace bertie::baseline {
namespace {

using kernels::Accumulate, kernels::matmul, kernels::transposed;

// The rows of a step, and of them those that have a step before it, which is where the others begin.
struct LstmStep {
  size_t first, count;
  size_t before_first, before_count;
};

size_t step_count(std::span<const size_t> steps) { return steps.empty() ? 0 : steps.size() - 1; }

// The i-th step that is computed.
LstmStep step_at(std::span<const size_t> steps, Direction direction, size_t i) {
  const size_t all = step_count(steps), t = direction == Direction::kForward ? i : all - 1 - i;
  LstmStep step{steps[t], steps[t + 1] - steps[t], 0, 0};
  if (i == 0) return step;
  if (direction == Direction::kForward) {
    step.before_first = steps[t - 1], step.before_count = step.count;  // all of them began earlier
  } else {
    step.before_first = steps[t + 1], step.before_count = steps[t + 2] - steps[t + 1];
  }
  return step;
}

Matrix<float> shaped(std::vector<float>& memory, size_t rows, size_t cols) {
  if (memory.size() < rows * cols) memory.resize(rows * cols);
  return {memory.data(), rows, cols};
}

float* room(std::vector<float>& memory, size_t floats) { return shaped(memory, 1, floats).data(); }

// From z to i, f, o, g, all in one pass of tanh: σ(z) = ½ + ½·tanh(z/2).
void open_gates(Matrix<float> z, size_t hidden) {
  for (size_t r = 0; r < z.rows(); ++r)
    for (size_t j = 0; j < 3 * hidden; ++j) z(r, j) *= 0.5f;
  kernels::activation_forward(kernels::Activation::kTanh, {z.data(), z.rows() * z.cols()});
  for (size_t r = 0; r < z.rows(); ++r)
    for (size_t j = 0; j < 3 * hidden; ++j) z(r, j) = 0.5f + 0.5f * z(r, j);
}

// What the forward pass leaves for the backward pass.
struct KeptSteps {
  Matrix<float> gates, cells, tanhs, before;
};
KeptSteps kept_in(LstmMemory& memory, size_t words, size_t hidden) {
  return {shaped(memory.gates, words, 4 * hidden), shaped(memory.cells, words, hidden),
          shaped(memory.tanhs, words, hidden), shaped(memory.before, words, hidden)};
}

}  // namespace

void lstm_forward(Matrix<const float> x, std::span<const size_t> steps, Direction direction, const Lstm& lstm,
                  Matrix<float> h, LstmMemory& memory) {
  const size_t words = x.rows(), hidden = lstm.wh.cols(), inputs = x.cols();
  Team team(1);
  const auto [gates, cells, tanhs, before] = kept_in(memory, words, hidden);
  for (size_t r = 0; r < words; ++r) std::ranges::copy(lstm.bias, gates.row(r));
  matmul(x, transposed(lstm.wx), gates,
         room(memory.panels, kernels::matmul_workspace_floats(inputs, 4 * hidden)), team, Accumulate::kYes);
  const kernels::Panels recurrent = kernels::pack(
      transposed(lstm.wh), room(memory.panels, kernels::packed_floats(4 * hidden, hidden)), team);

  for (size_t i = 0; i < step_count(steps); ++i) {
    const LstmStep step = step_at(steps, direction, i);
    for (size_t r = 0; r < step.count; ++r) {
      const std::span<float> to = before[step.first + r];
      if (r < step.before_count)
        std::ranges::copy(h[step.before_first + r], to.begin());
      else
        std::ranges::fill(to, 0.0f);
    }
    const Matrix<float> z = gates.slice_rows(step.first, step.count);
    matmul(before.slice_rows(step.first, step.before_count), recurrent, z.slice_rows(0, step.before_count),
           team, Accumulate::kYes);
    open_gates(z, hidden);
    for (size_t r = 0; r < step.count; ++r) {
      const float* gate = z.row(r);
      const float* c_before = r < step.before_count ? cells.row(step.before_first + r) : nullptr;
      float *c = cells.row(step.first + r), *tanh_c = tanhs.row(step.first + r);
      for (size_t j = 0; j < hidden; ++j) c[j] = gate[j] * gate[3 * hidden + j];
      if (c_before)
        for (size_t j = 0; j < hidden; ++j) c[j] += gate[hidden + j] * c_before[j];
      std::copy_n(c, hidden, tanh_c);
    }
    kernels::activation_forward(kernels::Activation::kTanh, {tanhs.row(step.first), step.count * hidden});
    for (size_t r = 0; r < step.count; ++r) {
      const float *o = z.row(r) + 2 * hidden, *tanh_c = tanhs.row(step.first + r);
      float* to = h.row(step.first + r);
      for (size_t j = 0; j < hidden; ++j) to[j] = o[j] * tanh_c[j];
    }
  }
}

void lstm_backward(Matrix<const float> x, std::span<const size_t> steps, Direction direction,
                   const Lstm& lstm, LstmMemory& memory, Matrix<float> dh, Matrix<float> dx,
                   const LstmGradients& gradients) {
  const size_t words = x.rows(), hidden = lstm.wh.cols(), inputs = x.cols();
  Team team(1);
  const auto [gates, cells, tanhs, before] = kept_in(memory, words, hidden);
  const Matrix<float> dz = shaped(memory.d_gates, words, 4 * hidden);
  const Matrix<float> dc = shaped(memory.d_cells, words, hidden);
  std::fill_n(memory.d_cells.begin(), words * hidden, 0.0f);
  const kernels::Panels recurrent =
      kernels::pack(lstm.wh, room(memory.panels, kernels::packed_floats(hidden, 4 * hidden)), team);

  for (size_t i = step_count(steps); i-- > 0;) {
    const LstmStep step = step_at(steps, direction, i);
    for (size_t r = 0; r < step.count; ++r) {
      const size_t row = step.first + r;
      const float *gi = gates.row(row), *gf = gi + hidden, *go = gf + hidden, *gg = go + hidden;
      const float *tanh_c = tanhs.row(row), *dh_row = dh.row(row);
      float *dzi = dz.row(row), *dzf = dzi + hidden, *dzo = dzf + hidden, *dzg = dzo + hidden;
      float* dc_row = dc.row(row);
      for (size_t j = 0; j < hidden; ++j) {
        const float d = dc_row[j] + dh_row[j] * go[j] * (1 - tanh_c[j] * tanh_c[j]);
        dzi[j] = d * gg[j] * gi[j] * (1 - gi[j]);
        dzo[j] = dh_row[j] * tanh_c[j] * go[j] * (1 - go[j]);
        dzg[j] = d * gi[j] * (1 - gg[j] * gg[j]);
        dc_row[j] = d;
      }
      if (r >= step.before_count) {
        std::fill_n(dzf, hidden, 0.0f);
        continue;
      }
      const float* c_before = cells.row(step.before_first + r);
      float* dc_before = dc.row(step.before_first + r);
      for (size_t j = 0; j < hidden; ++j) {
        dzf[j] = dc_row[j] * c_before[j] * gf[j] * (1 - gf[j]);
        dc_before[j] = dc_row[j] * gf[j];
      }
    }
    matmul(dz.slice_rows(step.first, step.before_count), recurrent,
           dh.slice_rows(step.before_first, step.before_count), team, Accumulate::kYes);
  }
  const auto workspace = [&](size_t inner, size_t columns) {
    return room(memory.panels, kernels::matmul_workspace_floats(inner, columns));
  };
  matmul(dz, lstm.wx, dx, workspace(4 * hidden, inputs), team);
  matmul(transposed(dz), x, gradients.wx, workspace(words, inputs), team, Accumulate::kYes);
  matmul(transposed(dz), before, gradients.wh, workspace(words, hidden), team, Accumulate::kYes);
  for (size_t r = 0; r < words; ++r)
    for (size_t j = 0; j < 4 * hidden; ++j) gradients.bias[j] += dz(r, j);
}

}  // namespace bertie::baseline
