#pragma once
// The files of web/: the page behind `bertie serve`, and of `bertie attend --html`. CMake embeds them.
#include <span>
#include <string>
#include <string_view>

namespace bertie {

struct PageFile {
  std::string_view name;  // "app.js"
  std::string_view text;
};

// index.html first, then the style, the first picture, and the modules, each after those that it imports.
std::span<const PageFile> page_files();
std::string_view page_file(std::string_view name);  // empty where there is none

}  // namespace bertie
