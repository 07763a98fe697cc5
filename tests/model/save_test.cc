// A model that is saved, loaded and saved again is the same, byte for byte; and it computes the same.
#include <gtest/gtest.h>

#include "bertie/error.h"
#include "bertie/model.h"
#include "io/file.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/tensors.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& file) { return std::string(io::MappedFile(file).text()); }

std::vector<std::string> family_models() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(test::source_dir() / "tests/golden/families"))
    if (const std::string name = entry.path().filename().string(); !name.starts_with("marian"))
      names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<float> last_hidden(const Model& model) {
  const std::vector<int32_t> ids{3, 5, 8, 2, 9}, offsets{0, 2, 5};
  bertie::Run run(model, 1);
  const Matrix<const float> x = run.forward({.ids = ids, .offsets = offsets}).last_hidden;
  return {x.data(), x.data() + x.rows() * x.cols()};
}

class Save : public testing::TestWithParam<std::string> {};

TEST_P(Save, ThenLoadThenSaveGivesTheSameBytes) {
  const Model model = Model::load(test::source_dir() / "tests/golden/families" / GetParam());
  for (Precision precision : {Precision::kFloat32, Precision::kFloat16, Precision::kBFloat16}) {
    const test::TempFolder first, second;
    model.save(first.path(), precision);
    const Model again = Model::load(first.path());
    again.save(second.path() / "made", precision);
    for (const char* file : {"config.json", "model.safetensors"})
      EXPECT_EQ(bytes_of(first.path() / file), bytes_of(second.path() / "made" / file)) << file;
    EXPECT_EQ(model.parameters(), again.parameters());
    for (Head head :
         {Head::kMaskedLm, Head::kNextSentence, Head::kClassify, Head::kTag, Head::kAnswer, Head::kCausalLm})
      EXPECT_EQ(model.has(head), again.has(head)) << int(head);
    EXPECT_EQ(model.config().labels, again.config().labels);
    if (precision == Precision::kFloat32) {
      EXPECT_EQ(last_hidden(model), last_hidden(again));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Save, testing::ValuesIn(family_models()), [](const auto& p) {
  std::string name = p.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// transformers says that a file lacks the head's bias, even where it computes with the decoder's own.
TEST(SaveUntied, WritesTheBiasUnderBothNames) {
  const test::TempFolder folder;
  Model::load(test::source_dir() / "tests/golden/families/bert-masked-lm-2").save(folder.path());
  const test::Expected saved(folder.path() / "model.safetensors");
  ASSERT_TRUE(saved.has("cls.predictions.bias"));
  EXPECT_EQ(saved.floats("cls.predictions.bias"), saved.floats("cls.predictions.decoder.bias"));
}

TEST(SaveRandom, KeepsHeadsAndNumbers) {
  for (const char* type : {"bert", "roberta", "xlm-roberta", "camembert", "distilbert", "albert", "gpt2"})
    for (const std::vector<Head>& heads :
         {std::vector<Head>{}, {Head::kMaskedLm}, {Head::kClassify}, {Head::kTag}, {Head::kAnswer}}) {
      if (std::string_view(type) == "gpt2" && heads == std::vector<Head>{Head::kMaskedLm}) continue;
      SCOPED_TRACE(type);
      const Config config{.model_type = type,
                          .layers = 2,
                          .hidden = 12,
                          .heads = 3,
                          .intermediate = 20,
                          .vocabulary = 30,
                          .positions = 20,
                          .types = 1,
                          .pad_id = 1,
                          .labels = {"A", "B", "C"},
                          .labels_first_pieces = heads == std::vector<Head>{Head::kTag}};
      const Model model = Model::random(config, 7, heads);
      const test::TempFolder folder;
      model.save(folder.path());
      const Model again = Model::load(folder.path());
      EXPECT_EQ(last_hidden(model), last_hidden(again));
      for (Head head : heads) EXPECT_TRUE(again.has(head));
      EXPECT_EQ(again.config().labels, config.labels);
      EXPECT_EQ(again.config().labels_first_pieces, config.labels_first_pieces);
    }
}

TEST(SaveErrors, NameTheFolder) {
  const Model model =
      Model::random({.layers = 1, .hidden = 4, .heads = 1, .intermediate = 4, .vocabulary = 5});
  const test::TempFolder folder;
  const fs::path file = folder.write("a-file", "text");
  test::expect_error("a-file", [&] { model.save(file / "model"); });
}

}  // namespace
}  // namespace bertie
