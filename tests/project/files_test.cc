// Habits that a machine can check.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "support/data.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;

// A command's output, stderr included, and whether it succeeded.
std::pair<bool, std::string> shell(const std::string& command) {
  std::string output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return {false, "popen failed"};
  std::array<char, 4096> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) output.append(buffer.data(), n);
  return {pclose(pipe) == 0, output};
}

TEST(PublicHeaders, CompileAloneAndWithoutWarnings) {
  const fs::path include = test::source_dir() / "include";
  size_t headers = 0;
  for (const auto& entry : fs::directory_iterator(include / "bertie")) {
    const auto [ok, output] =
        shell(std::string(BERTIE_CXX) + " -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion " +
              "-Werror -fsyntax-only -x c++ -include '" + entry.path().string() + "' -I '" +
              include.string() + "' /dev/null");
    EXPECT_TRUE(ok) << entry.path().filename() << "\n" << output;
    ++headers;
  }
  EXPECT_GE(headers, 9u);
}

TEST(PublicHeaders, ThatMissAnIncludeWouldBeSeen) {
  const auto [ok, output] =
      shell("echo 'std::string s;' | " + std::string(BERTIE_CXX) + " -std=c++20 -fsyntax-only -x c++ -");
  EXPECT_FALSE(ok) << "the compiler accepts anything";
}

TEST(Library, NeedsNeitherOneDnnNorOpenMp) {
  if (!BERTIE_SHARED) GTEST_SKIP() << "BUILD_SHARED_LIBS is OFF";
  const fs::path library = fs::path(BERTIE_BINARY_DIR) / "libbertie.so";
  ASSERT_TRUE(fs::exists(library)) << library << " is not built";
  const auto [ok, needed] = shell("objdump -p '" + library.string() + "'");
  ASSERT_TRUE(ok) << needed;
  EXPECT_NE(needed.find("libstdc++"), std::string::npos) << "this is not what a library needs";
  for (const char* name :
       {"libdnnl", "libgomp", "libomp", "libtbb", "libmkl", "libopenblas", "libpython", "libcurl", "libmpi"})
    EXPECT_EQ(needed.find(name), std::string::npos) << name;
}

TEST(Library, ExportsItsOwnNamesOnly) {
  if (!BERTIE_SHARED) GTEST_SKIP() << "BUILD_SHARED_LIBS is OFF";
  const fs::path library = fs::path(BERTIE_BINARY_DIR) / "libbertie.so";
  ASSERT_TRUE(fs::exists(library)) << library << " is not built";
  const auto [ok, symbols] = shell("nm -D --defined-only -C '" + library.string() + "'");
  ASSERT_TRUE(ok) << symbols;
  EXPECT_NE(symbols.find("bertie::attention("), std::string::npos);
  for (const char* inside :
       {"bertie::kernels::", "bertie::io::", "bertie::dot_product::", "bertie::Arena", "bertie::Team"})
    EXPECT_EQ(symbols.find(inside), std::string::npos) << inside;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Readme, ShowsAProgramThatIsCompiledAndRun) {
  const std::string page = text_of(test::source_dir() / "README.md"), open = "```cpp\n";
  const size_t begin = page.find(open) + open.size(), end = page.find("```", begin);
  const std::string example = text_of(test::source_dir() / "examples/hello.cc");
  const size_t code = example.find("#include");
  ASSERT_NE(code, example.npos);
  EXPECT_EQ(page.substr(begin, end - begin), example.substr(code));
}

size_t lines_of(const fs::path& file) {
  std::ifstream in(file);
  size_t lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  return lines;
}

TEST(Files, OfTheLibraryAreChaptersNotBooks) {
  for (const char* folder : {"src", "include"})
    for (const auto& entry : fs::recursive_directory_iterator(test::source_dir() / folder)) {
      const fs::path& file = entry.path();
      if (!entry.is_regular_file() || file.generic_string().ends_with("text/unicode/tables.cc")) continue;
      EXPECT_LE(lines_of(file), 650u) << file;
    }
}

TEST(Examples, FitOnAScreen) {
  size_t examples = 0;
  for (const auto& entry : fs::directory_iterator(test::source_dir() / "examples")) {
    if (entry.path().extension() != ".cc") continue;
    EXPECT_LT(lines_of(entry.path()), 40u) << entry.path().filename();
    ++examples;
  }
  EXPECT_GE(examples, 4u);
}

}  // namespace
}  // namespace bertie
