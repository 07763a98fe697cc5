#pragma once
// What reading and writing config.json has in common for all models.
#include <string>
#include <string_view>

#include "bertie/files.h"
#include "io/json.h"

namespace bertie {

struct ConfigFile {
  std::string name;  // for errors
  nlohmann::json root;
};
// config.json, or the one file that `files` is.
ConfigFile read_config(const ModelFiles& files);

// A token's id; -1 for null, `standard` where there is none. Of several, the first.
int32_t token_id(const nlohmann::json& config, const char* key, const std::string& name, int32_t standard);
// The way back.
nlohmann::ordered_json id_or_null(int32_t id);

// Errors that name the file and the key.
void check_between(const std::string& name, std::string_view key, size_t value, size_t least, size_t most);
void check_dropout(const std::string& name, double rate);

}  // namespace bertie
