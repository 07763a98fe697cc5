// The kernels one by one, on one thread. Rates of the linear layers are also given by oneDNN where it was
// found when building: the comparison behind docs/adr/0001. Weights come from beyond the L2 cache, as they
// do in a forward pass.
#include <benchmark/benchmark.h>

#include <vector>

#include "attention/scaled_dot_product.h"
#include "core/arena.h"
#include "core/random.h"
#include "kernels/gemm.h"
#include "kernels/layer_norm.h"
#include "kernels/peak.h"
#include "kernels/softmax.h"
#ifdef BERTIE_HAVE_ONEDNN
#include <dnnl.hpp>
#endif

namespace bertie {
namespace {

struct Numbers {
  explicit Numbers(size_t count) : block(count * sizeof(float)), data(block.as<float>()) {
    Random random(count);
    for (size_t i = 0; i < count; ++i) data[i] = random.uniform() - 0.5f;
  }
  Block block;
  float* data;
};

void rate(benchmark::State& state, double operations) {
  state.counters["FLOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
}

void peak(benchmark::State& state) {
  Team team;
  double best = 0;
  for (auto _ : state) best = std::max(best, kernels::fma_peak(team, 0.01));
  state.counters["FLOP/s"] = best;
}
BENCHMARK(peak);

// rows, outputs, inputs, activation
void linear(benchmark::State& state) {
  const auto rows = size_t(state.range(0)), outputs = size_t(state.range(1)), inputs = size_t(state.range(2));
  const auto f = state.range(3) ? kernels::Activation::kGelu : kernels::Activation::kNone;
  const size_t floats = kernels::packed_floats(outputs, inputs),
               copies = std::max<size_t>(1, (16 << 20) / floats);
  Numbers x(rows * inputs), w(floats * copies), b(outputs + kernels::kPanel), y(rows * outputs);
  Team team;
  size_t copy = 0;
  for (auto _ : state)
    kernels::linear_forward({x.data, rows, inputs},
                            {w.data + floats * (copy++ % copies), b.data, inputs, outputs}, f,
                            {y.data, rows, outputs}, team);
  rate(state, 2.0 * double(rows * outputs * inputs));
}

#ifdef BERTIE_HAVE_ONEDNN
void linear_onednn(benchmark::State& state) {
  using namespace dnnl;
  using Type = memory::data_type;
  using Tag = memory::format_tag;
  const int64_t rows = state.range(0), outputs = state.range(1), inputs = state.range(2);
  const engine cpu(engine::kind::cpu, 0);
  stream queue(cpu);
  primitive_attr attributes;
  if (state.range(3)) {
    post_ops gelu;
    gelu.append_eltwise(1.0f, algorithm::eltwise_gelu_erf, 0, 0);
    attributes.set_post_ops(gelu);
  }
  const memory::desc x_desc({rows, inputs}, Type::f32, Tag::ab),
      w_desc({outputs, inputs}, Type::f32, Tag::any), b_desc({outputs}, Type::f32, Tag::a),
      y_desc({rows, outputs}, Type::f32, Tag::ab);
  const inner_product_forward::primitive_desc description(
      {prop_kind::forward_inference, x_desc, w_desc, b_desc, y_desc}, attributes, cpu);
  const inner_product_forward primitive(description);
  const size_t floats = description.weights_desc().get_size() / sizeof(float);
  const size_t copies = std::max<size_t>(1, (16 << 20) / floats);
  Numbers x(size_t(rows * inputs)), w(floats * copies), b{size_t(outputs)}, y{size_t(rows * outputs)};
  std::vector<memory> weights;
  for (size_t i = 0; i < copies; ++i)
    weights.emplace_back(description.weights_desc(), cpu, w.data + i * floats);
  const memory x_memory(x_desc, cpu, x.data), b_memory(b_desc, cpu, b.data), y_memory(y_desc, cpu, y.data);
  size_t copy = 0;
  for (auto _ : state) {
    primitive.execute(queue, {{DNNL_ARG_SRC, x_memory},
                              {DNNL_ARG_WEIGHTS, weights[copy++ % copies]},
                              {DNNL_ARG_BIAS, b_memory},
                              {DNNL_ARG_DST, y_memory}});
    queue.wait();
  }
  rate(state, 2.0 * double(rows * outputs * inputs));
}
#endif

void linear_shapes(benchmark::internal::Benchmark* b) {
  for (int64_t rows : {16, 128, 805})
    for (auto [outputs, inputs, gelu] : {std::tuple<int64_t, int64_t, int64_t>{2304, 768, 0},
                                         {768, 768, 0},
                                         {3072, 768, 1},
                                         {768, 3072, 0},
                                         {1152, 384, 0},
                                         {384, 384, 0},
                                         {1536, 384, 1},
                                         {384, 1536, 0}})
      b->Args({rows, outputs, inputs, gelu});
  b->ArgNames({"rows", "outputs", "inputs", "gelu"})->MinTime(0.05);
}
BENCHMARK(linear)->Apply(linear_shapes);
#ifdef BERTIE_HAVE_ONEDNN
BENCHMARK(linear_onednn)->Apply(linear_shapes);
#endif

void layer_norm(benchmark::State& state) {
  const size_t rows = 128, cols = size_t(state.range(0));
  Numbers x(rows * cols), r(rows * cols), gamma(cols), beta(cols), y(rows * cols);
  Team team;
  for (auto _ : state)
    kernels::residual_layer_norm_forward({x.data, rows, cols}, {r.data, rows, cols},
                                         {gamma.data, beta.data, 1e-12f}, {y.data, rows, cols}, team);
  state.SetItemsProcessed(state.iterations() * int64_t(rows * cols));
}
BENCHMARK(layer_norm)->Arg(384)->Arg(768);

void activation(benchmark::State& state) {
  Numbers x(4096);
  for (auto _ : state) kernels::activation_forward(kernels::Activation(state.range(0)), {x.data, 4096});
  state.SetItemsProcessed(state.iterations() * 4096);
}
BENCHMARK(activation)->DenseRange(int(kernels::Activation::kGelu), int(kernels::Activation::kTanh));

void softmax(benchmark::State& state) {
  Numbers x(size_t(state.range(0)));
  for (auto _ : state) kernels::softmax_forward({x.data, size_t(state.range(0))});
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(softmax)->Arg(25)->Arg(128)->Arg(512);

// tokens, heads, head size, weights wanted
void attention(benchmark::State& state) {
  const auto n = size_t(state.range(0)), heads = size_t(state.range(1)), c = heads * size_t(state.range(2));
  Numbers qkv(n * 3 * c), out(n * c), weights(heads * n * n);
  const std::vector<int32_t> offsets{0, int32_t(n)};
  const Matrix<const float> all(qkv.data, n, 3 * c);
  const dot_product::Batch batch{.q = all.slice_cols(0, c),
                                 .k = all.slice_cols(c, c),
                                 .v = all.slice_cols(2 * c, c),
                                 .q_offsets = offsets,
                                 .k_offsets = offsets,
                                 .heads = heads,
                                 .scale = 0.125f};
  const bool exact = state.range(3);
  Block workspace(dot_product::workspace_bytes(batch, exact, 1));
  Team team;
  for (auto _ : state) {
    if (exact)
      dot_product::exact(batch, {out.data, n, c}, {weights.data, heads * n * n}, workspace.data(), team);
    else
      dot_product::tiled(batch, {out.data, n, c}, workspace.data(), team);
  }
  rate(state, 4.0 * double(n * n * c));
}
BENCHMARK(attention)
    ->ArgNames({"tokens", "heads", "size", "weights"})
    ->ArgsProduct({{25, 128, 512, 2048}, {12}, {32, 64}, {0, 1}});

}  // namespace
}  // namespace bertie

BENCHMARK_MAIN();
