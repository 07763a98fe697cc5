// A ModelFiles from what somebody typed: a path, or a model's name.
#include "bertie/files.h"
#include "bertie/hub.h"
#include "hub/embedded.h"

namespace bertie {
namespace {

ModelFiles resolve(const std::string& path_or_name) {
  if (const std::optional<ModelFiles> embedded = hub::embedded_model(path_or_name)) return *embedded;
  std::error_code error;
  if (std::filesystem::exists(path_or_name, error)) return std::filesystem::path(path_or_name);
  return find_model(path_or_name);
}

}  // namespace

ModelFiles::ModelFiles(const std::string& path_or_name) : ModelFiles(resolve(path_or_name)) {}
ModelFiles::ModelFiles(const char* path_or_name) : ModelFiles(std::string(path_or_name)) {}

}  // namespace bertie
