#pragma once
// BPE's merges in order of rank: the pairs of neighboring tokens that become one.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bertie::text {

class Merges {
 public:
  size_t size() const { return pairs_.size(); }
  std::string_view left(size_t i) const { return part(pairs_[i].begin, pairs_[i].middle); }
  std::string_view right(size_t i) const { return part(pairs_[i].middle, pairs_[i].end); }
  // Throws Error if there are too many or one is too long; `name` is the file's.
  void add(std::string_view left, std::string_view right, const std::string& name);
  // "left right"
  void add_line(std::string_view line, const std::string& name);

 private:
  struct Pair {
    uint32_t begin, middle, end;  // in text_
  };
  std::string_view part(uint32_t begin, uint32_t end) const {
    return std::string_view(text_).substr(begin, end - begin);
  }
  std::string text_;
  std::vector<Pair> pairs_;
};

}  // namespace bertie::text
