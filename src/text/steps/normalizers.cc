#include "text/steps/normalizers.h"

#include <algorithm>

#include "text/json_object.h"
#include "text/steps/charsmap.h"
#include "text/steps/transform.h"
#include "text/unicode/forms.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return uint8_t(c) >= 0x80; });
}

// Removes the code points that keep() rejects.
template <class Keep>
void filter(NormalizedString& text, Buffers& buffers, const Keep& keep) {
  auto& changes = buffers.packed[0];
  changes.clear();
  size_t removed_at_start = 0;
  bool unchanged = true;
  for_each_point(text.bytes, [&](uint32_t point) {
    if (keep(point)) {
      changes.push_back(pack({point, 0}));
      return;
    }
    unchanged = false;
    if (changes.empty()) {
      ++removed_at_start;
    } else {
      CharChange last = unpack(changes.back());
      changes.back() = pack({last.point, last.change - 1});
    }
  });
  if (!unchanged) transform(text, changes, removed_at_start, buffers.spare);
}

class Lowercase : public Normalizer {
 public:
  Context context() const override { return Context::kCodePoint; }
  void apply(NormalizedString& text, Buffers& buffers) const override {
    if (leaves_unchanged(text.bytes)) return;
    if (is_ascii(text.bytes)) {
      for (char& c : text.bytes)
        if (c >= 'A' && c <= 'Z') c = char(c | 0x20);
      return;
    }
    auto& changes = buffers.packed[0];
    changes.clear();
    for_each_point(text.bytes, [&](uint32_t point) {
      const Mapped mapped = lower(point);
      for (uint32_t i = 0; i < mapped.count; ++i) changes.push_back(pack({mapped.points[i], i > 0}));
    });
    transform(text, changes, 0, buffers.spare);
  }
  bool leaves_unchanged(std::string_view text) const override {
    return std::none_of(text.begin(), text.end(),
                        [](char c) { return uint8_t(c) >= 0x80 || (c >= 'A' && c <= 'Z'); });
  }
};

class StripAccents : public Normalizer {
 public:
  Context context() const override { return Context::kCodePoint; }
  void apply(NormalizedString& text, Buffers& buffers) const override {
    if (leaves_unchanged(text.bytes)) return;
    filter(text, buffers, [](uint32_t point) { return point < 0x80 || !(flags(point) & kCombining); });
  }
  bool leaves_unchanged(std::string_view text) const override { return is_ascii(text); }
};

// NFD, NFKD, NFC, NFKC.
class NormalizationForm : public Normalizer {
 public:
  NormalizationForm(bool compatibility, bool composed) : compatibility_(compatibility), composed_(composed) {}
  Context context() const override { return Context::kCodePoint; }
  void apply(NormalizedString& text, Buffers& buffers) const override {
    if (leaves_unchanged(text.bytes)) return;
    auto& changes = buffers.packed[0];
    changes.clear();
    for_each_point(text.bytes, [&](uint32_t point) { append_parts(point, compatibility_, changes); });
    sort_marks(changes);
    for (uint64_t& part : changes) part = pack({part_point(part), (part & kInsertedPart) != 0});
    if (composed_) compose_all(changes, buffers.packed[1]);
    transform(text, changes, 0, buffers.spare);
  }
  bool leaves_unchanged(std::string_view text) const override { return is_ascii(text); }

 private:
  // Composes a starter with the marks after it, unless a mark of the same or a higher class is between them.
  // The composed code point replaces what both did.
  static void compose_all(std::vector<uint64_t>& parts, std::vector<uint64_t>& out) {
    out.clear();
    size_t starter = SIZE_MAX;  // in out
    int last_class = -1;        // of the last mark after the starter; -1: none
    for (uint64_t packed : parts) {
      const CharChange part = unpack(packed);
      const int mark_class = part.point < 0x80 ? 0 : combining_class(part.point);
      if (starter != SIZE_MAX && last_class < mark_class) {
        const CharChange base = unpack(out[starter]);
        if (uint32_t both = compose(base.point, part.point)) {
          out[starter] = pack({both, base.change + part.change - 1});
          continue;
        }
      }
      if (mark_class == 0)
        starter = out.size(), last_class = -1;
      else
        last_class = mark_class;
      out.push_back(packed);
    }
    std::swap(parts, out);
  }

