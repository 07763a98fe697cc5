#include "explain/page.h"

namespace bertie {

std::string_view page_file(std::string_view name) {
  for (const PageFile& file : page_files())
    if (file.name == name) return file.text;
  return {};
}

}  // namespace bertie
