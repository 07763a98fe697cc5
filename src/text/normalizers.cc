#include "text/normalizers.h"

namespace bertie::text {

std::vector<std::unique_ptr<const Normalizer>> make_normalizers(const Section& section) {
  std::vector<std::unique_ptr<const Normalizer>> out;
  for (const Section& step : flattened(section, "normalizers"))
    step.unsupported("type", "\"BertNormalizer\" with a WordPiece model");
  return out;
}

}  // namespace bertie::text