  bool compatibility_, composed_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  Context context() const override { return Context::kWhitespace; }
  void apply(NormalizedString& text, Buffers&) const override {
    const size_t begin = left_ ? leading_whitespace(text.bytes) : 0;
    size_t end = text.bytes.size();
    if (right_) end -= trailing_whitespace(std::string_view(text.bytes).substr(begin));
    text.bytes.erase(end), text.bytes.erase(0, begin);
    text.alignments.erase(text.alignments.begin() + ptrdiff_t(end), text.alignments.end());
    text.alignments.erase(text.alignments.begin(), text.alignments.begin() + ptrdiff_t(begin));
  }

 private:
  bool left_, right_;
};

// SentencePiece's nmt rules: removes control characters and replaces special spaces by ' '.
class Nmt : public Normalizer {
 public:
  Context context() const override { return Context::kCodePoint; }
  void apply(NormalizedString& text, Buffers& buffers) const override {
    filter(text, buffers, [](uint32_t c) {
      return !((c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
               c == 0x9F);
    });
    auto& changes = buffers.packed[0];
    changes.clear();
    for_each_point(text.bytes, [&](uint32_t c) {
      const bool space = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                         c == 0xFEFF || c == 0xFFFD;
      changes.push_back(pack({space ? uint32_t{' '} : c, 0}));
    });
    transform(text, changes, 0, buffers.spare);
  }
};

// Replaces every match of a string, or of a run of spaces, by `to`, with the alignment of the last byte of
// the match.
class Replace : public Normalizer {
 public:
  Replace(std::string from, bool repeated, std::string to)
      : from_(std::move(from)), to_(std::move(to)), repeated_(repeated) {}
  Context context() const override {
    return from_.size() == 1 && !repeated_ ? Context::kCodePoint
           : !repeated_                    ? Context::kString
                                           : Context::kWhitespace;
  }
  void apply(NormalizedString& text, Buffers& buffers) const override {
    size_t match = text.bytes.find(from_);
    if (match == std::string::npos) return;
    NormalizedString& out = buffers.spare;
    out.clear();
    size_t done = 0;
    for (; match != std::string::npos; match = text.bytes.find(from_, done)) {
      out.append(text, done, match);
      done = match + from_.size();
      while (repeated_ && done < text.bytes.size() && text.bytes[done] == from_[0]) ++done;
      out.append(to_, text.alignments[done - 1]);
    }
    out.append(text, done, text.bytes.size());
    std::swap(text, out);
  }
  bool leaves_unchanged(std::string_view text) const override {
    return text.find(from_) == std::string_view::npos;
  }

 private:
  std::string from_, to_;
  bool repeated_;  // from_ is n times one byte: n or more of it match
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void apply(NormalizedString& text, Buffers&) const override {
    if (text.bytes.empty()) return;
    const Offset first = text.alignments[0];
    text.bytes.insert(0, text_);
    text.alignments.insert(text.alignments.begin(), text_.size(), first);
  }

 private:
  std::string text_;
};

// SentencePiece's normalization: looks up each small grapheme cluster in the map, else each code point. If
// the map has only the beginning of a cluster, the rest is lost, as in the reference.
class Precompiled : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {}
  Context context() const override { return Context::kCodePoint; }
  void apply(NormalizedString& text, Buffers& buffers) const override {
    auto& changes = buffers.packed[0];
    changes.clear();
    bool changed = false;
    for (std::string_view rest = text.bytes; !rest.empty();) {
      const size_t length = cluster_length(rest);
      std::string_view part = rest.substr(0, length);
      rest.remove_prefix(length);
      if (length < kSmallCluster)
        if (auto to = map_.find(part)) {
          replace(count_points(part), *to, changes);
          changed = true;
          continue;
        }
      while (!part.empty()) {
        auto [point, size] = decode_utf8(part.data(), part.data() + part.size());
        // A code point that is the whole cluster has been looked up already.
        auto to = size == length ? std::nullopt : map_.find(part.substr(0, size));
        if (to)
          replace(1, *to, changes), changed = true;
        else
          changes.push_back(pack({point, 0}));
        part.remove_prefix(size);
      }
    }
    if (changed) transform(text, changes, 0, buffers.spare);
  }

