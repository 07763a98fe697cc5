// Tokens that files beside a vocabulary add.
#include <gtest/gtest.h>

#include "bertie/error.h"
#include "bertie/tokenizer.h"
#include "io/file.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

class AddedTokens : public testing::Test {
 protected:
  AddedTokens() {
    const auto vocab = test::source_dir() / "tests/golden/tokenizer/vocab.txt";
    folder.write("vocab.txt", std::string(io::MappedFile(vocab).text()));
    first = int32_t(Tokenizer::load(vocab).vocab_size());
  }
  bool has(std::string_view text, int32_t id) const {
    const std::vector<int32_t> ids = Tokenizer::load(folder.path()).encode(text).ids;
    return std::count(ids.begin(), ids.end(), id) == 1;
  }
  test::TempFolder folder;
  int32_t first = 0;  // the id after the vocabulary's last
};

TEST_F(AddedTokens, OfAddedTokensJson) {
  EXPECT_FALSE(has("a [E1] b", first));
  folder.write("added_tokens.json", "{\"[E1]\": " + std::to_string(first) + "}");
  EXPECT_TRUE(has("a [E1] b", first));
}

TEST_F(AddedTokens, OfTheConfigsDecoder) {
  folder.write(
      "tokenizer_config.json",
      "{\"added_tokens_decoder\": {\"" + std::to_string(first) +
          "\": {\"content\": \"[ENT]\", \"lstrip\": false, \"rstrip\": false, \"single_word\": false, "
          "\"normalized\": false, \"special\": true}}}");
  EXPECT_TRUE(has("a [ENT] b", first));
  EXPECT_TRUE(Tokenizer::load(folder.path()).is_special(first));
}

TEST_F(AddedTokens, RefusesAnIdThatDoesNotFollow) {
  folder.write("added_tokens.json", "{\"[E1]\": " + std::to_string(first + 7) + "}");
  test::expect_error("[E1]", [&] { Tokenizer::load(folder.path()); });
}

TEST_F(AddedTokens, RefusesWhatIsNoList) {
  for (const char* text : {"[]", "3", "{\"a\": \"b\"}", "{\"a\": -1}", "{"}) {
    folder.write("added_tokens.json", text);
    EXPECT_THROW(Tokenizer::load(folder.path()), Error) << text;
  }
}

}  // namespace
}  // namespace bertie
