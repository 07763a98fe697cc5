// Any bytes as a whole model: an Error, or a model that runs. The input is a config.json, a NUL, and the JSON
// header of a model.safetensors. The header's length and the data, small numbers, are made here, so that an
// edit does not break them. tests/model/hostile_config_test.cc runs it too.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bertie/error.h"
#include "bertie/model.h"
#include "bertie/transformer.h"
#include "refused.h"

namespace bertie {

// As much data as the header's largest offset asks for, within reason.
inline std::string safetensors_of(std::string_view header) {
  constexpr uint64_t kMost = 1 << 20;
  uint64_t end = 0;
  const auto json = nlohmann::json::parse(header, nullptr, false);
  if (json.is_object())
    for (const auto& tensor : json)
      if (tensor.is_object() && tensor.contains("data_offsets") && tensor["data_offsets"].is_array())
        for (const auto& offset : tensor["data_offsets"])
          if (offset.is_number_unsigned()) end = std::max(end, offset.get<uint64_t>());
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file += header;
  if (end <= kMost) file.append(size_t(end), '\x3C');  // 0.0115 as float32
  return file;
}

inline void check_model(const ModelFiles& files) {
  constexpr int32_t ids[] = {0, 0}, offsets[] = {0, 1, 2};
  const Batch batch{.ids = ids, .offsets = offsets};
  if (TransformerConfig::describes(files)) {
    const Transformer model = Transformer::load(files);
    TransformerRun run(model, 1);
    run.encode(batch);
    run.decode(batch);
    return;
  }
  const Model model = Model::load(files);
  model.parameters();
  if (model.config().depth() > 50) return;  // ALBERT's layers share weights: a small file may be slow
  Run run(model, 1);
  run.forward(batch, {.hidden_states = true, .pooled = model.has_pooler()});
  for (Head head :
       {Head::kMaskedLm, Head::kNextSentence, Head::kClassify, Head::kTag, Head::kAnswer, Head::kCausalLm})
    if (model.has(head)) run.forward(batch, {.head = head});
}

}  // namespace bertie

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie;
  const std::string_view input(reinterpret_cast<const char*>(data), size),
      config = input.substr(0, input.find('\0'));
  const std::string weights = safetensors_of(input.substr(std::min(config.size() + 1, size)));
  try {
    check_model(ModelFiles::in_memory({{"config.json", std::as_bytes(std::span(config))},
                                       {"model.safetensors", std::as_bytes(std::span(weights))}}));
  } catch (const Error&) {
    return kRefused;
  }
  return 0;
}
