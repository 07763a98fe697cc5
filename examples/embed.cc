// Sentences to vectors, and how alike they are.
//   example_embed MODEL_DIRECTORY
#include <bertie/bertie.h>

#include <cstdio>
#include <numeric>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL_DIRECTORY\n", argv[0]), 2;
  auto encoder = bertie::Encoder::load(argv[1]);

  const std::string_view sentences[] = {"The weather is lovely today.", "It's so sunny outside!",
                                        "He drove to the stadium."};
  const size_t n = std::size(sentences), dimension = encoder.dimension();
  std::vector<float> vectors(n * dimension);
  encoder.embed(sentences, {vectors.data(), n, dimension});

  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      const float* a = &vectors[i * dimension];
      const float* b = &vectors[j * dimension];
      std::printf("%7.4f", std::inner_product(a, a + dimension, b, 0.0));
    }
    std::printf("  %s\n", sentences[i].data());
  }
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
