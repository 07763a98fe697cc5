#pragma once
// Schemes that mark where entities begin and end, and their conversion to IOB2.
//
//   IOB2   B-X begins an entity, I-X goes on with it
//   IOB1   I-X both; B-X only where an entity follows one of the same kind at once
//   BIOES  E-X ends an entity of several words, S-X is one of a single word; BILOU has L-X and U-X for them
//
// An entity ends where the next word has no tag, another kind, or a tag that begins one. What a scheme does
// not allow is read as conlleval does: an I-X or E-X that continues nothing begins an entity.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bertie {

enum class TagScheme {
  kPlain,  // tags without such prefixes: parts of speech
  kIob1,
  kIob2,
  kBioes,  // or BILOU
};
std::string_view name_of(TagScheme scheme);  // "IOB1"

// Whether this is "O" or has a scheme's prefix.
bool is_scheme_tag(std::string_view tag);

// Of all the sentences of a file: each one's tags.
TagScheme recognize_scheme(std::span<const std::vector<std::string>> sentences);

// Of a sentence whose scheme is not kPlain.
void convert_to_iob2(std::vector<std::string>& tags);

}  // namespace bertie
