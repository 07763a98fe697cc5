#pragma once
// Tokenizers (WordPiece, byte-level BPE, Unigram): text in, ids and places out, equal to Hugging Face's fast
// ones.
//
//   auto tokenizer = bertie::Tokenizer::load("models/bert-base-uncased");
//   bertie::Encoding e = tokenizer.encode("You found me.");
//   // e.ids = {101, 2017, 2179, 2033, 1012, 102}; e.offsets[2] = {4, 9}: "found"
//
// A Tokenizer is const after loading and may be used by any number of threads at once. An Encoding
// belongs to one caller; pass the same one to encode_into again and again and nothing is allocated.
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

namespace bertie {

namespace text {

struct Definition;

struct Workspace;

// Memory that tokenizing reuses; nothing for callers to look at. A copy begins empty.
class BERTIE_API Scratch {
 public:
  Scratch();
  Scratch(const Scratch&);
  Scratch(Scratch&&) noexcept;
  Scratch& operator=(const Scratch&);
  Scratch& operator=(Scratch&&) noexcept;
  ~Scratch();
  Workspace& get();

 private:
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace text

// A half-open range of code points of the original text. Bytes that are not UTF-8 count as one code point
// for each U+FFFD that replaces them (see docs/tokenizing.md).
struct Offset {
  uint32_t begin = 0, end = 0;
  friend bool operator==(const Offset&, const Offset&) = default;
};

// The bytes of `text` that an offset stands for.
BERTIE_API std::string_view text_at(std::string_view text, Offset offset);

// Which side gives way when a pair is too long.
enum class Truncate { kLongestFirst, kOnlyFirst, kOnlySecond };

inline constexpr size_t kNoLimit = SIZE_MAX;

struct EncodeOptions {
  size_t max_length = kNoLimit;                 // of ids, special tokens included
  size_t stride = 0;                            // ids shared by neighbouring windows (encode_windows)
  Truncate truncate = Truncate::kLongestFirst;  // which text of a pair gives way
  bool add_special_tokens = true;               // [CLS] a [SEP] b [SEP]
  bool special_tokens_in_text = true;           // false: "[MASK]" in the text is plain text
};

// One entry of each vector for each id. In words and sequences -1 marks a special token that encode added;
// a "[MASK]" that the text itself holds belongs to its sequence.
struct BERTIE_API Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;     // 0 in the first segment, 1 in the second
  std::vector<Offset> offsets;    // {0, 0} for special tokens
  std::vector<int32_t> words;     // which word of its sequence: pieces of one word share it
  std::vector<int8_t> sequences;  // 0 first text, 1 second text, -1 special
  bool truncated = false;         // max_length cut something off

  size_t size() const { return ids.size(); }
  bool special(size_t i) const { return sequences[i] < 0; }
  void clear();

 private:
  friend class Tokenizer;
  text::Scratch scratch_;
};

// How to read a vocab.txt; tokenizer.json says it itself.
struct TokenizerOptions {
  bool lowercase = true;
  std::optional<bool> strip_accents = {};  // unset: as lowercase
  bool split_cjk = true;                   // a word for each Chinese character
  size_t model_max_length = kNoLimit;
};

class BERTIE_API Tokenizer {
 public:
  // A directory with tokenizer.json, vocab.txt, vocab.json and merges.txt, spiece.model or
  // sentencepiece.bpe.model (the first of these wins), or one of these files. tokenizer_config.json,
  // special_tokens_map.json and config.json beside them are read too. Throws Error.
  static Tokenizer load(const std::filesystem::path& directory_or_file);
  // The file that load would take from a directory; empty where there is none.
  static std::filesystem::path file_in(const std::filesystem::path& directory);
  // vocab.txt alone, with your own settings; or its text, one token a line.
  static Tokenizer from_vocab(const std::filesystem::path& vocab_txt, const TokenizerOptions& options = {});
  static Tokenizer from_vocab_text(std::string_view lines, const TokenizerOptions& options = {});
  // The text of a tokenizer.json; `name` is what errors call it.
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
  // As encode, into `out`: once its vectors have grown, no heap allocation at all.
  void encode_into(std::string_view text, const EncodeOptions& options, Encoding& out) const;
  void encode_into(std::string_view a, std::string_view b, const EncodeOptions& options, Encoding& out) const;

  // All of a long text, in windows of max_length ids that share `stride` ids with the one before. The
  // first window is what encode gives. With a pair, use Truncate::kOnlySecond (or kOnlyFirst) to keep one
  // side whole in every window.
  std::vector<Encoding> encode_windows(std::string_view text, const EncodeOptions& options) const;
  std::vector<Encoding> encode_windows(std::string_view a, std::string_view b,
                                       const EncodeOptions& options) const;

  // Text again: pieces joined, spaces before punctuation taken out. Ids without a token are left out.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;
  // The same from tokens, as token() gives them or as somebody changed them.
  std::string join(std::vector<std::string> tokens) const;

  // The token's text, "##" included; empty if there is no such id.
  std::string_view token(int32_t id) const;
  std::optional<int32_t> id(std::string_view token) const;
  // One more than the largest id.
  size_t vocab_size() const;
  bool is_special(int32_t id) const;
  // Whether a token says by a mark ("##") that it goes on with a word; else words begin with a space.
  bool marks_continuations() const;

  // Special ids; -1 where the vocabulary has none.
  int32_t cls_id() const;
  int32_t sep_id() const;
  int32_t pad_id() const;
  int32_t unk_id() const;
  int32_t mask_id() const;
  int32_t bos_id() const;
  int32_t eos_id() const;

  // What the model takes at most, from tokenizer_config.json; kNoLimit if nobody says.
  size_t model_max_length() const;
  std::string_view kind() const;  // "WordPiece", "BPE" or "Unigram"
  bool lowercase() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const State> state);
  static std::unique_ptr<const State> build(text::Definition&& definition);
  size_t room(bool pair, const EncodeOptions& options) const;
  void append_pieces(std::string_view text, const EncodeOptions& options, size_t limit, Encoding& out) const;
  void trim(std::string_view text, size_t begin, size_t count, Encoding& out) const;
  void encode_template(std::string_view a, const std::string_view* b, const EncodeOptions& options,
                       Encoding& out) const;
  std::vector<Encoding> windows(std::string_view a, const std::string_view* b,
                                const EncodeOptions& options) const;
  std::unique_ptr<const State> state_;
};

}  // namespace bertie
