#include "text/pre_tokenizers.h"

#include "text/metaspace.h"

namespace bertie::text {

std::vector<std::unique_ptr<const PreTokenizer>> make_pre_tokenizers(const Section& section) {
  std::vector<std::unique_ptr<const PreTokenizer>> out;
  for (const Section& step : flattened(section, "pretokenizers")) {
    const std::string type = step.type();
    if (type == "Metaspace")
      out.push_back(metaspace(read_metaspace(step)));
    else if (type == "WhitespaceSplit")
      out.push_back(whitespace_split());
    else
      step.unsupported("type", "Metaspace, WhitespaceSplit, or BertPreTokenizer with a WordPiece model");
  }
  return out;
}

}  // namespace bertie::text
