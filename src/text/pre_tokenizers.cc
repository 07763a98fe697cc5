#include "text/pre_tokenizers.h"

namespace bertie::text {

std::vector<std::unique_ptr<const PreTokenizer>> make_pre_tokenizers(const Section& section) {
  std::vector<std::unique_ptr<const PreTokenizer>> out;
  for (const Section& step : flattened(section, "pretokenizers"))
    step.unsupported("type", "\"BertPreTokenizer\" with a WordPiece model");
  return out;
}

}  // namespace bertie::text
