#pragma once
// Parses a tokenizer.json. The vocabulary and the merges go straight from the parser into the structures that
// models are built from; the rest, a few hundred values, becomes a tree.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/models/merges.h"
#include "text/models/vocabulary.h"

namespace bertie::text {

struct TokenizerJson {
  explicit TokenizerJson(const std::string& name) : vocabulary(name) {}

  Vocabulary vocabulary;       // model.vocab, not sealed yet
  std::vector<double> scores;  // by id, if model.vocab is a list of [token, score] (Unigram)
  Merges merges;               // model.merges
  nlohmann::json root;         // everything else
};

// Throws Error.
TokenizerJson parse_tokenizer_json(std::string_view text, const std::string& name);

}  // namespace bertie::text
