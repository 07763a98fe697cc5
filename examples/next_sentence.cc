// Does this sentence follow that one?
//   example_next_sentence MODEL        for instance bert-base-uncased
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  const auto model = bertie::load(argv[1]);

  const bertie::TextPair pairs[] = {{"It was raining.", "We stayed at home."},
                                    {"It was raining.", "Penguins cannot fly."}};
  for (const auto& [a, b] : pairs)
    std::printf("%.4f  %s %s\n", model.next_sentence(a, b).is_next, a.data(), b.data());
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
