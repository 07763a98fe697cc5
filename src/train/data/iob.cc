#include "train/data/iob.h"

#include <algorithm>

namespace bertie {
namespace {

struct SplitTag {
  char prefix;            // 'O' for no entity
  std::string_view kind;  // into the tag
};

SplitTag split_tag(std::string_view tag) {
  return tag == "O" ? SplitTag{'O', {}} : SplitTag{tag[0], tag.substr(2)};
}

}  // namespace

bool is_scheme_tag(std::string_view tag) {
  return tag == "O" || (tag.size() > 2 && tag[1] == '-' &&
                        std::string_view("BIESLU").find(tag[0]) != std::string_view::npos);
}

std::string_view name_of(TagScheme scheme) {
  switch (scheme) {
    case TagScheme::kPlain:
      return "tags without prefixes";
    case TagScheme::kIob1:
      return "IOB1";
    case TagScheme::kIob2:
      return "IOB2";
    case TagScheme::kBioes:
      break;
  }
  return "BIOES";
}

TagScheme recognize_scheme(std::span<const std::vector<std::string>> sentences) {
  bool any = false, bioes = false, iob1 = false;
  for (const std::vector<std::string>& tags : sentences) {
    SplitTag before{'O', {}};
    for (const std::string& tag : tags) {
      if (!is_scheme_tag(tag)) return TagScheme::kPlain;
      const SplitTag now = split_tag(tag);
      any |= now.prefix != 'O';
      bioes |= now.prefix != 'O' && now.prefix != 'B' && now.prefix != 'I';
      iob1 |= now.prefix == 'I' && (before.prefix == 'O' || before.kind != now.kind);
      before = now;
    }
  }
  return bioes ? TagScheme::kBioes : iob1 ? TagScheme::kIob1 : any ? TagScheme::kIob2 : TagScheme::kPlain;
}

void convert_to_iob2(std::vector<std::string>& tags) {
  std::string open;  // the kind of an entity that may go on
  for (std::string& tag : tags) {
    const auto [prefix, kind] = split_tag(tag);
    if (prefix == 'O') {
      open.clear();
      continue;
    }
    const bool goes_on = (prefix == 'I' || prefix == 'E' || prefix == 'L') && open == kind;
    open = prefix == 'B' || prefix == 'I' ? std::string(kind) : "";
    tag[0] = goes_on ? 'I' : 'B';
  }
}

}  // namespace bertie
