// Models that are part of the program: which there are, and what each is made of.
#include "hub/embedded.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/temp_folder.h"

namespace bertie::hub {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

const std::vector<EmbeddedFile>& files() {
  static const std::vector<EmbeddedFile> all{
      {"mini/config.json", bytes("base")},          {"mini/model.safetensors", bytes("weights")},
      {"mini/vocab.txt", bytes("words")},           {"mini/mood/config.json", bytes("head")},
      {"mini/mood/head.safetensors", bytes("few")}, {"minimal/config.json", bytes("other")}};
  return all;
}

TEST(Embedded, AModelIsAFolderWithAConfig) {
  EXPECT_EQ(embedded_names(files()), (std::vector<std::string>{"mini", "mini/mood", "minimal"}));
  for (const char* none : {"", "min", "mini/", "mood", "mini/mood/config.json", "mini/none"})
    EXPECT_FALSE(embedded_model(none, files())) << none;
}

TEST(Embedded, AModelHasItsOwnFolderAlone) {
  const auto mini = embedded_model("mini", files());
  ASSERT_TRUE(mini);
  EXPECT_EQ(mini->name(), "mini");
  EXPECT_FALSE(mini->folder());
  EXPECT_EQ(mini->list(), (std::vector<std::string>{"config.json", "model.safetensors", "vocab.txt"}));
  EXPECT_EQ(mini->read("config.json").text(), "base");
  EXPECT_EQ(embedded_model("minimal", files())->list(), std::vector<std::string>{"config.json"});
}

TEST(Embedded, AFolderOfItsNameDoesNotHideIt) {
  const test::TempFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::filesystem::create_directory("bertie-mini");
  EXPECT_FALSE(ModelFiles("bertie-mini").folder());
  EXPECT_TRUE(ModelFiles("bertie-mini").is_model());
  EXPECT_TRUE(ModelFiles("./bertie-mini").folder());
  std::filesystem::current_path(before);
}

TEST(Embedded, AHeadSharesWhatItDoesNotHave) {
  const auto mood = embedded_model("mini/mood", files());
  ASSERT_TRUE(mood);
  EXPECT_EQ(mood->list(),
            (std::vector<std::string>{"base.safetensors", "config.json", "head.safetensors", "vocab.txt"}));
  EXPECT_EQ(mood->read("config.json").text(), "head");
  EXPECT_EQ(mood->read("base.safetensors").text(), "weights");
}

}  // namespace
}  // namespace bertie::hub
