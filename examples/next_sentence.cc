// Does this sentence follow that one?
//   example_next_sentence MODEL_DIRECTORY        for instance bert-base-uncased
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL_DIRECTORY\n", argv[0]), 2;
  auto pipeline = bertie::Pipeline::load(argv[1]);

  const bertie::TextPair pairs[] = {{"It was raining.", "We stayed at home."},
                                    {"It was raining.", "Penguins cannot fly."}};
  const std::vector<float> scores = pipeline.next_sentence(pairs);
  for (size_t i = 0; i < scores.size(); ++i)
    std::printf("%.4f  %s %s\n", scores[i], pairs[i].a.data(), pairs[i].b.data());
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
