// A ModelFiles from what somebody typed: a path, or a model's name.
#include "bertie/files.h"
#include "bertie/hub.h"

namespace bertie {
namespace {

std::filesystem::path resolve(const std::string& path_or_name) {
  std::error_code error;
  if (std::filesystem::exists(path_or_name, error)) return path_or_name;
  return find_model(path_or_name);
}

}  // namespace

ModelFiles::ModelFiles(const std::string& path_or_name) : ModelFiles(resolve(path_or_name)) {}
ModelFiles::ModelFiles(const char* path_or_name) : ModelFiles(std::string(path_or_name)) {}

}  // namespace bertie
