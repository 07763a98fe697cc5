// Names and places of a text.
//   example_tag MODEL_DIRECTORY        for instance dslim/bert-base-NER
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL_DIRECTORY\n", argv[0]), 2;
  auto pipeline = bertie::Pipeline::load(argv[1]);

  const std::string_view text = "Anna Lindqvist came to Gothenburg in 1912 and opened a small bakery.";
  for (const bertie::Entity& e : pipeline.tag(text, {.group = bertie::Group::kFirst})) {
    const std::string_view written = bertie::text_at(text, e.place);
    std::printf("%-5s %.4f  %3u-%-3u %.*s\n", e.label.c_str(), e.score, e.place.begin, e.place.end,
                int(written.size()), written.data());
  }
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
