#pragma once
// Treebanks in CoNLL-U: sentences whose words say on which other word they depend, and how.
//
//   for (const bertie::ParsedSentence& s : bertie::read_conllu("en_ewt-ud-dev.conllu"))
//     for (const bertie::ParsedWord& w : s.words) …      // w.form, w.head, w.relation
#include <cstddef>
#include <string>
#include <vector>

#include "bertie/export.h"

namespace bertie {

struct ParsedWord {
  std::string form, tag;  // the word, and its part of speech (UPOS)
  size_t head = 0;        // the word that it depends on, from 1; 0: none, it is the root
  std::string relation;   // to it: "nsubj", "nmod:poss"
};

struct ParsedSentence {
  std::vector<ParsedWord> words;
  size_t line = 0;  // of its first word
};

// All of a file, packed (gzip, xz, Zstandard) or not; "-" is standard input. Words are syntactic ones: of
// "1-2 don't" those are 1 and 2; empty nodes (1.1) and comments are passed over. Error, with the line, where
// a line has not ten columns, words are not numbered from 1, or depend on nothing that is there.
BERTIE_API std::vector<ParsedSentence> read_conllu(const std::string& path);

}  // namespace bertie
