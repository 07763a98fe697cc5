#pragma once
// "attention" in config.json: the mechanism of a layer's attention.
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bertie/config.h"

namespace bertie {

// Errors name `name`, the file, and the key.
AttentionConfig read_attention(const nlohmann::json& object, const std::string& name);
nlohmann::ordered_json attention_json(const AttentionConfig& attention);
// Error where a mechanism does not go with the model.
void check_attention(const Config& config, const std::string& name);

}  // namespace bertie
