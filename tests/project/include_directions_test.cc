#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "project/include_rules.h"
#include "support/data.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;
using test::wrong_includes;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_source(const fs::path& file) { return file.extension() == ".h" || file.extension() == ".cc"; }

TEST(IncludeRules, SeeAPlantedViolation) {
  EXPECT_EQ(wrong_includes("core", "#include \"kernels/gemm.h\"\n").size(), 1u);
  EXPECT_EQ(
      wrong_includes("kernels", "int x;\n#include <vector>\n  #  include \"attention/scaled_dot_product.h\"")
          .size(),
      1u);
  EXPECT_EQ(wrong_includes("io", "#include \"text/unicode/unicode.h\"\n").size(), 1u);
  EXPECT_EQ(wrong_includes("text", "#include \"kernels/gemm.h\"\n#include \"model/weights.h\"\n").size(), 2u);
  EXPECT_EQ(wrong_includes("model", "#include \"tasks/modules.h\"\n").size(), 1u);
  EXPECT_EQ(wrong_includes("tasks", "#include \"cli/options.h\"\n").size(), 1u);
  EXPECT_EQ(wrong_includes("explain", "#include \"cli/options.h\"\n").size(), 1u);
  EXPECT_EQ(wrong_includes("cli", "#include \"core/arena.h\"\n#include \"tasks/modules.h\"\n").size(), 2u);
  EXPECT_EQ(wrong_includes("io", "#include \"bertie/text_model.h\"\n").size(), 1u);
  EXPECT_EQ(wrong_includes("tasks", "#include \"bertie/train.h\"\n").size(), 1u);
  EXPECT_EQ(wrong_includes("core", "#include \"bertie/no_such.h\"\n").size(), 1u);
  EXPECT_EQ(wrong_includes("bertie", "#include \"core/arena.h\"\n").size(), 1u);
  EXPECT_EQ(wrong_includes("bertie", "#include <fmt/format.h>\n").size(), 1u);
  EXPECT_EQ(wrong_includes("core", "#include \"bertie/../kernels/gemm.h\"\n").size(), 1u);
  EXPECT_EQ(wrong_includes("core", "#include <kernels/gemm.h>\n").size(), 1u);
  EXPECT_EQ(wrong_includes("core", "#include \"gemm.h\"\n").size(), 1u);
  EXPECT_EQ(wrong_includes("attic", "").size(), 1u) << "a new room needs a rule";
}

TEST(IncludeRules, LetGoodIncludesPass) {
  EXPECT_TRUE(
      wrong_includes("model",
                     "#include <vector>\n#include <fmt/format.h>\n#include \"bertie/model.h\"\n"
                     "#include \"model/weights.h\"\n#include \"io/json.h\"\n#include \"core/arena.h\"\n")
          .empty());
  EXPECT_TRUE(
      wrong_includes("core", "// #include \"kernels/gemm.h\"\nconst char* s = \"#include\";\n").empty());
  EXPECT_TRUE(wrong_includes("cli", "#include \"bertie/train.h\"\n#include \"cli/options.h\"\n").empty());
  EXPECT_TRUE(wrong_includes("train", "#include \"bertie/text_model.h\"\n").empty());
  EXPECT_TRUE(wrong_includes("bertie", "#include <string>\n#include \"bertie/view.h\"\n").empty());
}

TEST(Includes, GoDownOnly) {
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_dir() / "src")) {
    if (!entry.is_regular_file() || !is_source(entry.path())) continue;
    const auto relative = fs::relative(entry.path(), test::source_dir() / "src");
    for (const auto& problem : wrong_includes(relative.begin()->string(), text_of(entry.path())))
      ADD_FAILURE() << relative << ": " << problem;
    ++files;
  }
  EXPECT_GT(files, 40u) << "the sources were not found";
}

TEST(Includes, OfPublicHeadersArePublic) {
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(test::source_dir() / "include/bertie")) {
    for (const auto& problem : wrong_includes("bertie", text_of(entry.path())))
      ADD_FAILURE() << entry.path().filename() << ": " << problem;
    ++files;
  }
  EXPECT_GE(files, 9u);
}

TEST(Includes, EveryPublicHeaderHasARoom) {
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(test::source_dir() / "include/bertie"))
    there.insert(entry.path().filename().string());
  for (const auto& [header, room] : test::kRoomOfPublicHeader) {
    EXPECT_TRUE(there.erase(header)) << header << " is gone";
    EXPECT_TRUE(room == "client" || test::kMayInclude.contains(room)) << room;
  }
  for (const std::string& header : there) ADD_FAILURE() << header << " has no room";
}

TEST(Includes, InBertieHAreAllThePublicHeaders) {
  const std::string all = text_of(test::source_dir() / "include/bertie/bertie.h");
  for (const auto& entry : fs::directory_iterator(test::source_dir() / "include/bertie")) {
    const std::string name = entry.path().filename().string();
    // What attention means, as loops, is for readers and tests: included by name.
    if (name == "bertie.h" || name == "export.h" || name.starts_with("attention_reference")) continue;
    EXPECT_NE(all.find("\"bertie/" + name + "\""), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace bertie
