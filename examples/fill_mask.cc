// What stands at the mask?
//   example_fill_mask MODEL        for instance bert-base-uncased
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  const auto model = bertie::load(argv[1]);

  const std::string mask(model.tokenizer().token(model.tokenizer().mask_id()));
  for (const auto& fills : model.fill_mask("Paris is the " + mask + " of France.").masks)
    for (const bertie::Fill& fill : fills) std::printf("%.4f  %s\n", fill.score, fill.sequence.c_str());
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
