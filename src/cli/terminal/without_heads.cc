#include "cli/terminal/without_heads.h"

#include <algorithm>
#include <cmath>

#include "cli/output.h"
#include "cli/terminal/table.h"

namespace bertie::cli {

void print_without_heads(const WithoutHeads& a, const Style& style) {
  constexpr size_t kShown = 10;
  const auto name = [&](size_t i) { return fmt::format("{}-{}", i / a.heads + 1, i % a.heads + 1); };
  const auto lost = [&](size_t i) { return (a.without[i] - a.with_all) * (a.lower_is_better ? 1 : -1); };
  std::vector<size_t> order;
  for (size_t i = 0; i < a.without.size(); ++i)
    if (!std::isnan(lost(i))) order.push_back(i);
  if (order.empty()) return print("no head has a {} to compare\n", a.score);
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return lost(x) > lost(y); });
  Table table({"without", std::string(a.score), "change"}, "rrr");
  const auto change = [&](size_t i) { return fmt::format("{:+.4f}", a.without[i] - a.with_all); };
  for (size_t i = 0; i < std::min(kShown, order.size()); ++i)
    table.add({name(order[i]), fmt::format("{:.4f}", a.without[order[i]]), change(order[i])});
  print(table.text(style, output_width()));
  const auto better = std::ranges::count_if(order, [&](size_t i) { return lost(i) < 0; });
  print("the {} is better without {} of {} heads", a.score, better, order.size());
  print(better ? fmt::format(", best without {} ({})\n", name(order.back()), change(order.back())) : "\n");
}

}  // namespace bertie::cli
