#include "text/models/merges.h"

#include "bertie/error.h"
#include "io/quote.h"
#include "text/models/vocabulary.h"

namespace bertie::text {

void Merges::add(std::string_view left, std::string_view right, const std::string& name) {
  if (pairs_.size() >= kMaxTokens) throw Error(name + ": too many merges");
  if (left.size() > kMaxTokenBytes || right.size() > kMaxTokenBytes)
    throw Error(name + ": merge " + std::to_string(pairs_.size()) + " is longer than " +
                std::to_string(kMaxTokenBytes) + " bytes");
  if (text_.size() + left.size() + right.size() > kMaxVocabularyBytes)
    throw Error(name + ": the merges are too large");
  uint32_t begin = uint32_t(text_.size());
  (text_ += left) += right;
  pairs_.push_back({begin, begin + uint32_t(left.size()), uint32_t(text_.size())});
}

void Merges::add_line(std::string_view line, const std::string& name) {
  size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
    throw Error(name + ": merge " + std::to_string(size()) +
                ": expected two tokens with a space between, found " + io::quote(line));
  add(line.substr(0, space), line.substr(space + 1), name);
}

}  // namespace bertie::text
