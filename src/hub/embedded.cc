#include "hub/embedded.h"

#include <algorithm>
#include <map>
#include <string>

#include "bertie/hub.h"
#include "io/model_file_names.h"

namespace bertie::hub {

std::optional<ModelFiles> embedded_model(std::string_view name) {
  const std::string folder = std::string(name) + "/", parent(name.substr(0, name.find('/')));
  std::map<std::string, std::span<const std::byte>, std::less<>> files;
  // A model below another has the other's files, and its own instead of those of the same name.
  for (const std::string& from : {parent + "/", folder})
    for (const EmbeddedFile& file : embedded_files())
      if (file.path.starts_with(from))
        if (const std::string_view rest = file.path.substr(from.size()); rest.find('/') == rest.npos)
          files[std::string(rest)] = file.bytes;
  const bool is_there = std::ranges::any_of(embedded_files(), [&](const EmbeddedFile& file) {
    return file.path == folder + std::string(io::kConfigFile);
  });
  if (!is_there) return {};
  return ModelFiles::in_memory(std::move(files), std::string(name));
}

}  // namespace bertie::hub

namespace bertie {

std::vector<std::string> embedded_models() {
  std::vector<std::string> names;
  const std::string config = "/" + std::string(io::kConfigFile);
  for (const hub::EmbeddedFile& file : hub::embedded_files())
    if (file.path.ends_with(config))
      names.emplace_back(file.path.substr(0, file.path.size() - config.size()));
  std::ranges::sort(names);
  return names;
}

}  // namespace bertie
