// Names and places of a text.
//   example_tag MODEL        for instance dslim/bert-base-NER
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  const auto model = bertie::load(argv[1]);

  const std::string_view text = "Anna Lindqvist came to Gothenburg in 1912 and opened a small bakery.";
  for (const bertie::Entity& e : model.tag(text, {.aggregation = bertie::Aggregation::kFirst}).entities)
    std::printf("%-5s %.4f  %3u-%-3u %s\n", e.label.c_str(), e.score, e.offset.begin, e.offset.end,
                e.text.c_str());
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
