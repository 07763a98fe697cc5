#pragma once
// What a ModelFiles reads from. Folders and memory are sources (model_files.cc); an archive, or a checkpoint
// whose format holds several files in one, would be another.
#include "bertie/files.h"

namespace bertie {

// Constant; any number of threads may read. Names are relative and have / between folders.
class ModelFiles::Source {
 public:
  virtual ~Source() = default;
  virtual std::string name_of(std::string_view file) const = 0;  // what errors call it; "" is the whole
  virtual bool exists() const = 0;
  virtual bool has(std::string_view file) const = 0;
  virtual FileBytes read(std::string_view file) const = 0;  // throws Error
  virtual std::vector<std::string> list() const = 0;        // sorted
  virtual std::optional<std::filesystem::path> folder() const { return {}; }
};

}  // namespace bertie
