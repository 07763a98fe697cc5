#pragma once
// Collects the added tokens of a vocabulary in a file of its own (vocab.txt, vocab.json, a SentencePiece
// model), and gives ids after the vocabulary's last to tokens that it lacks.
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "text/models/vocabulary.h"
#include "text/steps/added_tokens.h"

namespace bertie::text {

inline constexpr size_t kMaxAddedTokens = 10'000;

class AddedTokenBuilder {
 public:
  explicit AddedTokenBuilder(Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  // Ignores an empty token and one that was added before. Throws Error if the token has an id already, and it
  // is another token's or not the next one.
  void add(AddedToken token);
  // The tokens in order of precedence: special ones first. Contents are normalized where they are matched in
  // normalized text; tokens that normalize to nothing are left out.
  std::vector<AddedToken> finish(const std::function<std::string(const std::string&)>& normalize);

 private:
  Vocabulary& vocabulary_;
  std::vector<AddedToken> tokens_;
  std::unordered_set<std::string> seen_;
};

}  // namespace bertie::text
