// `bertie bench pretrain`: whole steps of pre-training on random data with the paper's masks.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bertie/train.h"
#include "cli/bench.h"
#include "cli/measure.h"
#include "cli/output.h"

namespace bertie::cli {

int bench_pretrain(const BenchOptions& o) {
  const std::string shape_name = o.shape.empty() ? "32x128" : o.shape;
  const BatchShape shape = batch_shape(shape_name);
  std::vector<std::string> sizes{o.size};
  if (o.size.empty()) sizes = {"tiny", "mini", "small"};
  const int threads = o.threads > 0 ? o.threads : available_threads();
  if (!o.json)
    fmt::print(
        "Steps of pre-training in fp32 ({}, {} threads): masked tokens and next sentence, dropout, clip, "
        "AdamW.\n\n{:<9}{:<9}{:>10}{:>11}{:>11}{:>10}{:>9}{:>10}{:>10}{:>12}{:>12}\n",
        kernels::instruction_set(), threads, "size", "batch", "best ms", "median ms", "tokens/s",
        "GFLOP/s", "peak", "of peak", "median", "state MB", "passes MB");
  for (const std::string& size : sizes) {
    PretrainBenchmark steps({.size = size,
                             .batch = shape.batch,
                             .length = shape.length,
                             .accumulate = o.accumulate,
                             .recompute = o.recompute,
                             .threads = threads});
    const double operations = steps.operations();
    const Measured m = measure({.seconds = o.seconds > 0 ? o.seconds : 10.0, .least_groups = 3}, operations,
                               threads, [&] { steps.step(); });
    const double tokens = double(shape.batch * shape.length);
    const double state = double(steps.state_bytes()), passes = double(steps.activation_bytes());
    if (o.json)
      fmt::print("{}\n", nlohmann::json{{"size", size},
                                        {"shape", shape_name},
                                        {"threads", threads},
                                        {"accumulate", o.accumulate},
                                        {"recompute", o.recompute},
                                        {"precision", "fp32"},
                                        {"milliseconds", m.best * 1e3},
                                        {"median_milliseconds", m.median * 1e3},
                                        {"tokens_per_second", tokens / m.best},
                                        {"median_tokens_per_second", tokens / m.median},
                                        {"gflops", operations / m.best / 1e9},
                                        {"peak_gflops", m.best_peak / 1e9},
                                        {"fraction", operations / m.best / m.best_peak},
                                        {"median_fraction", m.share},
                                        {"operations", operations},
                                        {"state_bytes", state},
                                        {"activation_bytes", passes}}
                             .dump());
    else
      fmt::print(
          "{:<9}{:<9}{:>10.1f}{:>11.1f}{:>11.0f}{:>10.1f}{:>9.1f}{:>9.1f}%{:>9.1f}%{:>12.1f}{:>12.1f}\n",
          size, shape_name, m.best * 1e3, m.median * 1e3, tokens / m.best, operations / m.best / 1e9,
          m.best_peak / 1e9, 100 * operations / m.best / m.best_peak, 100 * m.share, state / 1e6,
          passes / 1e6);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace bertie::cli
