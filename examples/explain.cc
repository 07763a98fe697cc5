// Self-attention step by step: the numbers of one head, first of the worked example, then of a model.
//   example_explain MODEL
#include <bertie/bertie.h>

#include <algorithm>
#include <cstdio>

static void print(const char* name, const bertie::Grid& grid, size_t row) {
  std::printf("  %-8s", name);
  for (size_t c = 0; c < std::min<size_t>(grid.cols, 8); ++c) std::printf(" %7.4f", grid(row, c));
  std::printf("%s\n", grid.cols > 8 ? " ..." : "");
}

static void print(const bertie::AttentionSteps& s, size_t token) {
  std::printf("\"%s\"\n", s.tokens[token].c_str());
  print("x", s.x, token);
  print("query", s.q, token);
  print("scores", s.scores, token);
  print("scaled", s.scaled, token);
  print("weights", s.weights, token);
  print("output", s.output, token);
}

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  print(bertie::explain_you_found_me(), 1);
  const auto model = bertie::load(argv[1]);
  print(bertie::explain(model, "You found me", {.layer = 5, .head = 0}), 2);
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
