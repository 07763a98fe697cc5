#include "text/steps/pre_tokenizers.h"

#include <algorithm>

#include "text/json_object.h"
#include "text/steps/byte_level.h"
#include "text/steps/gpt2_pattern.h"
#include "text/steps/metaspace.h"

namespace bertie::text {
namespace {

// What happens to the parts that a pattern matches: SplitDelimiterBehavior in Hugging Face's tokenizers.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior behavior_of(const JsonObject& s, const std::string& otherwise) {
  std::string name = s.string("behavior", otherwise);
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  s.unsupported("behavior", "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

// Splits each word into matches and the text between them, and joins these parts as Behavior says. Derived
// classes define the parts: next(p, end) is the one at p.
class Splitter : public PreTokenizer {
 public:
  explicit Splitter(Behavior behavior) : behavior_(behavior) {}

  void apply(NormalizedString& text, std::vector<Span>& words, Buffers& buffers) const override {
    std::vector<Span>& out = buffers.spare_words;
    out.clear();
    const char* base = text.bytes.data();
    for (Span word : words) {
      size_t first = out.size();  // of this word's parts
      bool after_match = false;
      for (uint32_t begin = word.begin; begin < word.end;) {
        Part part = next(base + begin, base + word.end);
        Span span{begin, begin + uint32_t(part.length)};
        begin = span.end;
        bool joins = out.size() > first &&
                     ((behavior_ == Behavior::kContiguous && part.match == after_match) ||
                      (behavior_ == Behavior::kMergedWithPrevious && part.match && !after_match) ||
                      (behavior_ == Behavior::kMergedWithNext && !part.match && after_match));
        if (joins)
          out.back().end = span.end;
        else if (!(part.match && behavior_ == Behavior::kRemoved))
          out.push_back(span);
        after_match = part.match;
      }
    }
    words.swap(out);
  }

 protected:
  struct Part {
    size_t length;
    bool match;
  };
  virtual Part next(const char* p, const char* end) const = 0;

  // One matching code point, or all up to the next that matches.
  template <class Is>
  static Part one_match(const char* p, const char* end, const Is& is) {
    auto [point, length] = decode_utf8(p, end);
    if (is(point)) return {length, true};
    return {leading_run({p, size_t(end - p)}, [&](uint32_t c) { return !is(c); }), false};
  }

 private:
  Behavior behavior_;
};

bool is_punctuation(uint32_t point) { return flags(point) & kPunct; }
bool is_word_char(uint32_t point) { return flags(point) & kWordChar; }

class Punctuation : public Splitter {
 public:
  using Splitter::Splitter;
  Part next(const char* p, const char* end) const override { return one_match(p, end, is_punctuation); }
};

class Digits : public Splitter {
 public:
  using Splitter::Splitter;
  Part next(const char* p, const char* end) const override {
    return one_match(p, end, [](uint32_t c) { return char_kind(c) == CharKind::kNumber; });
  }
};

// Keeps the matches of \w+|[^\w\s]+ and removes the whitespace between them.
class Whitespace : public Splitter {
 public:
  Whitespace() : Splitter(Behavior::kRemoved) {}
  Part next(const char* p, const char* end) const override {
    const std::string_view rest(p, size_t(end - p));
    if (size_t n = leading_run(rest, is_word_char)) return {n, false};
    if (size_t n = leading_run(rest, [](uint32_t c) { return !is_word_char(c) && !is_whitespace(c); }))
      return {n, false};
    return {leading_whitespace(rest), true};
  }
};

class SplitAtString : public Splitter {
 public:
  SplitAtString(std::string text, Behavior behavior, bool invert)
      : Splitter(behavior), text_(std::move(text)), invert_(invert) {}
  Part next(const char* p, const char* end) const override {
    size_t at = std::string_view(p, size_t(end - p)).find(text_);
    if (at == 0) return {text_.size(), !invert_};
    return {std::min(at, size_t(end - p)), invert_};
  }

 private:
  std::string text_;
  bool invert_;
};

// GPT-2's pattern matches everything, so every part is a match.
class SplitGpt2 : public Splitter {
 public:
  SplitGpt2() : Splitter(Behavior::kIsolated) {}
  Part next(const char* p, const char* end) const override {
    return {size_t(Gpt2Pattern::get().end_of_match(p, end) - p), true};
  }
};

class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  explicit ByteLevelPreTokenizer(const ByteLevelSettings& settings) : settings_(settings) {}

  void apply(NormalizedString& text, std::vector<Span>& words, Buffers& buffers) const override {
    NormalizedString& out = buffers.spare;
    std::vector<Span>& spans = buffers.spare_words;
    out.clear(), spans.clear();
    std::string& word = buffers.word_copy;
    for (Span span : words) {
      word.assign(text.bytes, span.begin, span.size());
      bool prefix = settings_.add_prefix_space && !word.starts_with(' ');
      if (prefix) word.insert(0, 1, ' ');
      const char *p = word.data(), *end = p + word.size();
      size_t at = span.begin;  // of the original byte; an added space has the alignment of the byte after it
      while (p < end) {
        uint32_t begin = uint32_t(out.bytes.size());
        const char* q = settings_.use_regex ? Gpt2Pattern::get().end_of_match(p, end) : end;
        for (; p < q; ++p) {
          char utf8[4];
          size_t n = encode_utf8(byte_level_point(uint8_t(*p)), utf8);
          out.append({utf8, n}, text.alignments[at]);
          if (!(prefix && p == word.data())) ++at;
        }
        spans.push_back({begin, uint32_t(out.bytes.size())});
      }
    }
    std::swap(text, out);
    words.swap(spans);
  }

 private:
  ByteLevelSettings settings_;
};

ByteLevelSettings read_byte_level(const JsonObject& s) {
  return {s.flag("add_prefix_space", true), s.flag("use_regex", true)};
}

void add_split(const JsonObject& s, PreTokenizers& out) {
  JsonObject pattern = s.object("pattern");
  Behavior behavior = behavior_of(s, "Isolated");
  bool invert = s.flag("invert", false);
  if (std::string text = pattern.string("String", ""); !text.empty()) {
    out.push_back(std::make_unique<SplitAtString>(text, behavior, invert));
  } else if (pattern.string("Regex", "") == kGpt2Regex &&
             (behavior == Behavior::kIsolated || (behavior == Behavior::kRemoved && invert))) {
    out.push_back(std::make_unique<SplitGpt2>());
  } else {
    s.unsupported("pattern", "a String, or the Regex of GPT-2 with behavior Isolated");
  }
}

}  // namespace

std::unique_ptr<const PreTokenizer> byte_level_pre_tokenizer(const ByteLevelSettings& settings) {
  return std::make_unique<ByteLevelPreTokenizer>(settings);
}

std::optional<ByteLevelSettings> only_byte_level(const JsonObject& object) {
  std::vector<JsonObject> steps = flatten_sequence(object, "pretokenizers");
  if (steps.size() != 1 || steps[0].type() != "ByteLevel") return {};
  return read_byte_level(steps[0]);
}

PreTokenizers make_pre_tokenizers(const JsonObject& object) {
  PreTokenizers out;
  for (const JsonObject& s : flatten_sequence(object, "pretokenizers")) {
    std::string type = s.type();
    if (type == "ByteLevel") {
      out.push_back(byte_level_pre_tokenizer(read_byte_level(s)));
    } else if (type == "WhitespaceSplit") {
      out.push_back(whitespace_split());
    } else if (type == "Metaspace") {
      out.push_back(metaspace_pre_tokenizer(read_metaspace(s)));
    } else if (type == "Whitespace") {
      out.push_back(std::make_unique<Whitespace>());
    } else if (type == "BertPreTokenizer") {
      out.push_back(whitespace_split());
      out.push_back(std::make_unique<Punctuation>(Behavior::kIsolated));
    } else if (type == "Punctuation") {
      out.push_back(std::make_unique<Punctuation>(behavior_of(s, "Isolated")));
    } else if (type == "Digits") {
      out.push_back(std::make_unique<Digits>(s.flag("individual_digits", false) ? Behavior::kIsolated
                                                                                : Behavior::kContiguous));
    } else if (type == "Split") {
      add_split(s, out);
    } else {
      s.unsupported("type",
                    "ByteLevel, BertPreTokenizer, Whitespace, WhitespaceSplit, Punctuation, Digits, Split, "
                    "Metaspace or Sequence");
    }
  }
  return out;
}

}  // namespace bertie::text
