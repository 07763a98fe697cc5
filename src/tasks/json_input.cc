#include "bertie/json.h"
#include "io/json.h"

namespace bertie {

std::vector<std::string> strings_in_json(std::string_view object, std::span<const std::string_view> keys,
                                         const std::string& name) {
  const nlohmann::json parsed = io::parse_json(object, name);
  std::vector<std::string> strings;
  for (const std::string_view key : keys) strings.push_back(io::get_string(parsed, key, name));
  return strings;
}

}  // namespace bertie
