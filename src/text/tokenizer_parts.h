#pragma once
// What a Tokenizer is made of. The loaders (text/loaders) make the parts; they never change afterwards.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "bertie/tokenizer.h"
#include "text/segmenters/segmenter.h"
#include "text/steps/added_tokens.h"
#include "text/steps/decoders.h"
#include "text/steps/post_processor.h"

namespace bertie::text {

// Something for each of the named special tokens.
template <class T>
struct SpecialTokens {
  T unk = {}, cls = {}, sep = {}, pad = {}, mask = {}, bos = {}, eos = {};

  std::array<T*, 7> all() { return {&unk, &cls, &sep, &pad, &mask, &bos, &eos}; }
  std::array<const T*, 7> all() const { return {&unk, &cls, &sep, &pad, &mask, &bos, &eos}; }
  // The order in which tokens that the vocabulary lacks get their ids.
  std::array<const T*, 7> in_id_order() const { return {&bos, &eos, &unk, &sep, &pad, &cls, &mask}; }
};

using SpecialTokenNames = SpecialTokens<std::string>;  // "": there is no such token

// unk, cls, sep, pad, mask, bos, eos
inline SpecialTokenNames bert_names() { return {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "", ""}; }
inline SpecialTokenNames roberta_names() {
  return {"<unk>", "<s>", "</s>", "<pad>", "<mask>", "<s>", "</s>"};
}
inline SpecialTokenNames albert_names() {
  return {"<unk>", "[CLS]", "[SEP]", "<pad>", "[MASK]", "[CLS]", "[SEP]"};
}
inline SpecialTokenNames gpt2_names() {
  return {.unk = "<|endoftext|>", .bos = "<|endoftext|>", .eos = "<|endoftext|>"};
}

struct TokenizerParts {
  std::unique_ptr<const Segmenter> segmenter;
  std::vector<AddedToken> added;  // in order of precedence
  PostProcessor post_processor;
  Decoders decoders;
  SpecialTokenNames names = bert_names();
  size_t model_max_length = kNoLimit;
};

}  // namespace bertie::text
