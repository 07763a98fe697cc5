#pragma once
// `bertie bench`: how fast, as a fraction of what this machine can do, measured in the same run.
#include <cstddef>
#include <string>
#include <vector>

#include "cli/options.h"

namespace bertie::cli {

int bench_attention(const Settings& settings);
int bench_pretrain(const Settings& settings);

// BATCHxLENGTH. Throws Error.
struct BatchShape {
  size_t batch, length;
};
BatchShape batch_shape(const std::string& name);

// --threads, or all cores.
int threads_or_all(const Settings& settings);
// --seconds for each measurement, or the benchmark's own choice.
double seconds_or(const Settings& settings, double standard);

}  // namespace bertie::cli
