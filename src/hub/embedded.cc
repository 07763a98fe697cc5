#include "hub/embedded.h"

#include <algorithm>
#include <map>
#include <string>

#include "bertie/hub.h"
#include "io/model_file_names.h"

namespace bertie {
namespace {

// The file's name, where it is one of this folder itself.
std::string_view name_in(std::string_view folder, const hub::EmbeddedFile& file) {
  if (!file.path.starts_with(folder) || file.path.size() <= folder.size() || file.path[folder.size()] != '/')
    return {};
  const std::string_view rest = file.path.substr(folder.size() + 1);
  return rest.find('/') == rest.npos ? rest : std::string_view();
}

}  // namespace

std::vector<std::string> embedded_models() { return hub::embedded_names(hub::embedded_files()); }

std::vector<std::string> hub::embedded_names(std::span<const EmbeddedFile> all) {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : all)
    if (const size_t end = file.path.rfind('/'); file.path.substr(end + 1) == io::kConfigFile)
      names.emplace_back(file.path.substr(0, end));
  std::ranges::sort(names);
  return names;
}

std::optional<ModelFiles> hub::embedded_model(std::string_view name, std::span<const EmbeddedFile> all) {
  const std::vector<std::string> names = embedded_names(all);
  if (std::ranges::find(names, name) == names.end()) return {};
  std::map<std::string, std::span<const std::byte>, std::less<>> files;
  const size_t slash = name.find('/');
  for (const EmbeddedFile& file : all) {
    if (slash == name.npos) break;
    const std::string_view shared = name_in(name.substr(0, slash), file);
    if (!shared.empty())
      files[std::string(shared == io::kWeightsFile ? "base.safetensors" : shared)] = file.bytes;
  }
  for (const EmbeddedFile& file : all)
    if (const std::string_view own = name_in(name, file); !own.empty()) files[std::string(own)] = file.bytes;
  return ModelFiles::in_memory(std::move(files), std::string(name));
}

}  // namespace bertie
