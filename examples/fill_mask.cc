// What stands at the mask?
//   example_fill_mask MODEL_DIRECTORY        for instance bert-base-uncased
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL_DIRECTORY\n", argv[0]), 2;
  auto pipeline = bertie::Pipeline::load(argv[1]);

  const std::string mask(pipeline.tokenizer().token(pipeline.tokenizer().mask_id()));
  for (const auto& fills : pipeline.fill_mask("Paris is the " + mask + " of France."))
    for (const bertie::Fill& fill : fills) std::printf("%.4f  %s\n", fill.score, fill.sequence.c_str());
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
