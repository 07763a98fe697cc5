// Continues a text and shows it as it grows.
//   example_generate MODEL        for instance gpt2
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  const auto model = bertie::load(argv[1]);

  const std::string_view prompt = "Once upon a time";
  std::printf("%s", prompt.data());
  const bertie::Generation made = model.generate(prompt, {.max_new_tokens = 40,
                                                          .temperature = 0.8,
                                                          .top_p = 0.95,
                                                          .seed = 7,
                                                          .on_text = [](std::string_view more) {
                                                            std::fwrite(more.data(), 1, more.size(), stdout);
                                                            std::fflush(stdout);
                                                            return true;
                                                          }});
  std::printf("\n%zu tokens after %zu\n", made.ids.size(), made.prompt_tokens);
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
