#include "text/steps/metaspace.h"

#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

class WhitespaceSplit : public PreTokenizer {
 public:
  void apply(Aligned& text, std::vector<Span>& words, Workspace& w) const override {
    auto& out = w.spare_words;
    out.clear();
    for (Span word : words) {
      uint32_t begin = word.begin;
      auto cut = [&](uint32_t end, uint32_t next) {
        if (begin < end) out.push_back({begin, end});
        begin = next;
      };
      const char* p = text.bytes.data();
      for (uint32_t i = word.begin; i < word.end;) {
        auto [point, length] = decode_utf8(p + i, p + word.end);
        if (is_space(point)) cut(i, i + length);
        i += length;
      }
      cut(word.end, word.end);
    }
    std::swap(words, out);
  }

 private:
  static bool is_space(uint32_t c) {
    return c < 0x80 ? c == ' ' || (c >= '\t' && c <= '\r') : (flags(c) & kRawSpace) != 0;
  }
};

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const MetaspaceSettings& settings) : s_(settings) {}
  const MetaspaceSettings& settings() const { return s_; }
  void apply(Aligned& text, std::vector<Span>& words, Workspace& w) const override {
    Aligned& out = w.spare;
    auto& cuts = w.spare_words;
    out.clear(), cuts.clear();
    const std::string& mark = s_.replacement;
    for (Span word : words) {
      uint32_t begin = uint32_t(out.bytes.size());
      const bool marked = text.bytes[word.begin] == ' ' ||
                          std::string_view(text.bytes).substr(word.begin, word.size()).starts_with(mark);
      const Offset first = text.places[word.begin];
      if (!marked && (s_.prefix == Prefix::kAlways || (s_.prefix == Prefix::kFirst && first.begin == 0)))
        out.append(mark, first);
      for (uint32_t i = word.begin; i < word.end;) {
        uint32_t next = i + 1;
        while (next < word.end && is_continuation(text.bytes[next])) ++next;
        const bool space = text.bytes[i] == ' ';
        const std::string_view point =
            space ? std::string_view(mark) : std::string_view(text.bytes).substr(i, next - i);
        const uint32_t at = uint32_t(out.bytes.size());
        if (s_.split && begin < at && point == mark) cuts.push_back({begin, at}), begin = at;
        out.append(point, text.places[i]);
        i = next;
      }
      cuts.push_back({begin, uint32_t(out.bytes.size())});
    }
    std::swap(text, out);
    std::swap(words, cuts);
  }

 private:
  MetaspaceSettings s_;
};

// Marks become spaces; those of the first token go, since encoding put one there.
class MetaspaceDecoder : public Decoder {
 public:
  explicit MetaspaceDecoder(const MetaspaceSettings& settings) : s_(settings) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], s_.replacement, i == 0 && s_.prefix != Prefix::kNever ? "" : " ");
  }

 private:
  MetaspaceSettings s_;
};

}  // namespace

MetaspaceSettings read_metaspace(const Section& section) {
  MetaspaceSettings s;
  s.replacement = section.string("replacement", {});
  if (count_points(s.replacement) != 1) section.unsupported("replacement", "one character");
  const std::string scheme = section.string("prepend_scheme", "always");
  if (scheme == "first")
    s.prefix = Prefix::kFirst;
  else if (scheme == "never")
    s.prefix = Prefix::kNever;
  else if (scheme != "always")
    section.unsupported("prepend_scheme", "always, first or never");
  // Files of before 2024 have this instead. The reference refuses a contradiction too.
  if (!section.flag("add_prefix_space", true) && s.prefix != Prefix::kNever) {
    if (section.has("prepend_scheme"))
      section.unsupported("prepend_scheme", "never, as add_prefix_space is false");
    s.prefix = Prefix::kNever;
  }
  s.split = section.flag("split", true);
  return s;
}

std::unique_ptr<const PreTokenizer> metaspace(const MetaspaceSettings& settings) {
  return std::make_unique<Metaspace>(settings);
}
std::unique_ptr<const PreTokenizer> whitespace_split() { return std::make_unique<WhitespaceSplit>(); }
std::optional<MarkedWords> marked_words(const std::vector<std::unique_ptr<const PreTokenizer>>& steps) {
  if (steps.empty() || steps.size() > 2) return {};
  const bool at_whitespace = steps.size() == 2;
  if (at_whitespace && !dynamic_cast<const WhitespaceSplit*>(steps[0].get())) return {};
  const auto* marks = dynamic_cast<const Metaspace*>(steps.back().get());
  if (!marks || !marks->settings().split) return {};
  return MarkedWords{marks->settings(), at_whitespace};
}

std::unique_ptr<const Decoder> metaspace_decoder(const MetaspaceSettings& settings) {
  return std::make_unique<MetaspaceDecoder>(settings);
}

}  // namespace bertie::text
