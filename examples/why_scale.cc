// Why scores are divided by √d: random queries and keys of d numbers, with the division and without. A
// softmax that gives nearly all to one key hardly changes when scores do, and little comes back to learn
// from.
#include <bertie/attention.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

constexpr size_t kQueries = 2000, kKeys = 16;
// Means over queries: the largest weight, and the derivative's size √Σ(∂wₐ/∂s_b)², ∂wₐ/∂s_b = wₐ(δ − w_b).
void show(const std::vector<float>& q, const std::vector<float>& k, size_t d, bertie::Score score) {
  std::vector<float> out(kQueries * d), weights(kQueries * kKeys);
  const bertie::Matrix<const float> qs(q.data(), kQueries, d), ks(k.data(), kKeys, d);
  bertie::attention(qs, ks, ks, {out.data(), kQueries, d}, weights, {.score = score});
  double largest = 0, slope = 0;
  for (const float* w = weights.data(); w < weights.data() + weights.size(); w += kKeys) {
    double squares = 0;
    for (size_t a = 0; a < kKeys; ++a)
      for (size_t b = 0; b < kKeys; ++b) squares += std::pow(w[a] * ((a == b) - w[b]), 2);
    largest += *std::max_element(w, w + kKeys) / kQueries, slope += std::sqrt(squares) / kQueries;
  }
  std::printf("%14.2f %11.3f", largest, slope);
}

int main() {
  std::printf("          q·k/√d: largest weight, slope    q·k: the same\n");
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (size_t d : {2, 8, 32, 64, 128, 512}) {
    std::vector<float> q(kQueries * d), k(kKeys * d);
    for (auto* numbers : {&q, &k}) std::ranges::generate(*numbers, [&] { return normal(random); });
    std::printf("d = %3zu", d);
    for (auto score : {bertie::Score::scaled_dot(), bertie::Score::dot()}) show(q, k, d, score);
    std::puts("");
  }
}
