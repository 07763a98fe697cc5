// The best three answers that a text has for a question.
//   example_answer MODEL        for instance distilbert-base-cased-distilled-squad
#include <bertie/bertie.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: %s MODEL\n", argv[0]), 2;
  const auto model = bertie::load(argv[1]);

  const bertie::Answering found = model.answer(
      "Where did Anna open a bakery?",
      "Anna Lindqvist came to Gothenburg in 1912 and opened a small bakery near the old harbour.",
      {.top = 3});
  for (const bertie::Answer& a : found.answers)
    std::printf("%.4f  %3u-%-3u %s\n", a.score, a.offset.begin, a.offset.end, a.text.c_str());
} catch (const bertie::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  return 1;
}
