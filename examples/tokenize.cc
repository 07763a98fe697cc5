// Text to tokens, and back to the places they came from.
//   example_tokenize MODEL [TEXT]
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc < 2) return std::fprintf(stderr, "usage: %s MODEL [TEXT]\n", argv[0]), 2;
  const auto tokenizer = bertie::Tokenizer::load(argv[1]);
  const std::string_view text = argc > 2 ? argv[2] : "Crème brûlée near the river bank.";

  const bertie::Encoding e = tokenizer.encode(text);
  for (size_t i = 0; i < e.size(); ++i) {
    const std::string token(tokenizer.token(e.ids[i])), place(bertie::text_at(text, e.offsets[i]));
    std::printf("%6d  %-12s %s\n", e.ids[i], token.c_str(), place.c_str());
  }
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
