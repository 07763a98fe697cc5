#include "train/metrics/entities.h"

#include <algorithm>
#include <set>

namespace bertie::metrics {
namespace {

bool is_entity_tag(std::string_view label) {
  constexpr std::string_view kLetters = "BIES";
  if (label.empty() || label == "O") return !label.empty();
  return kLetters.find(label[0]) != kLetters.npos && (label.size() == 1 || label[1] == '-');
}

std::string_view kind_of(std::string_view label) { return label.substr(std::min<size_t>(2, label.size())); }

}  // namespace

bool are_entity_tags(std::span<const std::string> labels) {
  return std::all_of(labels.begin(), labels.end(), is_entity_tag) &&
         std::any_of(labels.begin(), labels.end(), [](const std::string& label) { return label != "O"; });
}

EntityTags entity_tags(std::span<const std::string> labels) {
  std::set<std::string_view> kinds{""};
  for (const std::string& label : labels) kinds.insert(kind_of(label));
  EntityTags out{.tags = {}, .kinds = {kinds.begin(), kinds.end()}};
  for (const std::string& label : labels) {
    const auto kind = std::distance(kinds.begin(), kinds.find(kind_of(label)));
    out.tags.push_back({label[0], size_t(kind)});
    out.ends_or_singles |= label[0] == 'E' || label[0] == 'S';
  }
  return out;
}

Border conlleval_border(Tag before, Tag tag) {
  const auto is = [&](char from, char to) { return before.letter == from && tag.letter == to; };
  const bool other_kind = before.kind != tag.kind;
  return {.ends = is('B', 'B') || is('B', 'O') || is('I', 'B') || is('I', 'O') || is('E', 'E') ||
                  is('E', 'I') || is('E', 'O') || (before.letter != 'O' && other_kind),
          .starts = is('B', 'B') || is('I', 'B') || is('O', 'B') || is('O', 'I') || is('E', 'E') ||
                    is('E', 'I') || is('O', 'E') || (tag.letter != 'O' && other_kind)};
}

Border seqeval_border(Tag before, Tag tag) {
  const bool inside = before.letter == 'B' || before.letter == 'I';  // E and S always end
  const bool begins = tag.letter == 'B' || tag.letter == 'S';
  const bool other_kind = before.kind != tag.kind;
  return {.ends = before.letter != 'O' && (!inside || begins || tag.letter == 'O' || other_kind),
          .starts = tag.letter != 'O' && (!inside || begins || other_kind)};
}

std::vector<Counts> count_entities(const EntityTags& tags, std::span<const int32_t> truth,
                                   std::span<const int32_t> predicted, BorderRule rule) {
  std::vector<Counts> counts(tags.kinds.size());
  Tag last_right, last_predicted;
  bool same_so_far = false;  // an entity began in both, of the same kind, and goes on in both
  for (size_t i = 0; i <= truth.size(); ++i) {
    const bool end = i == truth.size();  // as if an O stood there
    const Tag right = end ? Tag{} : tags.at(truth[i]), guess = end ? Tag{} : tags.at(predicted[i]);
    const Border of_right = rule(last_right, right), of_guess = rule(last_predicted, guess);
    if (same_so_far && (of_right.ends || of_guess.ends || end)) {
      counts[last_right.kind].right += of_right.ends == of_guess.ends;
      same_so_far = false;
    }
    if (of_right.starts) ++counts[right.kind].support;
    if (of_guess.starts) ++counts[guess.kind].predicted;
    if (of_right.starts && of_guess.starts && right.kind == guess.kind) same_so_far = true;
    last_right = right, last_predicted = guess;
  }
  return counts;
}

}  // namespace bertie::metrics
