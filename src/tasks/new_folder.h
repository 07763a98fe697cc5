#pragma once
#include <filesystem>

namespace bertie {

// A folder that gets its name when it is complete; until then, and if it never is, nothing of that name
// changes. With `force` a model's folder of that name is replaced, if all of it could have been written here.
class NewFolder {
 public:
  NewFolder(const std::filesystem::path& to, bool force);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  void check_replaceable() const;
  [[noreturn]] void fail(int error) const;
  std::filesystem::path to_, temporary_;
  bool replaces_ = false;
};

}  // namespace bertie
