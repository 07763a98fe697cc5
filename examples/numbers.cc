// Something for an encoder-decoder to learn: numbers in digits, and the same in English words.
//   example_numbers FOLDER [DIGITS]       writes train.tsv, held_out.tsv and vocab.txt; no number is in both
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

const char* const kOnes[] = {"zero",     "one",     "two",     "three",     "four",     "five",    "six",
                             "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                             "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
const char* const kTens[] = {"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};

std::string in_words(int n) {
  const auto rest = [](int r) { return r ? " " + in_words(r) : std::string(); };
  if (n < 20) return kOnes[n];
  if (n < 100) return kTens[n / 10 - 2] + rest(n % 10);
  if (n < 1000) return in_words(n / 100) + " hundred" + rest(n % 100);
  return in_words(n / 1000) + " thousand" + rest(n % 1000);
}

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "numbers";
  const int limit =
      std::vector{10, 100, 1000, 10000, 100000, 1000000}.at(argc > 2 ? std::stoul(argv[2]) - 1 : 5);
  std::filesystem::create_directories(folder);
  std::mt19937 random(1);
  std::set<int> seen;
  std::ofstream train(folder / "train.tsv"), held_out(folder / "held_out.tsv"), vocab(folder / "vocab.txt");
  for (const int all = std::min(limit, 41000), apart = all / 41; int(seen.size()) < all;)
    if (const int n = int(random() % unsigned(limit)); seen.insert(n).second)
      (int(seen.size()) <= apart ? held_out : train) << n << '\t' << in_words(n) << '\n';
  vocab << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhundred\nthousand\n";
  for (int digit = 0; digit < 10; ++digit) vocab << digit << "\n##" << digit << '\n';
  for (const char* word : kOnes) vocab << word << '\n';
  for (const char* word : kTens) vocab << word << '\n';
}
