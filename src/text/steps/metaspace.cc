#include "text/steps/metaspace.h"

#include "text/json_object.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

class WhitespaceSplit : public PreTokenizer {
 public:
  void apply(NormalizedString& text, std::vector<Span>& words, Buffers& buffers) const override {
    auto& out = buffers.spare_words;
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
        if (is_whitespace(point)) cut(i, i + length);
        i += length;
      }
      cut(word.end, word.end);
    }
    std::swap(words, out);
  }
};

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const MetaspaceSettings& settings) : settings_(settings) {}
  const MetaspaceSettings& settings() const { return settings_; }
  void apply(NormalizedString& text, std::vector<Span>& words, Buffers& buffers) const override {
    NormalizedString& out = buffers.spare;
    auto& cuts = buffers.spare_words;
    out.clear(), cuts.clear();
    const std::string& replacement = settings_.replacement;
    for (Span word : words) {
      uint32_t begin = uint32_t(out.bytes.size());
      const bool has_prefix =
          text.bytes[word.begin] == ' ' ||
          std::string_view(text.bytes).substr(word.begin, word.size()).starts_with(replacement);
      const Offset first = text.alignments[word.begin];
      if (!has_prefix && (settings_.prepend_scheme == PrependScheme::kAlways ||
                          (settings_.prepend_scheme == PrependScheme::kFirst && first.begin == 0)))
        out.append(replacement, first);
      for (uint32_t i = word.begin; i < word.end;) {
        uint32_t next = i + 1;
        while (next < word.end && is_continuation(text.bytes[next])) ++next;
        const bool space = text.bytes[i] == ' ';
        const std::string_view point =
            space ? std::string_view(replacement) : std::string_view(text.bytes).substr(i, next - i);
        const uint32_t at = uint32_t(out.bytes.size());
        if (settings_.split && begin < at && point == replacement) cuts.push_back({begin, at}), begin = at;
        out.append(point, text.alignments[i]);
        i = next;
      }
      cuts.push_back({begin, uint32_t(out.bytes.size())});
    }
    std::swap(text, out);
    std::swap(words, cuts);
  }

 private:
  MetaspaceSettings settings_;
};

// Replacements become spaces again; those of the first token are removed, since encoding added one there.
class MetaspaceDecoder : public Decoder {
 public:
  explicit MetaspaceDecoder(const MetaspaceSettings& settings) : settings_(settings) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], settings_.replacement,
                  i == 0 && settings_.prepend_scheme != PrependScheme::kNever ? "" : " ");
  }

 private:
  MetaspaceSettings settings_;
};

}  // namespace

MetaspaceSettings read_metaspace(const JsonObject& object) {
  MetaspaceSettings s;
  s.replacement = object.string("replacement", {});
  if (count_points(s.replacement) != 1) object.unsupported("replacement", "one character");
  const std::string scheme = object.string("prepend_scheme", "always");
  if (scheme == "first")
    s.prepend_scheme = PrependScheme::kFirst;
  else if (scheme == "never")
    s.prepend_scheme = PrependScheme::kNever;
  else if (scheme != "always")
    object.unsupported("prepend_scheme", "always, first or never");
  // Files from before 2024 have add_prefix_space instead. The reference rejects a contradiction as well.
  if (!object.flag("add_prefix_space", true) && s.prepend_scheme != PrependScheme::kNever) {
    if (object.has("prepend_scheme"))
      object.unsupported("prepend_scheme", "never, as add_prefix_space is false");
    s.prepend_scheme = PrependScheme::kNever;
  }
  s.split = object.flag("split", true);
  return s;
}

std::unique_ptr<const PreTokenizer> metaspace_pre_tokenizer(const MetaspaceSettings& settings) {
  return std::make_unique<Metaspace>(settings);
}
std::unique_ptr<const PreTokenizer> whitespace_split() { return std::make_unique<WhitespaceSplit>(); }
std::optional<MetaspaceSplit> find_metaspace_split(const PreTokenizers& steps) {
  if (steps.empty() || steps.size() > 2) return {};
  const bool at_whitespace = steps.size() == 2;
  if (at_whitespace && !dynamic_cast<const WhitespaceSplit*>(steps[0].get())) return {};
  const auto* metaspace = dynamic_cast<const Metaspace*>(steps.back().get());
  if (!metaspace || !metaspace->settings().split) return {};
  return MetaspaceSplit{metaspace->settings(), at_whitespace};
}

std::unique_ptr<const Decoder> metaspace_decoder(const MetaspaceSettings& settings) {
  return std::make_unique<MetaspaceDecoder>(settings);
}

}  // namespace bertie::text
