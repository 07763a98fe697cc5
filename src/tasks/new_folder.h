#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "bertie/files.h"

namespace bertie {

// A folder that gets its name when it is complete; until then, and if it never is, nothing of that name
// changes. With `force` a model's folder of that name is replaced, if all of it could have been written here.
class NewFolder {
 public:
  NewFolder(const std::filesystem::path& to, bool force);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return temporary_; }
  void write(const std::filesystem::path& name, std::string_view text) const;
  // The files of a model that are not its weights, which are in the folder `below`, nor called `but`.
  void take_others(const ModelFiles& from, const std::string& below, std::string_view but = "") const;
  void commit();

 private:
  void check_replaceable() const;
  [[noreturn]] void fail(int error) const;
  std::filesystem::path to_, temporary_;
  bool replaces_ = false;
};

}  // namespace bertie
