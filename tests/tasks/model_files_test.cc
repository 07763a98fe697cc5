// A model's files: from a folder, by name, or from memory, the same bits.
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "bertie/files.h"
#include "bertie/hub.h"
#include "bertie/info.h"
#include "bertie/json.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "tasks/golden_tasks.h"
#include "tasks/made_up_model.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

// All files below a folder, read.
class InMemory {
 public:
  explicit InMemory(const fs::path& folder) {
    for (const std::string& name : ModelFiles(folder).list()) {
      std::ifstream in(folder / name, std::ios::binary);
      contents_[name] = {std::istreambuf_iterator<char>(in), {}};
    }
  }
  ModelFiles files() const {
    std::map<std::string, std::span<const std::byte>, std::less<>> spans;
    for (const auto& [name, content] : contents_) spans[name] = std::as_bytes(std::span(content));
    return ModelFiles::in_memory(std::move(spans));
  }
  std::map<std::string, std::string> contents_;
};

void expect_same(const TextModel& a, const TextModel& b) {
  const std::string text = "Anna came to the old harbour in 1912.";
  EXPECT_EQ(to_json(a.attend(text)), to_json(b.attend(text)));
  EXPECT_EQ(to_json(a.embed(text)), to_json(b.embed(text)));
  EXPECT_EQ(a.max_length(), b.max_length());
  EXPECT_EQ(a.model().parameters(), b.model().parameters());
}

TEST(ModelFiles, InMemoryGiveTheSameBitsAsTheFolder) {
  for (const std::string& name : test::golden_tasks()) {
    SCOPED_TRACE(name);
    const fs::path folder = test::golden_task(name);
    const InMemory memory(folder);
    expect_same(load(folder, {.threads = 1}), load(memory.files(), {.threads = 1}));
    EXPECT_EQ(to_json(describe(folder)), to_json(describe(memory.files())));
  }
}

TEST(ModelFiles, InMemoryMayHaveModulesInFoldersBelow) {
  test::MadeUpModel model;
  model.modules({{"Pooling", "1_Pooling"}, {"Dense", "2_Dense"}, {"Normalize", "3_Normalize"}});
  model.pooling(R"("pooling_mode":"cls")");
  model.dense("2_Dense", 64, test::random_floats(5 * 64, 1), test::random_floats(5, 2), "torch.nn.Tanh");
  model.write("sentence_bert_config.json", R"({"max_seq_length": 9})");
  const InMemory memory(model.path());
  const TextModel loaded = load(memory.files(), {.threads = 1});
  expect_same(model.load(), loaded);
  EXPECT_EQ(loaded.dimension(), 5u);
  EXPECT_EQ(loaded.max_length(), 9u);
}

TEST(ModelFiles, InMemoryAreNotCopied) {
  const InMemory memory(test::golden_task("fill-mask-bert"));
  const ModelFiles files = memory.files();
  const std::string& weights = memory.contents_.at("model.safetensors");
  EXPECT_EQ(static_cast<const void*>(files.read("model.safetensors").bytes.data()), weights.data());
}

TEST(ModelFiles, SayWhatIsMissing) {
  InMemory memory(test::golden_task("fill-mask-bert"));
  memory.contents_.erase("config.json");
  expect_error("cannot read memory/config.json", [&] { load(memory.files()); });
  expect_error("no model at /no/such/folder", [] { load(fs::path("/no/such/folder")); });
  EXPECT_FALSE(ModelFiles(fs::path("/no/such/folder")).exists());
  EXPECT_TRUE(ModelFiles(fs::path("/no/such/folder")).list().empty());
}

TEST(ModelFiles, OfAFileAreThatFile) {
  const fs::path folder = test::golden_task("fill-mask-bert");
  EXPECT_EQ(Config::load(folder / "config.json").layers, Config::load(folder).layers);
  EXPECT_EQ(ModelFiles(folder / "config.json").only(), "config.json");
  EXPECT_EQ(ModelFiles(folder).only(), "");
}

