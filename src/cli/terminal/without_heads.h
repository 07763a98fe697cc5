#pragma once
// What a score becomes without each head in turn, as a table of those that are missed most.
#include <string_view>
#include <vector>

#include "cli/terminal/terminal.h"

namespace bertie::cli {

struct WithoutHeads {
  std::string_view score;  // "loss", "accuracy"
  bool lower_is_better = false;
  double with_all = 0;
  size_t heads = 0;             // of a layer
  std::vector<double> without;  // (layers, heads); NaN where a head was pruned
};

void print_without_heads(const WithoutHeads& a, const Style& style);

}  // namespace bertie::cli
