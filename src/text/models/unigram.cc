#include "text/models/unigram.h"

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr uint32_t kUnknown = UINT32_MAX;  // instead of a node of the trie

size_t utf8_length(const char* p) {
  const uint8_t lead = uint8_t(*p);
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, const std::vector<double>& scores, const UnigramSettings& settings)
    : vocabulary_(std::move(vocabulary)), settings_(settings) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<ScoredPiece> pieces;
  pieces.reserve(scores.size());
  for (size_t id = 0; id < scores.size(); ++id) {
    if (!(std::abs(scores[id]) <= kMaxScore))
      throw Error(vocabulary_.name() + ": the score of piece " + std::to_string(id) +
                  " is not a log probability");
    least = std::min(least, scores[id]);
    pieces.push_back({vocabulary_.token(id), scores[id], int32_t(id)});
  }
  if (settings_.unk_id < 0 || size_t(settings_.unk_id) >= scores.size())
    throw Error(vocabulary_.name() + ": unk_id is " + std::to_string(settings_.unk_id) + ", but there are " +
                    std::to_string(scores.size()) + " pieces",
                "A Unigram model needs a piece for unknown text.");
  unk_score_ = least - kUnknownPenalty;
  trie_ = PieceTrie(std::move(pieces));
  if (settings_.byte_fallback) {
    byte_ids_.emplace();
    for (size_t byte = 0; byte < 256; ++byte)
      (*byte_ids_)[byte] = trie_.find(byte_fallback_token(uint8_t(byte)));
  }
}

void Unigram::push_word(const char* word, size_t n, const Offset* alignments, PieceWriter& out) const {
  auto& best = out.buffers.paths;  // best[i]: the best segmentation of the first i bytes
  best.assign(n + 1, {PieceTrie::kNoPiece, 0, kUnknown});
  best[0].score = 0;
  for (size_t begin = 0; begin < n;) {
    const double here = best[begin].score;
    const size_t length = std::min(utf8_length(word + begin), n - begin);
    bool is_piece = false;  // the code point at `begin` is a piece
    auto reach = [&](size_t end, double score, uint32_t node) {
      if (score > best[end].score) best[end] = {score, uint32_t(begin), node};
    };
    uint32_t node = PieceTrie::kRoot;
    for (size_t i = begin; i < n && trie_.step(node, uint8_t(word[i])); ++i) {
      const double score = trie_.score(node);
      if (score == PieceTrie::kNoPiece) continue;
      reach(i + 1, score + here, node);
      is_piece = is_piece || i + 1 == begin + length;
    }
    if (!is_piece) reach(begin + length, unk_score_ + here, kUnknown);
    begin += length;
  }

  // The chain of best pieces leads from the end of the word to its beginning.
  size_t end = n;
  auto& cuts = out.buffers.spare_words;
  for (cuts.clear(); end > 0; end = best[end].begin) cuts.push_back({best[end].begin, uint32_t(end)});
  auto unknown = [&](Span cut) {
    return best[cut.end].node == kUnknown || trie_.id(best[cut.end].node) == settings_.unk_id;
  };
  for (size_t i = cuts.size(); i-- > 0;) {
    Span cut = cuts[i];
    const bool fused = unknown(cut);
    while (fused && i > 0 && unknown(cuts[i - 1])) cut.end = cuts[--i].end;
    const Offset offset{alignments[cut.begin].begin, alignments[cut.end - 1].end};
    if (fused)
      push_unknown({word + cut.begin, cut.size()}, offset, out);
    else
      out.push(trie_.id(best[cut.end].node), offset.begin, offset.end);
  }
}

// Fused unknown code points may together be a piece whose score was lower than theirs.
void Unigram::push_unknown(std::string_view text, Offset offset, PieceWriter& out) const {
  int32_t id = trie_.find(text);
  if (id < 0 && byte_ids_ &&
      std::all_of(text.begin(), text.end(), [&](char c) { return (*byte_ids_)[uint8_t(c)] >= 0; })) {
    for (char c : text) out.push((*byte_ids_)[uint8_t(c)], offset.begin, offset.end);
    return;
  }
  out.push(id < 0 ? settings_.unk_id : id, offset.begin, offset.end);
}

}  // namespace bertie::text