// The cache of huggingface_hub, made by hand.
class Named : public testing::Test {
 protected:
  void SetUp() override { setenv("HF_HUB_CACHE", cache_.path().c_str(), 1); }
  void TearDown() override { unsetenv("HF_HUB_CACHE"); }
  void add(const std::string& repository) {
    const std::string commit(40, 'a');
    const fs::path folder = cache_.path() / repository;
    fs::create_directories(folder / "refs");
    fs::create_directories(folder / "snapshots");
    fs::copy(test::golden_task("fill-mask-bert"), folder / "snapshots" / commit);
    std::ofstream(folder / "refs/main") << commit;
  }
  test::TempFolder cache_;
};

TEST_F(Named, ModelsAreFoundWithTheirOrganizationOrWithoutIt) {
  add("models--sentence-transformers--small-model");
  const TextModel expected = load(test::golden_task("fill-mask-bert"));
  for (const char* name : {"sentence-transformers/small-model", "small-model", "small-model@main"})
    expect_same(load(name), expected);
  EXPECT_EQ(Model::load("small-model").parameters(), expected.model().parameters());
  EXPECT_EQ(Config::load(std::string("small-model")).layers, expected.model().config().layers);
  EXPECT_EQ(Tokenizer::load("small-model").vocab_size(), expected.tokenizer().vocab_size());
}

TEST_F(Named, ModelsThatAreNotThereOrAmbiguousAreErrorsWithAWayOut) {
  const auto hint_of = [](const char* name) -> std::string {
    try {
      load(name);
    } catch (const Error& error) {
      return error.hint();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(hint_of("small-model"), "`pull` small-model, or give a folder");
  add("models--one--small-model");
  EXPECT_EQ(hint_of("smal-model"), "one/small-model, which is here; or `pull` smal-model");
  add("models--other--small-model");
  expect_error("there are 2 models small-model", [] { load("small-model"); });
  EXPECT_NO_THROW(load("one/small-model"));
}

TEST(Load, WarnsOfTensorsThatTheModelHasNoUseForOrRefusesThem) {
  test::MadeUpModel model;
  std::string file;
  {
    std::ifstream in(model.path() / "model.safetensors", std::ios::binary);
    file.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (const char* part : {"weight", "bias"}) {
    const std::string old = std::string("bert.pooler.dense.") + part;
    file.replace(file.find(old), old.size(), std::string("bert.pooler.extra.") + part);
  }
  model.write("model.safetensors", file);
  std::vector<std::string> warnings;
  const TextModel loaded =
      load(model.path(), {.threads = 1, .warning = [&](std::string_view w) { warnings.emplace_back(w); }});
  EXPECT_EQ(loaded.embed("a b").values.size(), 64u);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("\"bert.pooler.extra.weight\""), std::string::npos) << warnings[0];
  EXPECT_NO_THROW(load(model.path()));
  expect_error("belongs to nothing", [&] { load(model.path(), {.strict = true}); });
  EXPECT_EQ(describe(model.path()).warnings, warnings);
}

// What a head does needs no pooling; what is wrong with modules.json is said when a vector is wanted.
TEST(Load, AModelWithAHeadDoesItsTaskWhateverItsModulesAre) {
  test::TempFolder folder;
  fs::copy(test::golden_task("fill-mask-bert"), folder.path() / "model", fs::copy_options::recursive);
  std::ofstream(folder.path() / "model/modules.json")
      << R"([{"type":"sentence_transformers.models.Transformer","path":""},)"
      << R"({"type":"sentence_transformers.sparse_encoder.models.SpladePooling","path":"1"}])";
  const TextModel model = load(folder.path() / "model", {.threads = 1});
  EXPECT_EQ(model.fill_mask("The [MASK].").masks.size(), 1u);
  expect_error("SpladePooling", [&] { model.embed("text"); });
  expect_error("SpladePooling", [&] { load(folder.path() / "model", {.strict = true}); });
}

}  // namespace
}  // namespace bertie
