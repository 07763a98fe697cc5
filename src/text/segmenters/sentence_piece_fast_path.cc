#include "text/segmenters/sentence_piece_fast_path.h"

#include <optional>

#include "text/unicode/forms.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

// True if later steps cannot combine the text with its neighbors.
bool is_independent(std::string_view text) {
  const char *begin = text.data(), *end = begin + text.size();
  const uint32_t head = decode_utf8(begin, end).point;
  const uint32_t tail = decode_utf8(begin + last_point(text), end).point;
  return is_own_cluster(head) && !composes_with_previous(head) &&
         (is_own_cluster(tail) || combining_class(tail) != 0);
}

}  // namespace

std::unique_ptr<const SentencePieceFastPath> SentencePieceFastPath::make(
    const SegmenterSteps& steps, const std::vector<AddedToken>& added) {
  const std::optional<MetaspaceSplit> split = find_metaspace_split(steps.pre_tokenizers);
  if (!split) return nullptr;
  std::unique_ptr<SentencePieceFastPath> out(new SentencePieceFastPath(steps, *split, added));
  return out->table_[' '] == kSlowPath ? nullptr : std::move(out);
}

SentencePieceFastPath::SentencePieceFastPath(const SegmenterSteps& steps, const MetaspaceSplit& split,
                                             const std::vector<AddedToken>& added)
    : model_(*steps.model), split_(split) {
  table_.fill(kSlowPath);
  for (const auto& n : steps.normalizers) {
    const Normalizer::Context context = n->context();
    if (context == Normalizer::Context::kString && per_point_.empty() && !single_spaces_)
      per_string_.push_back(n.get());
    else if (context == Normalizer::Context::kCodePoint && !single_spaces_)
      per_point_.push_back(n.get());
    else if (context == Normalizer::Context::kWhitespace)
      single_spaces_ = true;
    else
      return;
  }
  std::array<bool, 256> begins_token{};
  for (const AddedToken& t : added)
    if (t.normalized) begins_token[uint8_t(t.content[0])] = true;
  for (uint32_t c = 0; c < kTwoBytes; ++c) table_[c] = make_entry(c, begins_token);
  for (uint32_t i = 0; i < kPunctuationCount; ++i)
    table_[kTwoBytes + i] = make_entry(kPunctuation + i, begins_token);
}

uint32_t SentencePieceFastPath::make_entry(uint32_t point, const std::array<bool, 256>& begins_token) const {
  Buffers buffers;
  char utf8[4];
  buffers.text.append({utf8, encode_utf8(point, utf8)}, {0, 1});
  if (!is_independent(buffers.text.bytes)) return kSlowPath;
  for (const Normalizer* n : per_point_) {
    n->apply(buffers.text, buffers);
    if (buffers.text.bytes.empty() || !is_independent(buffers.text.bytes)) return kSlowPath;
  }
  const std::string& bytes = buffers.text.bytes;
  auto [to, length] = decode_utf8(bytes.data(), bytes.data() + bytes.size());
  if (length != bytes.size() || bytes == split_.metaspace.replacement || begins_token[uint8_t(bytes[0])])
    return kSlowPath;
  const bool space = split_.at_whitespace ? is_whitespace(to) : to == ' ';
  // Whitespace other than ' ' is part of a word here, but not for a normalizer that looks at whitespace.
  if (single_spaces_ && !space && is_whitespace(to)) return kSlowPath;
  return to | (space ? kSpace : 0);
}

bool SentencePieceFastPath::tokenize(std::string_view text, uint32_t first, PieceWriter& out) const {
  for (const Normalizer* n : per_string_)
    if (!n->leaves_unchanged(text)) return false;
  const std::string& replacement = split_.metaspace.replacement;
  const PrependScheme scheme = split_.metaspace.prepend_scheme;
  Buffers& buffers = out.buffers;
  buffers.text.clear(), buffers.words.clear();
  buffers.text.bytes.reserve(text.size() + text.size() / 2 + kPadding);
  buffers.text.alignments.reserve(text.size() + text.size() / 2);
  uint32_t begin = 0;
  bool in_word = false, after_space = false;
  auto end_word = [&] {
    if (in_word) buffers.words.push_back({begin, uint32_t(buffers.text.bytes.size())});
    in_word = false;
  };
  auto begin_word = [&](bool with_prefix, Offset alignment) {
    begin = uint32_t(buffers.text.bytes.size()), in_word = true;
    if (with_prefix) buffers.text.append(replacement, alignment);
  };
  for (const char *p = text.data(), *end = p + text.size(); p < end; ++first) {
    uint32_t point = uint8_t(*p), length = 1;
    if (point >= 0x80) {
      const Decoded d = decode_utf8(p, end);
      point = d.point, length = d.length;
    }
    const uint32_t to = entry(point);
    if (to == kSlowPath) return false;
    const Offset alignment{first, first + 1};
    const bool space = to & kSpace;
    if (space) {
      if (single_spaces_ && (after_space || p == text.data() || p + length == end)) return false;
      end_word();
      if (!split_.at_whitespace) begin_word(true, alignment);  // the space becomes the replacement
    } else {
      if (!in_word)
        begin_word(scheme == PrependScheme::kAlways || (scheme == PrependScheme::kFirst && first == 0),
                   alignment);
      if (to < 0x80) {
        buffers.text.bytes.push_back(char(to));
        buffers.text.alignments.push_back(alignment);
      } else {
        char utf8[4];
        buffers.text.append({utf8, encode_utf8(to, utf8)}, alignment);
      }
    }
    after_space = space;
    p += length;
  }
  end_word();
  push_words(model_, out);
  return true;
}

}  // namespace bertie::text
