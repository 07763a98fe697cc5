#pragma once
// Which head finds which relation of a treebank.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bertie/heads.h"
#include "explain/head_texts.h"

namespace bertie {

class RelationCounts {
 public:
  RelationCounts(std::span<const HeadText> texts, const Config& config);

  // What a head says of a text; different heads from different threads at once.
  void add(const HeadText& text, Matrix<const float> weights, size_t head);
  // Best heads beside best offsets; most frequent relations first.
  std::vector<RelationScore> scores(size_t least_count) const;

 private:
  size_t heads_, all_heads_;
  std::map<std::string, size_t, std::less<>> relations_;
  std::vector<size_t> counts_;              // of each relation
  std::vector<std::vector<size_t>> right_;  // (heads, 2·relations): dependents that look at their head, and
                                            // that their head looks at
  std::vector<std::vector<size_t>> offsets_;  // (relations, offsets): right by place
};

}  // namespace bertie
