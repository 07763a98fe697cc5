#pragma once
// SentencePiece's own files: spiece.model (ALBERT) and sentencepiece.bpe.model (XLM-RoBERTa, CamemBERT). A
// protobuf with the pieces, how they were trained, and how text is normalised before.
//
// Such a file does not say what the model around it expects: which ids come first and what stands around a
// text. The family does; the tokenizer made here is the one that transformers' AutoTokenizer makes.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_parts.h"

namespace bertie::text {

struct SentencePieceFile {
  enum Type : uint32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string_view text;  // of the file's bytes
    float score = 0;
    uint32_t type = kNormal;
  };
  std::vector<Piece> pieces;
  uint32_t model_type = 1;    // 1: unigram
  std::string_view charsmap;  // of the file's bytes; see text/steps/charsmap.h
};
// The bytes must outlive what is returned. Throws Error for a length that leads out of the file, too many
// pieces, or text that is not UTF-8.
SentencePieceFile read_sentence_piece_file(std::string_view bytes, const std::string& name);

// `family`: a tokenizer_class ("AlbertTokenizer", "XLMRobertaTokenizerFast") or a model_type ("albert",
// "xlm-roberta", "camembert"); empty: by the file's name.
Definition read_sentence_piece(std::string_view bytes, const std::string& name, const std::string& family,
                               const TokenizerConfig& config);

}  // namespace bertie::text
