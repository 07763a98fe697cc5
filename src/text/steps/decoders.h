#pragma once
// The decoders of a tokenizer.json: tokens back to text. Each one changes the list of tokens; at the end the
// tokens are concatenated. To add one, derive from Decoder and name it in make_decoder.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace bertie::text {

class JsonObject;

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};
using Decoders = std::vector<std::unique_ptr<const Decoder>>;

// From the object "decoder"; if it is missing, tokens are joined with spaces. Throws Error for an unknown
// type.
Decoders make_decoders(const JsonObject& object);
std::unique_ptr<const Decoder> word_piece_decoder(std::string prefix = "##", bool cleanup = true);
std::unique_ptr<const Decoder> byte_level_decoder();

void replace_all(std::string& text, std::string_view from, std::string_view to);

}  // namespace bertie::text
