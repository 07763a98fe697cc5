#pragma once
// Where the sentences of a paragraph are, by rules for English (docs/data.md lists them); they do little harm
// to other languages in Latin script, and know the full stops of Chinese and Japanese.
//
// A sentence ends after . ! ? or … (several, with closing quotes and brackets after them) where white space
// and then something that may begin a sentence follows: no lower-case letter. After a full stop that is not
// enough: initials, titles, numbered things and abbreviations have one too.
#include <cstddef>
#include <string_view>
#include <vector>

namespace bertie {

struct Sentence {
  size_t begin, end;  // bytes of the paragraph, without the spaces around
  friend bool operator==(const Sentence&, const Sentence&) = default;
};

// In order, into `out`. A paragraph with nothing but spaces has none.
void split_sentences(std::string_view paragraph, std::vector<Sentence>& out);

}  // namespace bertie
