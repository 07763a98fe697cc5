#pragma once
// Real weights, vocabularies and texts, where they are: $BERTIE_DATA, else ../shared/data beside the
// checkout. A test that needs one skips, saying so, where it is not.
#include <cstdlib>
#include <filesystem>
#include <string>

namespace bertie::test {

inline std::filesystem::path source_dir() { return BERTIE_SOURCE_DIR; }

inline std::filesystem::path data(const std::string& relative) {
  const char* root = std::getenv("BERTIE_DATA");
  return (root ? std::filesystem::path(root) : source_dir() / "../shared/data") / relative;
}

}  // namespace bertie::test

#define BERTIE_NEEDS(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << (path) << " is not here"
