#include "text/steps/normalizers.h"

#include <algorithm>

#include "text/steps/charsmap.h"
#include "text/steps/transform.h"
#include "text/unicode/unicode.h"
#include "text/unicode/forms.h"

namespace bertie::text {
namespace {

bool is_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return uint8_t(c) >= 0x80; });
}

template <class Visit>
void for_each_point(std::string_view text, const Visit& visit) {
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    auto [point, length] = decode_utf8(p, end);
    visit(point);
    p += length;
  }
}

// Leaves out what keep() refuses.
template <class Keep>
void filter(Aligned& text, Workspace& w, const Keep& keep) {
  auto& changes = w.numbers[0];
  changes.clear();
  size_t skipped = 0;
  bool all = true;
  for_each_point(text.bytes, [&](uint32_t point) {
    if (keep(point)) {
      changes.push_back(pack({point, 0}));
      return;
    }
    all = false;
    if (changes.empty()) {
      ++skipped;
    } else {
      Change last = unpack(changes.back());
      changes.back() = pack({last.point, last.change - 1});
    }
  });
  if (!all) rewrite(text, changes, skipped, w.spare);
}

class Lowercase : public Normalizer {
 public:
  Sees sees() const override { return Sees::kPoint; }
  void apply(Aligned& text, Workspace& w) const override {
    if (leaves_alone(text.bytes)) return;
    if (is_ascii(text.bytes)) {
      for (char& c : text.bytes)
        if (c >= 'A' && c <= 'Z') c = char(c | 0x20);
      return;
    }
    auto& changes = w.numbers[0];
    changes.clear();
    for_each_point(text.bytes, [&](uint32_t point) {
      const Mapped mapped = lower(point);
      for (uint32_t i = 0; i < mapped.count; ++i) changes.push_back(pack({mapped.points[i], i > 0}));
    });
    rewrite(text, changes, 0, w.spare);
  }
  bool leaves_alone(std::string_view text) const override {
    return std::none_of(text.begin(), text.end(),
                        [](char c) { return uint8_t(c) >= 0x80 || (c >= 'A' && c <= 'Z'); });
  }
};

class StripAccents : public Normalizer {
 public:
  Sees sees() const override { return Sees::kPoint; }
  void apply(Aligned& text, Workspace& w) const override {
    if (leaves_alone(text.bytes)) return;
    filter(text, w, [](uint32_t point) { return point < 0x80 || !(flags(point) & kCombining); });
  }
  bool leaves_alone(std::string_view text) const override { return is_ascii(text); }
};

// NFD, NFKD, NFC, NFKC.
class Form : public Normalizer {
 public:
  Form(bool compatible, bool composed) : compatible_(compatible), composed_(composed) {}
  Sees sees() const override { return Sees::kPoint; }
  void apply(Aligned& text, Workspace& w) const override {
    if (leaves_alone(text.bytes)) return;
    decompose_all(text.bytes, w.numbers[0], w.numbers[1]);
    if (composed_) compose_all(w.numbers[0], w.numbers[1]);
    rewrite(text, w.numbers[0], 0, w.spare);
  }
  bool leaves_alone(std::string_view text) const override { return is_ascii(text); }

 private:
  // Parts in order, each run of marks sorted by class. Parts after the first are inserted.
  void decompose_all(std::string_view text, std::vector<uint64_t>& out, std::vector<uint64_t>& marks) const {
    out.clear(), marks.clear();
    // A mark while it waits for its neighbours: class (8 bits) | place in the run (32) | inserted (1) | point
    // (21).
    auto flush = [&] {
      if (marks.size() > 1) std::sort(marks.begin(), marks.end());
      for (uint64_t m : marks) out.push_back(pack({uint32_t(m & 0x1FFFFF), int32_t(m >> 21 & 1)}));
      marks.clear();
    };
    for_each_point(text, [&](uint32_t point) {
      uint32_t parts[kMaxParts];
      size_t count = 1;
      if (point < 0x80)
        parts[0] = point;
      else
        count = decompose_into(point, compatible_, parts);
      for (size_t i = 0; i < count; ++i) {
        const uint64_t mark_class = parts[i] < 0x80 ? 0 : combining_class(parts[i]);
        if (mark_class == 0) {
          flush();
          out.push_back(pack({parts[i], i > 0}));
        } else {
          marks.push_back(mark_class << 54 | uint64_t{marks.size()} << 22 | uint64_t{i > 0} << 21 | parts[i]);
        }
      }
    });
    flush();
  }

