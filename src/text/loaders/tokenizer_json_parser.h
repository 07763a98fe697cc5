#pragma once
// tokenizer.json as it lies in the file: the large lists straight from the parser into what the models are
// made of; the rest, a few hundred values, as a tree.
#include <string>
#include <string_view>
#include <vector>

#include "text/json_object.h"
#include "text/models/vocabulary.h"

namespace bertie::text {

inline constexpr size_t kMaxAdded = 10'000;

// BPE's merges, in order of their rank.
class Merges {
 public:
  size_t size() const { return pairs_.size(); }
  std::string_view left(size_t i) const { return part(pairs_[i].begin, pairs_[i].middle); }
  std::string_view right(size_t i) const { return part(pairs_[i].middle, pairs_[i].end); }
  // Throws Error for too many or too long ones; `name` is the file's.
  void add(std::string_view left, std::string_view right, const std::string& name);
  // "left right"
  void add_line(std::string_view line, const std::string& name);

 private:
  struct Pair {
    uint32_t begin, middle, end;
  };
  std::string_view part(uint32_t begin, uint32_t end) const {
    return std::string_view(text_).substr(begin, end - begin);
  }
  std::string text_;
  std::vector<Pair> pairs_;
};

struct TokenizerFile {
  explicit TokenizerFile(const std::string& name) : vocabulary(name) {}

  Vocabulary vocabulary;  // model.vocab, not sealed yet
  bool has_vocabulary = false;
  std::vector<double> scores;  // by id, where model.vocab is a list of [token, score] (Unigram)
  Merges merges;               // model.merges
  nlohmann::json root;         // all else
};

TokenizerFile read_tokenizer_file(std::string_view json, const std::string& name);
// vocab.json, {"token": id, ...}, and merges.txt, "left right" a line, of GPT-2 and RoBERTa.
Vocabulary read_vocab_json(std::string_view json, const std::string& name);
Merges read_merges(std::string_view lines, const std::string& name);

}  // namespace bertie::text
