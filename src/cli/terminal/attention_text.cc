#include "cli/terminal/attention_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/terminal/terminal.h"

namespace bertie::cli {

std::vector<float> mean_over_heads(const Attention& attention, size_t layer) {
  const size_t size = attention.n() * attention.n();
  std::vector<float> mean(size);
  for (size_t i = 0; i < size; ++i) {
    double sum = 0;
    for (size_t h = 0; h < attention.heads; ++h) sum += attention.at(layer, h).data()[i];
    mean[i] = float(sum / double(attention.heads));
  }
  return mean;
}

std::vector<std::string> printable_all(std::span<const std::string> texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) all.push_back(printable(text));
  return all;
}

std::vector<std::string> unique_labels(const std::vector<std::string>& tokens) {
  std::vector<std::string> labels = tokens;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (std::count(tokens.begin(), tokens.end(), tokens[i]) > 1) labels[i] += fmt::format("({})", i + 1);
  return labels;
}

}  // namespace bertie::cli
