// Why scores are divided by √d: random queries and keys of d numbers, 16 keys for each query, with the
// division and without. A softmax that gives nearly all to one key hardly changes when scores do, so that
// little comes back to learn from: the size of its derivative, √Σ(∂wᵢ/∂sⱼ)².
#include <bertie/attention.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace {

constexpr size_t kQueries = 2000, kKeys = 16;

struct Seen {
  double largest = 0, slope = 0;  // means over queries
};

Seen look(const std::vector<float>& q, const std::vector<float>& k, size_t d, bool scaled) {
  std::vector<float> out(kQueries * d), weights(kQueries * kKeys);
  bertie::AttentionOptions options;
  if (!scaled) options.score = bertie::Score::dot();
  bertie::attention({q.data(), kQueries, d}, {k.data(), kKeys, d}, {k.data(), kKeys, d},
                    {out.data(), kQueries, d}, weights, options);
  Seen seen;
  for (size_t i = 0; i < kQueries; ++i) {
    const float* w = weights.data() + i * kKeys;
    double largest = 0, squares = 0;  // ∂wₐ/∂s_b = wₐ(δ − w_b)
    for (size_t a = 0; a < kKeys; ++a) {
      largest = std::max(largest, double(w[a]));
      for (size_t b = 0; b < kKeys; ++b) squares += std::pow(w[a] * ((a == b) - w[b]), 2);
    }
    seen.largest += largest / kQueries, seen.slope += std::sqrt(squares) / kQueries;
  }
  return seen;
}

}  // namespace

int main() {
  std::printf("              scores / √d                scores as they are\n");
  std::printf("    d    largest weight   slope      largest weight   slope\n");
  std::mt19937 random(1);
  for (size_t d : {2, 8, 32, 64, 128, 512}) {
    std::normal_distribution<float> normal;
    std::vector<float> q(kQueries * d), k(kKeys * d);
    for (std::vector<float>* numbers : {&q, &k})
      for (float& x : *numbers) x = normal(random);
    const Seen with = look(q, k, d, true), without = look(q, k, d, false);
    std::printf("%5zu %13.2f %11.3f %15.2f %11.3f\n", d, with.largest, with.slope, without.largest,
                without.slope);
  }
}
