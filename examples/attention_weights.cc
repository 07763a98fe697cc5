// All attention weights of a sentence: who looks at whom, in every layer and head.
//   example_attention_weights MODEL
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  const auto model = bertie::load(argv[1]);
  const bertie::Attention a = model.attend("The bank deposited the money near the river bank.");

  std::printf("Number of attention layers: %zu\n", a.layers);
  for (size_t layer = 0; layer < a.layers; ++layer)
    std::printf("Layer %2zu: (%zu heads, %zu tokens, %zu tokens)\n", layer + 1, a.heads, a.n(), a.n());

  // What the last "bank" looks at most, in the last layer: the mean over heads.
  size_t from = a.n() - 1;
  while (from > 0 && a.tokens[from] != "bank") --from;
  for (size_t to = 0; to < a.n(); ++to) {
    float sum = 0;
    for (size_t head = 0; head < a.heads; ++head) sum += a.at(a.layers - 1, head)(from, to);
    std::printf("%-10s %.3f\n", a.tokens[to].c_str(), sum / float(a.heads));
  }
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
