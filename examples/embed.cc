// Sentences to vectors, and how alike they are.
//   example_embed MODEL
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  const auto model = bertie::load(argv[1]);

  const std::string_view sentences[] = {"The weather is lovely today.", "It's so sunny outside!",
                                        "He drove to the stadium."};
  const std::vector<bertie::Embedding> vectors = model.embed(sentences);

  for (size_t i = 0; i < vectors.size(); ++i) {
    for (const bertie::Embedding& other : vectors)
      std::printf("%7.4f", bertie::cosine(vectors[i].values, other.values));
    std::printf("  %s\n", sentences[i].data());
  }
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
