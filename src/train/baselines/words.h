#pragma once
// Texts as words, and words as numbers, for models that have no tokenizer.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bertie::baseline {

// Runs of two or more letters, digits and "_", in small letters: scikit-learn's TfidfVectorizer.
std::vector<std::string> long_words(std::string_view text);

// Every run of letters, digits and "_", in small letters, and every other sign but white space by itself.
std::vector<std::string> words_and_signs(std::string_view text);

// Numbers for the words that were seen at least twice. Every other word is unknown; there are kUnknown kinds
// of those, by what the word begins with, since a name that was never seen is a name all the same.
class Vocabulary {
 public:
  static constexpr int32_t kUnknown = 4;  // the first numbers: small or no letter, capital, digit, other sign

  explicit Vocabulary(const std::vector<std::vector<std::string>>& texts);

  size_t size() const { return size_t(kUnknown) + numbers_.size(); }
  int32_t number(const std::string& word) const;
  std::vector<int32_t> numbers(const std::vector<std::string>& words) const;

 private:
  std::map<std::string, int32_t> numbers_;
};

}  // namespace bertie::baseline
