#pragma once
// Entities in sequences of tags (B-PER, I-PER, O …; also E- and S-, and tags without a kind), as two scorers
// find them that everybody quotes:
//
//   conlleval   the script of the CoNLL shared tasks, version of 2004
//   seqeval     the Python package, in its default mode
//
// With B, I and O they agree on every sequence, also on wrong ones: an I that follows O or another kind
// begins an entity. They differ where there are E and S. conlleval does not know S, and sees no border
// between E and B or around an S of the same kind: "S-PER S-PER" is one entity there, "E-PER B-PER" goes on.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/metrics/classification.h"

namespace bertie::metrics {

// A label taken apart. Kinds are places in EntityTags::kinds; that of "O" and of tags without a kind is 0.
struct Tag {
  char letter = 'O';  // B, I, E, S or O
  size_t kind = 0;
};

struct EntityTags {
  std::vector<Tag> tags;           // for each label
  std::vector<std::string> kinds;  // the first is "", others in the order of their names
  bool ends_or_singles = false;    // there are E or S: the two scorers may differ

  Tag at(int32_t label) const { return label < 0 ? Tag{} : tags[size_t(label)]; }
};

// Whether labels are tags of entities: each is O, or begins with B, I, E or S and a hyphen (or is that
// letter). A tagger of parts of speech has others.
bool are_entity_tags(std::span<const std::string> labels);
EntityTags entity_tags(std::span<const std::string> labels);

// What happens between two neighbors.
struct Border {
  bool ends = false, starts = false;  // an entity before it; one after it
};
Border conlleval_border(Tag before, Tag tag);
Border seqeval_border(Tag before, Tag tag);

// Entities of one sentence for each kind: an entity is right if it begins and ends where the right one does
// and is of the same kind.
using BorderRule = Border (*)(Tag before, Tag tag);
std::vector<Counts> count_entities(const EntityTags& tags, std::span<const int32_t> truth,
                                   std::span<const int32_t> predicted, BorderRule rule);

}  // namespace bertie::metrics
