#pragma once
// Ids back to text: the decoders of a tokenizer.json. Each step changes the list of tokens; at the end they
// are joined without anything between them.
#include <memory>
#include <string>
#include <vector>

#include "text/json_object.h"

namespace bertie::text {

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};
using Decoders = std::vector<std::unique_ptr<const Decoder>>;

// The section "decoder"; if it is missing, tokens are joined with spaces. Throws Error for one that we do not
// know.
Decoders make_decoders(const Section& section);
std::unique_ptr<const Decoder> word_piece_decoder(std::string prefix = "##", bool cleanup = true);
std::unique_ptr<const Decoder> byte_level_decoder();

void replace_all(std::string& text, std::string_view from, std::string_view to);

}  // namespace bertie::text
