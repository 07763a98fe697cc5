#include "text/steps/decoders.h"

#include <charconv>

#include "text/json_object.h"
#include "text/steps/byte_level.h"
#include "text/steps/metaspace.h"
#include "text/unicode/unicode.h"

namespace bertie::text {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

namespace {

// Puts spaces between tokens: what the reference does without a decoder.
class JoinWithSpaces : public Decoder {
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, 1, ' ');
  }
};

class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) {
        if (token.starts_with(prefix_))
          token.erase(0, prefix_.size());
        else
          token.insert(0, 1, ' ');
      }
      if (cleanup_) clean_up(token);
    }
  }

 private:
  // Removes spaces that English does not write, from each token with the space before it, in this order.
  static void clean_up(std::string& token) {
    static constexpr std::string_view kRules[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (auto& [from, to] : kRules) replace_all(token, from, to);
  }

  std::string prefix_;
  bool cleanup_;
};

// Maps characters back to bytes; a token with a character that stands for no byte is kept as it is.
class ByteLevelDecoder : public Decoder {
  void apply(std::vector<std::string>& tokens) const override {
    std::string all, bytes;
    for (const std::string& token : tokens) all += byte_level_bytes(token, bytes) ? bytes : token;
    bytes.clear();
    replace_invalid(all, bytes);
    tokens.assign(1, bytes);
  }
};

// A suffix marks the end of a word, as in BPE before byte-level BPE.
class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& tokens) const override {
    if (suffix_.empty()) return;
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }

 private:
  std::string suffix_;
};

class Fuse : public Decoder {
  void apply(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.assign(1, all);
  }
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) replace_all(token, from_, to_);
  }

 private:
  std::string from_, to_;
};

// "<0x41>" is byte 0x41. A run of bytes is one text, or a U+FFFD for each byte if it is not UTF-8.
class ByteFallback : public Decoder {
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    auto flush = [&] {
      if (bytes.empty()) return;
      if (valid_utf8(bytes))
        out.push_back(bytes);
      else
        out.insert(out.end(), bytes.size(), "\uFFFD");
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (int byte = byte_of(token); byte >= 0) {
        bytes += char(byte);
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    tokens.swap(out);
  }
  static int byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    const std::string_view digits = token.substr(token[3] == '+' ? 4 : 3, token[3] == '+' ? 1 : 2);
    int value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return error == std::errc() && end == digits.data() + digits.size() && value >= 0 ? value : -1;
  }
};

// Removes up to `left` and `right` repetitions of one character from the beginning and the end of every
// token.
class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string content, size_t left, size_t right)
      : content_(std::move(content)), left_(left), right_(right) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      for (size_t i = 0; i < left_ && token.starts_with(content_); ++i) token.erase(0, content_.size());
      for (size_t i = 0; i < right_ && token.ends_with(content_); ++i)
        token.resize(token.size() - content_.size());
    }
  }

 private:
  std::string content_;
  size_t left_, right_;
};

std::unique_ptr<const Decoder> make_decoder(const JsonObject& s) {
  std::string type = s.type();
  if (type == "WordPiece") return word_piece_decoder(s.string("prefix", "##"), s.flag("cleanup", true));
  if (type == "ByteLevel") return byte_level_decoder();
  if (type == "BPEDecoder") return std::make_unique<BpeDecoder>(s.string("suffix", "</w>"));
  if (type == "Metaspace") return metaspace_decoder(read_metaspace(s));
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Strip") {
    std::string content = s.string("content", {});
    if (count_points(content) != 1) s.unsupported("content", "one character");
    return std::make_unique<StripDecoder>(content, s.size("start", {}, 1000), s.size("stop", {}, 1000));
  }
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Replace") {
    std::string from = s.object("pattern").string("String", "");
    if (from.empty()) s.unsupported("pattern", "{\"String\": text}");
    return std::make_unique<ReplaceDecoder>(from, s.string("content", {}));
  }
  s.unsupported(
      "type", "WordPiece, ByteLevel, BPEDecoder, Metaspace, ByteFallback, Fuse, Replace, Strip or Sequence");
}

}  // namespace

std::unique_ptr<const Decoder> word_piece_decoder(std::string prefix, bool cleanup) {
  return std::make_unique<WordPieceDecoder>(std::move(prefix), cleanup);
}
std::unique_ptr<const Decoder> byte_level_decoder() { return std::make_unique<ByteLevelDecoder>(); }

Decoders make_decoders(const JsonObject& object) {
  Decoders out;
  for (const JsonObject& step : flatten_sequence(object, "decoders")) out.push_back(make_decoder(step));
  if (object.missing()) out.push_back(std::make_unique<JoinWithSpaces>());
  return out;
}

}  // namespace bertie::text
