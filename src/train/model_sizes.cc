#include "train/model_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bertie/error.h"
#include "bertie/nearest.h"
#include "io/json.h"

namespace bertie {

std::span<const ModelSize> model_sizes() {
  static constexpr ModelSize kSizes[] = {{"tiny", 2, 128, 2},   {"mini", 4, 256, 4},
                                         {"small", 4, 512, 8},  {"medium", 8, 512, 8},
                                         {"base", 12, 768, 12}, {"large", 24, 1024, 16}};
  return kSizes;
}

Config config_of_size(const std::string& size, bool causal) {
  std::vector<std::string_view> names;
  for (const ModelSize& s : model_sizes()) {
    names.push_back(s.name);
    if (s.name != size) continue;
    Config config = Config::named(causal ? "gpt2" : "bert-base");
    config.layers = s.layers, config.hidden = s.hidden, config.heads = s.heads;
    config.intermediate = 4 * s.hidden;
    return config;
  }
  const std::string_view meant = nearest(size, names);
  throw Error(
      fmt::format("there is no size {}", io::quote(size)),
      meant.empty() ? fmt::format("`size` {}", fmt::join(names, ", ")) : fmt::format("`size` {}", meant),
      "size");
}

// 1e-3 for tiny, 5e-4 for mini, 1.7e-4 for base: half as much for twice the width.
double largest_dropout(const Config& c) {
  return std::max({c.dropout, c.attention_dropout, c.classifier_dropout, c.embedding_dropout});
}

double usual_rate(size_t hidden) { return 1e-3 * 128 / double(hidden); }

}  // namespace bertie
