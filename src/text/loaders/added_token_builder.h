#pragma once
// The added tokens of a vocabulary that lies in files of its own: vocab.txt, vocab.json, a SentencePiece
// model. Who comes first counts; a token that the vocabulary lacks gets the next id after it.
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "text/steps/added_tokens.h"
#include "text/models/vocabulary.h"

namespace bertie::text {

class AddedList {
 public:
  explicit AddedList(Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  // Nothing happens for an empty token and for one that is there. Throws Error if the token says an id and
  // it is another's, or not the next.
  void add(AddedToken token);
  // Special ones first, contents as the normalizers make them where that applies; those of which nothing is
  // left are never found.
  std::vector<AddedToken> finish(const std::function<std::string(const std::string&)>& normalize);

 private:
  Vocabulary& vocabulary_;
  std::vector<AddedToken> tokens_;
  std::unordered_set<std::string> seen_;
};

}  // namespace bertie::text
