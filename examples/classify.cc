// Labels of many texts at once, and of a pair.
//   example_classify MODEL        for instance distilbert-base-uncased-finetuned-sst-2-english
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  const auto model = bertie::load(argv[1]);

  const std::string_view texts[] = {"A fine film.", "Two hours that I will never get back.",
                                    "It has an end."};
  for (size_t i = 0; const bertie::Classification& c : model.classify(texts))
    std::printf("%-10s %.4f  %s\n", c.labels[0].label.c_str(), c.labels[0].score, texts[i++].data());

  for (const bertie::Scored& s : model.classify("A man sleeps.", "Somebody is awake.").labels)
    std::printf("pair: %-10s %.4f\n", s.label.c_str(), s.score);
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
