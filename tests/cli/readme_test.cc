// README.md shows what the program prints with the model that it brings.
#include <gtest/gtest.h>

#include "cli/program.h"

namespace bertie::test {
namespace {

TEST(Readme, ShowsWhatTheProgramPrints) {
  const std::string page = read_all(source_dir() / "README.md"), fence = "```console\n", prompt = "$ bertie ";
  size_t commands = 0;
  for (size_t begin = 0; (begin = page.find(fence, begin)) != page.npos;) {
    begin += fence.size();
    const std::string block = page.substr(begin, page.find("```", begin) - begin);
    begin = page.find("```", begin) + 3;
    for (size_t at = block.find(prompt); at != block.npos; ++commands) {
      const size_t line = block.find('\n', at), next = block.find(prompt, line);
      std::string shown = block.substr(line + 1, next == block.npos ? next : next - line - 1);
      shown.erase(shown.find_last_not_of('\n') + 2);  // an empty line between commands
      const std::string command = block.substr(at + prompt.size(), line - at - prompt.size());
      const Result r = run_shell("\"$BERTIE\" " + command);
      EXPECT_EQ(r.code, 0) << command << "\n" << r.err;
      EXPECT_EQ(r.out, shown) << command;
      at = next;
    }
  }
  EXPECT_GE(commands, 5u);
}

}  // namespace
}  // namespace bertie::test
