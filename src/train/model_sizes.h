#pragma once
// Models by a size's name: those that BERT's authors published (tiny to large; "Well-Read Students Learn
// Better", 2019).
#include <span>
#include <string>
#include <string_view>

#include "bertie/config.h"

namespace bertie {

struct ModelSize {
  std::string_view name;
  size_t layers, hidden, heads;  // the feed-forward network is four times as wide as `hidden`
};
std::span<const ModelSize> model_sizes();

// Throws Error with the names that there are.
Config config_of_size(const std::string& size, bool causal);

// 0: nothing is dropped out in training.
double largest_dropout(const Config& config);

// A learning rate that suits a model of this width.
double usual_rate(size_t hidden);

}  // namespace bertie
