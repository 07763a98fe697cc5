#pragma once
// A library that is opened when it is first needed, so that programs start as if it were not there. It stays
// open.
#include <dlfcn.h>
#include <fmt/format.h>

#include <initializer_list>
#include <type_traits>

#include "bertie/error.h"

namespace bertie::io {

class SharedLibrary {
 public:
  // The first of the files that opens. Error says what for it is needed, and Debian's package.
  SharedLibrary(const char* purpose, const char* package, std::initializer_list<const char*> files)
      : file_(*files.begin()) {
    for (const char* file : files)
      if (!library_) library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library_)
      throw Error(fmt::format("{} needs {}, which is not here", purpose, file_),
                  fmt::format("sudo apt-get install {}", package));
  }

  template <class Function>
  void get(Function& function, const char* name) const {
    function = reinterpret_cast<std::remove_reference_t<Function>>(dlsym(library_, name));
    if (!function) throw Error(fmt::format("this {} has no {}: it is too old", file_, name));
  }

 private:
  const char* file_;
  void* library_ = nullptr;
};

}  // namespace bertie::io
