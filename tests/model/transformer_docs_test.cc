// The page about the Transformer shows code: the example that is compiled and run has every line of it.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "support/data.h"

namespace bertie {
namespace {

std::string text_of(const std::string& name) {
  std::ifstream in(test::source_dir() / name);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string without_spaces(const std::string& text) {
  std::string out;
  for (char c : text)
    if (c != ' ' && c != '\n') out += c;
  return out;
}

TEST(TransformerDocs, ShowWhatTheExampleDoes) {
  const std::string page = text_of("docs/transformer.md");
  const std::string example = without_spaces(text_of("examples/translate.cc"));
  const std::string open = "```cpp\n";
  const size_t begin = page.find(open), end = page.find("```", begin + open.size());
  ASSERT_NE(begin, page.npos);
  std::istringstream lines(page.substr(begin + open.size(), end - begin - open.size()));
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_NE(example.find(without_spaces(line)), example.npos) << line;
  EXPECT_GT(count, 10u);
}

}  // namespace
}  // namespace bertie