 private:
  // Replaces `old_count` code points by `to`, one for one. If `to` is shorter, the remaining old ones are
  // removed after the last new code point, or after the one before the match if `to` is empty. At the start
  // of the text there is none, and they are not removed from the alignment: the reference does the same.
  static void replace(size_t old_count, std::string_view to, std::vector<uint64_t>& changes) {
    size_t count = 0;
    for_each_point(to, [&](uint32_t point) { changes.push_back(pack({point, count++ >= old_count})); });
    if (count >= old_count || changes.empty()) return;
    const CharChange last = unpack(changes.back());
    changes.back() = pack({last.point, last.change - int32_t(old_count - count)});
  }

  Charsmap map_;
};

// A pattern is a string, or one of the regular expressions that published files have: runs of spaces.
std::unique_ptr<const Normalizer> make_replace(const JsonObject& s) {
  const JsonObject pattern = s.object("pattern");
  std::string to = s.string("content", {}), from = pattern.string("String", "");
  if (!from.empty()) return std::make_unique<Replace>(std::move(from), false, std::move(to));
  const std::string regex = pattern.string("Regex", "");
  if (regex == " {2,}" || regex == "  +") return std::make_unique<Replace>("  ", true, std::move(to));
  if (regex == " +" || regex == " {1,}") return std::make_unique<Replace>(" ", true, std::move(to));
  s.unsupported("pattern", "{\"String\": text}, or {\"Regex\": \" {2,}\"}");
}

std::unique_ptr<const Normalizer> make_normalizer(const JsonObject& s) {
  const std::string type = s.type();
  if (type == "NFD") return std::make_unique<NormalizationForm>(false, false);
  if (type == "NFKD") return std::make_unique<NormalizationForm>(true, false);
  if (type == "NFC") return std::make_unique<NormalizationForm>(false, true);
  if (type == "NFKC") return std::make_unique<NormalizationForm>(true, true);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Strip") return std::make_unique<Strip>(s.flag("strip_left", {}), s.flag("strip_right", {}));
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "Replace") return make_replace(s);
  if (type == "Prepend") return std::make_unique<Prepend>(s.string("prepend", {}));
  if (type == "Precompiled")
    return precompiled_normalizer(
        decode_base64(s.string("precompiled_charsmap", {}), s.where("precompiled_charsmap")),
        s.where("precompiled_charsmap"));
  s.unsupported("type",
                "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Nmt, Replace, Prepend, Precompiled, "
                "Sequence, or BertNormalizer with a WordPiece model");
}

}  // namespace

std::unique_ptr<const Normalizer> precompiled_normalizer(std::string_view charsmap, const std::string& name) {
  return std::make_unique<Precompiled>(Charsmap(charsmap, name));
}

void align(std::string_view text, uint32_t first, NormalizedString& out) {
  out.bytes = text;
  out.alignments.clear();
  out.alignments.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && !is_continuation(text[i])) ++first;
    out.alignments.push_back({first, first + 1});
  }
}

std::string normalized_text(const Normalizers& normalizers, std::string_view text) {
  Buffers buffers;
  align(text, 0, buffers.text);
  for (const auto& n : normalizers) n->apply(buffers.text, buffers);
  return buffers.text.bytes;
}

Normalizers make_normalizers(const JsonObject& object) {
  Normalizers out;
  for (const JsonObject& step : flatten_sequence(object, "normalizers")) out.push_back(make_normalizer(step));
  return out;
}

}  // namespace bertie::text
