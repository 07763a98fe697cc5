#include "text/decoders.h"

#include "text/byte_level.h"
#include "text/unicode.h"

namespace bertie::text {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

void join(std::vector<std::string>& tokens) {
  if (tokens.empty()) return;
  for (size_t i = 1; i < tokens.size(); ++i) tokens[0] += tokens[i];
  tokens.resize(1);
}

// Joins with spaces: what the reference does without a decoder.
class Spaces : public Decoder {
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, 1, ' ');
  }
};

class WordPieces : public Decoder {
 public:
  WordPieces(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
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
  // Spaces that English does not write. Applied to each token with the space before it, in this order.
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

// Bytes again; a token with a character that stands for no byte is taken as it is.
class ByteLevel : public Decoder {
  void apply(std::vector<std::string>& tokens) const override {
    std::string all, bytes;
    for (const std::string& token : tokens) all += byte_level_bytes(token, bytes) ? bytes : token;
    bytes.clear();
    replace_invalid(all, bytes);
    tokens.assign(1, bytes);
  }
};

// Classic BPE: a suffix ends a word.
class Suffixed : public Decoder {
 public:
  explicit Suffixed(std::string suffix) : suffix_(std::move(suffix)) {}
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
    if (tokens.empty()) tokens.emplace_back();
    join(tokens);
  }
};

class Replace : public Decoder {
 public:
  Replace(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) replace_all(token, from_, to_);
  }

 private:
  std::string from_, to_;
};

std::unique_ptr<const Decoder> make_decoder(const Section& s) {
  std::string type = s.type();
  if (type == "WordPiece") return word_piece_decoder(s.string("prefix", "##"), s.flag("cleanup", true));
  if (type == "ByteLevel") return byte_level_decoder();
  if (type == "BPEDecoder") return std::make_unique<Suffixed>(s.string("suffix", "</w>"));
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Replace") {
    std::string from = s.section("pattern").string("String", "");
    if (from.empty()) s.unsupported("pattern", "{\"String\": text}");
    return std::make_unique<Replace>(from, s.string("content", {}));
  }
  s.unsupported("type", "WordPiece, ByteLevel, BPEDecoder, Fuse, Replace or Sequence");
}

}  // namespace

std::unique_ptr<const Decoder> word_piece_decoder(std::string prefix, bool cleanup) {
  return std::make_unique<WordPieces>(std::move(prefix), cleanup);
}
std::unique_ptr<const Decoder> byte_level_decoder() { return std::make_unique<ByteLevel>(); }

Decoders make_decoders(const Section& section) {
  Decoders out;
  for (const Section& step : flattened(section, "decoders")) out.push_back(make_decoder(step));
  if (section.missing()) out.push_back(std::make_unique<Spaces>());
  return out;
}

}  // namespace bertie::text
