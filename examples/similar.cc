// The texts nearest to a query.
//   example_similar MODEL        for instance all-MiniLM-L6-v2
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  const auto model = bertie::load(argv[1]);

  const std::string_view texts[] = {"He drove to the stadium.", "It's so sunny outside!",
                                    "The soup was cold.", "A storm is coming."};
  const bertie::Embedding query = model.embed("The weather is lovely today.");
  for (const bertie::Ranked& r : bertie::rank(query, model.embed(texts), 3))
    std::printf("%.4f  %s\n", r.score, texts[r.index].data());
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
