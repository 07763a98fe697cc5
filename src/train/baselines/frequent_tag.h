#pragma once
// Each word's most frequent tag, of equal ones the first that was seen; of a word that was never seen, the
// most frequent tag of all.
#include <string>
#include <unordered_map>
#include <vector>

#include "bertie/evaluate.h"

namespace bertie::baseline {

class FrequentTag {
 public:
  explicit FrequentTag(const Dataset& train);
  Predictions predict(const Dataset& data) const;

 private:
  struct Choice {
    int32_t tag = 0;
    float share = 0;  // of the word's tags
  };
  Choice any_;  // of all words
  std::unordered_map<std::string, Choice> words_;
};

}  // namespace bertie::baseline
