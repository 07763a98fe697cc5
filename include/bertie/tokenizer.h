#pragma once
// Tokenizers (WordPiece, byte-level BPE, Unigram): text to ids and offsets, equal to Hugging Face's fast
// ones.
//
//   auto tokenizer = bertie::Tokenizer::load("models/bert-base-uncased");
//   bertie::Encoding e = tokenizer.encode("You found me.");
//   // e.ids = {101, 2017, 2179, 2033, 1012, 102}; e.offsets[2] = {4, 9}: "found"
//
// A Tokenizer is const after loading and may be used by any number of threads at once. An Encoding belongs to
// one caller; encode_into with the same one again and again allocates nothing.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/export.h"
#include "bertie/files.h"

namespace bertie {

namespace text {

struct Buffers;
struct TokenizerParts;

// Memory that encode_into reuses. A copy starts empty.
class BERTIE_API OwnedBuffers {
 public:
  OwnedBuffers();
  OwnedBuffers(const OwnedBuffers&);
  OwnedBuffers(OwnedBuffers&&) noexcept;
  OwnedBuffers& operator=(const OwnedBuffers&);
  OwnedBuffers& operator=(OwnedBuffers&&) noexcept;
  ~OwnedBuffers();
  Buffers& get();

 private:
  std::unique_ptr<Buffers> buffers_;
};

}  // namespace text

// A half-open range of code points of the original text. Invalid bytes count as one code point for each
// U+FFFD that replaces them (see docs/tokenizing.md).
struct Offset {
  uint32_t begin = 0, end = 0;
  friend bool operator==(const Offset&, const Offset&) = default;
};

// The part of `text` at an offset.
BERTIE_API std::string_view text_at(std::string_view text, Offset offset);

// Which text of a pair is cut if the pair is too long.
enum class Truncate { kLongestFirst, kOnlyFirst, kOnlySecond };

inline constexpr size_t kNoLimit = SIZE_MAX;

struct EncodeOptions {
  size_t max_length = kNoLimit;                 // of ids, special tokens included
  size_t stride = 0;                            // ids shared by neighboring windows (encode_windows)
  Truncate truncate = Truncate::kLongestFirst;  // which text of a pair is cut
  bool add_special_tokens = true;               // [CLS] a [SEP] b [SEP]
  bool special_tokens_in_text = true;           // false: "[MASK]" in the text is plain text
};

// Each vector has one entry per id. In words and sequences -1 marks a special token that encode added; a
// "[MASK]" in the text belongs to the text.
struct BERTIE_API Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;     // 0 in the first segment, 1 in the second
  std::vector<Offset> offsets;    // {0, 0} for special tokens
  std::vector<int32_t> words;     // the index of the word in its sequence, the same for all its pieces
  std::vector<int8_t> sequences;  // 0 first text, 1 second text, -1 special
  bool truncated = false;         // something was cut off because of max_length

  size_t size() const { return ids.size(); }
  bool special(size_t i) const { return sequences[i] < 0; }
  void clear();

 private:
  friend class Tokenizer;
  text::OwnedBuffers buffers_;
};

// Settings for a vocab.txt; a tokenizer.json has its own.
struct TokenizerOptions {
  bool lowercase = true;
  std::optional<bool> strip_accents = {};  // default: as lowercase
  bool split_cjk = true;                   // each Chinese character is a word
  size_t model_max_length = kNoLimit;
};

class BERTIE_API Tokenizer {
 public:
  // tokenizer.json, vocab.txt, vocab.json and merges.txt, spiece.model or sentencepiece.bpe.model: the first
  // of these that is there, or the one whose path is given. tokenizer_config.json, special_tokens_map.json,
  // added_tokens.json and config.json beside them are read too. Throws Error.
  static Tokenizer load(const ModelFiles& files);
  // The name of the file that load would read; empty if there is none.
  static std::string file_in(const ModelFiles& files);
  // A vocab.txt with your own settings; or its text, one token per line.
  static Tokenizer from_vocab(const std::filesystem::path& vocab_txt, const TokenizerOptions& options = {});
  static Tokenizer from_vocab_text(std::string_view lines, const TokenizerOptions& options = {});
  // The text of a tokenizer.json; `name` is for errors.
  static Tokenizer from_json_text(std::string_view json, const std::string& name = "tokenizer.json");
  // The bytes of a spiece.model or sentencepiece.bpe.model; `family` is "albert", "xlm-roberta" or
  // "camembert".
  static Tokenizer from_sentence_piece(std::string_view model, const std::string& family,
                                       const std::string& name = "spiece.model");

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode(std::string_view a, std::string_view b, const EncodeOptions& options = {}) const;
  // As encode, into `out`. Allocates nothing once the vectors of `out` have grown.
  void encode_into(std::string_view text, const EncodeOptions& options, Encoding& out) const;
  void encode_into(std::string_view a, std::string_view b, const EncodeOptions& options, Encoding& out) const;

  // All of a long text, in windows of max_length ids that share `stride` ids with the window before. The
  // first one is what encode returns. With a pair, use Truncate::kOnlySecond (or kOnlyFirst) to keep the
  // other text whole in every window.
  std::vector<Encoding> encode_windows(std::string_view text, const EncodeOptions& options) const;
  std::vector<Encoding> encode_windows(std::string_view a, std::string_view b,
                                       const EncodeOptions& options) const;

  // The text of some ids: pieces joined, spaces before punctuation removed. Ids without a token are left out.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;
  // The same for tokens, as token() returns them.
  std::string join(std::vector<std::string> tokens) const;

  // The token with its "##"; empty if there is no such id.
  std::string_view token(int32_t id) const;
  std::optional<int32_t> id(std::string_view token) const;
  // One more than the largest id.
  size_t vocab_size() const;
  bool is_special(int32_t id) const;
  // True if tokens that continue a word have a prefix ("##"); otherwise tokens that begin a word have a
  // space.
  bool marks_continuations() const;

  // Special ids; -1 where the vocabulary has none.
  int32_t cls_id() const;
  int32_t sep_id() const;
  int32_t pad_id() const;
  int32_t unk_id() const;
  int32_t mask_id() const;
  int32_t bos_id() const;
  int32_t eos_id() const;

  // model_max_length of tokenizer_config.json; kNoLimit if it is missing.
  size_t model_max_length() const;
  std::string_view kind() const;  // "WordPiece", "BPE" or "Unigram"
  bool lowercase() const;

 private:
  struct State;
  explicit Tokenizer(text::TokenizerParts&& parts);
  std::unique_ptr<const State> state_;
};

}  // namespace bertie