  // Puts together what composes: a starter and the marks after it that no mark of the same class or higher
  // keeps apart. What two became uses up what both did.
  static void compose_all(std::vector<uint64_t>& parts, std::vector<uint64_t>& out) {
    out.clear();
    size_t starter = SIZE_MAX;  // in out
    int last_class = -1;        // of what stands between the starter and here; -1: nothing
    for (uint64_t packed : parts) {
      const Change part = unpack(packed);
      const int mark_class = part.point < 0x80 ? 0 : combining_class(part.point);
      if (starter != SIZE_MAX && last_class < (mark_class == 0 ? 0 : mark_class)) {
        const Change base = unpack(out[starter]);
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

  bool compatible_, composed_;
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  Sees sees() const override { return Sees::kSpaces; }
  void apply(Aligned& text, Workspace&) const override {
    size_t begin = 0, end = text.bytes.size();
    const char* p = text.bytes.data();
    while (left_ && begin < end) {
      auto [point, length] = decode_utf8(p + begin, p + end);
      if (!(flags(point) & kRawSpace)) break;
      begin += length;
    }
    while (right_ && begin < end) {
      size_t last = end - 1;
      while (last > begin && is_continuation(p[last])) --last;
      if (!(flags(decode_utf8(p + last, p + end).point) & kRawSpace)) break;
      end = last;
    }
    text.bytes.erase(end), text.bytes.erase(0, begin);
    text.places.erase(text.places.begin() + ptrdiff_t(end), text.places.end());
    text.places.erase(text.places.begin(), text.places.begin() + ptrdiff_t(begin));
  }

 private:
  bool left_, right_;
};

// SentencePiece's nmt rules: control characters out, odd spaces to ' '.
class Nmt : public Normalizer {
 public:
  Sees sees() const override { return Sees::kPoint; }
  void apply(Aligned& text, Workspace& w) const override {
    filter(text, w, [](uint32_t c) {
      return !((c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
               c == 0x9F);
    });
    auto& changes = w.numbers[0];
    changes.clear();
    for_each_point(text.bytes, [&](uint32_t c) {
      const bool space = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                         c == 0xFEFF || c == 0xFFFD;
      changes.push_back(pack({space ? uint32_t{' '} : c, 0}));
    });
    rewrite(text, changes, 0, w.spare);
  }
};

// Every match of a string, or of at least so many spaces, becomes `to`, in the place of the match's last
// byte.
class Replace : public Normalizer {
 public:
  Replace(std::string from, bool repeated, std::string to)
      : from_(std::move(from)), to_(std::move(to)), repeated_(repeated) {}
  Sees sees() const override {
    return from_.size() == 1 && !repeated_ ? Sees::kPoint : !repeated_ ? Sees::kString : Sees::kSpaces;
  }
  void apply(Aligned& text, Workspace& w) const override {
    size_t match = text.bytes.find(from_);
    if (match == std::string::npos) return;
    Aligned& out = w.spare;
    out.clear();
    size_t done = 0;
    auto keep = [&](size_t end) {
      out.bytes.append(text.bytes, done, end - done);
      out.places.insert(out.places.end(), text.places.begin() + ptrdiff_t(done),
                        text.places.begin() + ptrdiff_t(end));
    };
    for (; match != std::string::npos; match = text.bytes.find(from_, done)) {
      keep(match);
      done = match + from_.size();
      while (repeated_ && done < text.bytes.size() && text.bytes[done] == from_[0]) ++done;
      out.append(to_, text.places[done - 1]);
    }
    keep(text.bytes.size());
    std::swap(text, out);
  }
  bool leaves_alone(std::string_view text) const override {
    return text.find(from_) == std::string_view::npos;
  }

 private:
  std::string from_, to_;
  bool repeated_;  // from_ is one byte n times: n or more of it match
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void apply(Aligned& text, Workspace&) const override {
    if (text.bytes.empty()) return;
    const Offset place = text.places[0];
    text.bytes.insert(0, text_);
    text.places.insert(text.places.begin(), text_.size(), place);
  }

 private:
  std::string text_;
};

// SentencePiece's own normalisation: a map asked for each small grapheme cluster, else for each code point.
// Of a cluster of which only the beginning is in the map the rest is lost; so it is in the reference.
class Precompiled : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {}
  Sees sees() const override { return Sees::kPoint; }
  void apply(Aligned& text, Workspace& w) const override {
    auto& changes = w.numbers[0];
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
        // A code point that is a cluster has been looked for.
        auto to = size == length ? std::nullopt : map_.find(part.substr(0, size));
        if (to)
          replace(1, *to, changes), changed = true;
        else
          changes.push_back(pack({point, 0}));
        part.remove_prefix(size);
      }
    }
    if (changed) rewrite(text, changes, 0, w.spare);
  }

 private:
  // `old_count` code points become `to`: one for one as far as both go. What is left over of the old goes
  // with the last new one; if nothing is new, with the one before, and if there is none, it is not used up.
  static void replace(size_t old_count, std::string_view to, std::vector<uint64_t>& changes) {
    size_t count = 0;
    for_each_point(to, [&](uint32_t point) { changes.push_back(pack({point, count++ >= old_count})); });
    if (count >= old_count || changes.empty()) return;
    const Change last = unpack(changes.back());
    changes.back() = pack({last.point, last.change - int32_t(old_count - count)});
  }

  Charsmap map_;
};

// A pattern is a string, or one of the few expressions that real files have: n or more of one character.
std::unique_ptr<const Normalizer> make_replace(const Section& s) {
  const Section pattern = s.section("pattern");
  std::string to = s.string("content", {}), from = pattern.string("String", "");
  if (!from.empty()) return std::make_unique<Replace>(std::move(from), false, std::move(to));
  const std::string regex = pattern.string("Regex", "");
  if (regex == " {2,}" || regex == "  +") return std::make_unique<Replace>("  ", true, std::move(to));
  if (regex == " +" || regex == " {1,}") return std::make_unique<Replace>(" ", true, std::move(to));
  s.unsupported("pattern", "{\"String\": text}, or {\"Regex\": \" {2,}\"}");
}

std::unique_ptr<const Normalizer> make_normalizer(const Section& s) {
  const std::string type = s.type();
  if (type == "NFD") return std::make_unique<Form>(false, false);
  if (type == "NFKD") return std::make_unique<Form>(true, false);
  if (type == "NFC") return std::make_unique<Form>(false, true);
  if (type == "NFKC") return std::make_unique<Form>(true, true);
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

std::vector<std::unique_ptr<const Normalizer>> make_normalizers(const Section& section) {
  std::vector<std::unique_ptr<const Normalizer>> out;
  for (const Section& step : flattened(section, "normalizers")) out.push_back(make_normalizer(step));
  return out;
}

}  // namespace bertie::text
