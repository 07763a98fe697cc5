// `bertie bench pretrain`: whole steps of pre-training on random data with the paper's masks.
#include "bertie/bench.h"
#include "bertie/json_writer.h"
#include "bertie/train.h"
#include "cli/commands/bench.h"
#include "cli/output.h"

namespace bertie::cli {

int bench_pretrain(const Settings& settings) {
  const std::string shape_name = settings.shape.value_or("32x128");
  const BatchShape shape = batch_shape(shape_name);
  const std::vector<std::string> sizes = settings.model_size
                                             ? std::vector{*settings.model_size}
                                             : std::vector<std::string>{"tiny", "mini", "small"};
  const int threads = threads_or_all(settings);
  const size_t accumulate = settings.accumulate.value_or(1);
  if (!settings.json)
    print(
        "Steps of pre-training ({}, {} threads): masked tokens and next sentence, dropout, clip, AdamW. The "
        "peak is that of fp32: products of bf16 may go beyond "
        "it.\n\n{:<9}{:<9}{:<9}{:>10}{:>11}{:>11}{:>10}{:>9}{:>10}{:>10}{:>12}{:>12}\n",
        instruction_set(), threads, "size", "batch", "products", "best ms", "median ms", "tokens/s",
        "GFLOP/s", "peak", "of peak", "median", "state MB", "passes MB");
  for (const std::string& size : sizes) {
    PretrainBenchmark steps({.size = size,
                             .batch = shape.batch,
                             .length = shape.length,
                             .accumulate = accumulate,
                             .recompute = settings.recompute,
                             .bf16 = settings.bf16,
                             .threads = threads});
    const double operations = steps.operations();
    const Speed m = measure([&] { steps.step(); }, operations, threads,
                            {.seconds = seconds_or(settings, 10), .least_groups = 3});
    const std::string_view products = steps.bf16() ? "bf16" : "fp32";
    const double tokens = double(shape.batch * shape.length);
    const double state = double(steps.state_bytes()), passes = double(steps.activation_bytes());
    if (settings.json) {
      JsonWriter json;
      json.begin_object()
          .field("size", size)
          .field("shape", shape_name)
          .field("threads", threads)
          .field("accumulate", accumulate)
          .field("recompute", settings.recompute)
          .field("precision", products)
          .field("milliseconds", m.best * 1e3)
          .field("median_milliseconds", m.median * 1e3)
          .field("tokens_per_second", tokens / m.best)
          .field("median_tokens_per_second", tokens / m.median)
          .field("gflops", operations / m.best / 1e9)
          .field("peak_gflops", m.best_peak / 1e9)
          .field("fraction", operations / m.best / m.best_peak)
          .field("median_fraction", m.share)
          .field("operations", operations)
          .field("state_bytes", state)
          .field("activation_bytes", passes)
          .end_object();
      print(json.take() + "\n");
    } else
      print(
          "{:<9}{:<9}{:<9}{:>10.1f}{:>11.1f}{:>11.0f}{:>10.1f}{:>9.1f}{:>9.1f}%{:>9.1f}%{:>12.1f}{:>12.1f}\n",
          size, shape_name, products, m.best * 1e3, m.median * 1e3, tokens / m.best,
          operations / m.best / 1e9, m.best_peak / 1e9, 100 * operations / m.best / m.best_peak,
          100 * m.share, state / 1e6, passes / 1e6);
    flush_output();
  }
  return 0;
}

}  // namespace bertie::cli
