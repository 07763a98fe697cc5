// Names, the environment, and what is found in a cache: also in one that is broken.
#include "hub/cache.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "bertie/error.h"
#include "io/model_contents.h"
#include "support/expect_error.h"
#include "support/safetensors_file.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;

const std::string kCommitA(40, 'a'), kCommitB = "ab" + std::string(38, 'b');

// Sets variables, and puts back what was there.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& wanted) {
    for (const char* name :
         {"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN",
          "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "XDG_CACHE_HOME", "HOME",
          "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_HUB_DOWNLOAD_TIMEOUT"}) {
      if (const char* value = getenv(name)) before_[name] = value;
      names_.push_back(name);
      unsetenv(name);
    }
    setenv("HOME", "/home/me", 1);
    for (const auto& [name, value] : wanted) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const char* name : names_) unsetenv(name);
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }
  Variables(const Variables&) = delete;

 private:
  std::vector<const char*> names_;
  std::map<std::string, std::string> before_;
};

TEST(HubEnvironment, TheCacheIsWherePythonHasIt) {
  const auto cache = [](const std::map<std::string, std::string>& variables) {
    const Variables set(variables);
    return Hub::from_environment().cache.string();
  };
  EXPECT_EQ(cache({}), "/home/me/.cache/huggingface/hub");
  EXPECT_EQ(cache({{"XDG_CACHE_HOME", "/caches"}}), "/caches/huggingface/hub");
  EXPECT_EQ(cache({{"HF_HOME", "/hf"}, {"XDG_CACHE_HOME", "/caches"}}), "/hf/hub");
  EXPECT_EQ(cache({{"HF_HOME", "~/hf"}}), "/home/me/hf/hub");
  EXPECT_EQ(cache({{"HF_HOME", "$HOME/${HOME}x$NOT_SET_ANYWHERE"}}),
            "/home/me//home/mex$NOT_SET_ANYWHERE/hub");
  EXPECT_EQ(cache({{"HF_HUB_CACHE", "/models"}, {"HF_HOME", "/hf"}}), "/models");
  EXPECT_EQ(cache({{"HUGGINGFACE_HUB_CACHE", "/models"}}), "/models");
}

TEST(HubEnvironment, EndpointTokenAndOffline) {
  const test::TempFolder folder;
  folder.write("token", "  hf_file \r\n");
  {
    const Variables set({{"HF_HOME", folder.path()}});
    const Hub hub = Hub::from_environment();
    EXPECT_EQ(hub.endpoint, "https://huggingface.co");
    EXPECT_EQ(hub.token, "hf_file");
    EXPECT_FALSE(hub.offline);
    EXPECT_EQ(hub.timeout, 10);
  }
  {
    const Variables set({{"HF_HOME", folder.path()},
                         {"HF_TOKEN", "hf_variable\n"},
                         {"HF_ENDPOINT", "http://mirror/"},
                         {"HF_HUB_OFFLINE", "yes"},
                         {"HF_HUB_DOWNLOAD_TIMEOUT", "3"}});
    const Hub hub = Hub::from_environment();
    EXPECT_EQ(hub.endpoint, "http://mirror");
    EXPECT_EQ(hub.token, "hf_variable");
    EXPECT_TRUE(hub.offline);
    EXPECT_EQ(hub.timeout, 3);
  }
  const Variables set(
      {{"HF_HOME", folder.path()}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}, {"HF_HUB_OFFLINE", "0"}});
  EXPECT_EQ(Hub::from_environment().token, "");
  EXPECT_FALSE(Hub::from_environment().offline);
}

TEST(HubNames, AreThoseOfTheHub) {
  for (const char* good :
       {"bert-base-uncased", "google-bert/bert-base-uncased", "a/b_c.d-1", "a/b@v1.0", "a/b@refs/pr/1"})
    EXPECT_TRUE(hub::parse_model_name(good)) << good;
  EXPECT_EQ(hub::parse_model_name("a/b@refs/pr/1")->revision, "refs/pr/1");
  EXPECT_EQ(hub::parse_model_name("a/b@refs/pr/1")->repository, "a/b");
  EXPECT_EQ(hub::parse_model_name("a/b")->revision, "main");
  for (const char* bad :
       {"", "/", "a/", "/a", "a/b/c", "..", "a/..", "a--b/c", ".a", "a.", "a b", "a@", "a@/x", "a@../x"})
    EXPECT_FALSE(hub::parse_model_name(bad)) << bad;
}

// Whatever a server says, a path that is called safe stays below where it is put.
TEST(HubNames, SafePathsStayInside) {
  const bool held = rc::check([] {
    const auto letters = rc::gen::container<std::string>(rc::gen::element('.', '/', '\\', 'a', '\n'));
    const std::string path = *letters;
    const std::string lexical = (fs::path("/base") / path).lexically_normal().string();
    if (io::is_safe_path(path))
      RC_ASSERT(lexical.starts_with("/base/"));
    else
      RC_SUCCEED("not safe");
  });
  EXPECT_TRUE(held);
  EXPECT_TRUE(io::is_safe_path("1_Pooling/config.json"));
  EXPECT_TRUE(io::is_safe_path("..a/b.."));
  EXPECT_FALSE(io::is_safe_path(std::string(513, 'a')));
}

class HubCache : public testing::Test {
 protected:
  HubCache() { hub_.cache = folder_.path(); }
  void add(const std::string& repository, const std::string& commit, const std::string& file,
           const std::string& bytes) const {
    const fs::path path = hub::repository_folder(hub_, repository) / "snapshots" / commit / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << bytes;
  }
  void ref(const std::string& repository, const std::string& name, const std::string& commit) const {
    const fs::path path = hub::repository_folder(hub_, repository) / "refs" / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << commit;
  }
  fs::path snapshot(const std::string& repository, const std::string& commit) const {
    return hub::repository_folder(hub_, repository) / "snapshots" / commit;
  }
  void expect_not_found(const std::string& name, const std::string& what, const std::string& hint) const {
    try {
      FAIL() << find_model(name, hub_);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
      EXPECT_NE(error.hint().find(hint), std::string::npos) << error.hint();
    }
  }
  test::TempFolder folder_;
  Hub hub_;
};

TEST_F(HubCache, AFolderIsItselfAndANameItsSnapshot) {
  add("org/model", kCommitA, "config.json", "{}");
  add("org/model", kCommitB, "config.json", "{}");
  ref("org/model", "main", kCommitA);
  ref("org/model", "refs/pr/7", kCommitB);
  EXPECT_EQ(find_model(folder_.path().string(), hub_), folder_.path());
  EXPECT_EQ(find_model("org/model", hub_), snapshot("org/model", kCommitA));
  EXPECT_EQ(find_model("model", hub_), snapshot("org/model", kCommitA));
  EXPECT_EQ(find_model("org/model@refs/pr/7", hub_), snapshot("org/model", kCommitB));
  EXPECT_EQ(find_model("org/model@" + kCommitB, hub_), snapshot("org/model", kCommitB));
  EXPECT_EQ(find_model("org/model@abbbbb", hub_), snapshot("org/model", kCommitB));
  expect_not_found("org/model@v2", "but not its revision \"v2\"", "`pull` org/model@v2");
  expect_not_found("org/model@ab", "but not its revision", "");  // too short to be sure
}

TEST_F(HubCache, WhatIsNotThereIsNamedWithWhatToDo) {
  expect_not_found("org/model", "neither a folder nor in " + folder_.path().string(), "`pull` org/model");
  add("org/model", kCommitA, "config.json", "{}");
  ref("org/model", "main", kCommitA);
  expect_not_found("org/modle", "\"org/modle\"", "org/model, which is here; or `pull` org/modle");
  expect_not_found("/no/such/folder", "no such folder", "config.json");
  expect_not_found("/etc/passwd", "it is not a folder", "config.json");
  add("other/model", kCommitA, "config.json", "{}");
  ref("other/model", "main", kCommitA);
  expect_not_found("model", "there are 2 models model", "org/model");
}

TEST_F(HubCache, ARefThatLeadsAstrayIsNotFollowed) {
  add("org/model", kCommitA, "config.json", "{}");
  for (const std::string& commit :
       {std::string("../../.."), std::string(""), std::string("/etc"), kCommitB}) {
    ref("org/model", "main", commit);
    expect_not_found("org/model", "revision \"main\"", "`pull` org/model");
  }
}

TEST_F(HubCache, ListsWhatIsHereAndWhatIsMissing) {
  EXPECT_TRUE(cached_models({.cache = folder_.path() / "none"}).empty());
  add("org/whole", kCommitA, "config.json", R"({"model_type": "roberta"})");
  add("org/whole", kCommitA, "model.safetensors", test::file_of_bytes("12345"));
  ref("org/whole", "main", kCommitA);
  ref("org/whole", "v1", kCommitA);
  add("org/part", kCommitA, "config.json", "not JSON");
  add("pickle", kCommitA, "config.json", "{}");
  add("pickle", kCommitA, "pytorch_model.bin", "x");
  add("shards", kCommitA, "config.json", "{}");
  add("shards", kCommitA, "model.safetensors.index.json", R"({"weight_map": {"a": "one.safetensors"}})");
  fs::create_directories(folder_.path() / "models--begun/blobs");
  std::ofstream(folder_.path() / "models--begun/blobs/x.incomplete") << "123";
  fs::create_directories(folder_.path() / "datasets--org--data");
  std::map<std::string, CachedModel> models;
  for (const CachedModel& model : cached_models(hub_)) models[model.name] = model;
  EXPECT_EQ(models.size(), 5u);
  const CachedModel& whole = models["org/whole"];
  EXPECT_EQ(whole.problem, "");
  EXPECT_EQ(whole.model_type, "roberta");
  EXPECT_EQ(whole.bytes,
            std::string(R"({"model_type": "roberta"})").size() + test::file_of_bytes("12345").size());
  EXPECT_EQ(whole.refs, (std::vector<std::string>{"main", "v1"}));
  EXPECT_EQ(whole.path, snapshot("org/whole", kCommitA));
  EXPECT_NE(models["org/part"].problem.find("no weights"), std::string::npos) << models["org/part"].problem;
  EXPECT_EQ(models["pickle"].problem, "") << "weights that torch.save wrote";
  EXPECT_NE(models["shards"].problem.find("one.safetensors"), std::string::npos);
  EXPECT_EQ(models["begun"].problem, "the download has only begun");
  EXPECT_EQ(models["begun"].bytes, 3u);
}

// A model of these files; bytes are the view's.
ModelFiles in_memory(const std::map<std::string, std::string>& files) {
  std::map<std::string, std::span<const std::byte>, std::less<>> views;
  for (const auto& [name, text] : files) views[name] = std::as_bytes(std::span(text));
  return ModelFiles::in_memory(views, "org/x");
}

TEST(ModelContents, BrokenGuidesAreErrors) {
  std::map<std::string, std::string> files{{"config.json", ""},
                                           {"modules.json", "[{}]"},
                                           {"model.safetensors.index.json", R"({"weight_map": {}})"}};
  EXPECT_EQ(io::wanted_files(in_memory(files)).size(), 3u);
  for (const char* bad : {"{}", "[]", "[1]", "nonsense", R"([{"path": "../x"}])", R"([{"path": "/etc"}])",
                          R"([{"path": 7}])"}) {
    files["modules.json"] = bad;
    test::expect_error("org/x/modules.json", [&] { io::wanted_files(in_memory(files)); });
  }
  files["modules.json"] = "[{}]";
  for (const char* bad : {"[]", "{}", R"({"weight_map": 1})", R"({"weight_map": {"a": 1}})",
                          R"({"weight_map": {"a": "../x"}})", R"({"weight_map": {"a": "missing"}})"}) {
    files["model.safetensors.index.json"] = bad;
    test::expect_error("org/x/model.safetensors.index.json", [&] { io::wanted_files(in_memory(files)); });
  }
}

TEST(ModelContents, ModulesFoldersAreTheSameHoweverTheyAreWritten) {
  std::map<std::string, std::string> files{{"config.json", ""},
                                           {"model.safetensors", ""},
                                           {"modules.json", R"([{"path": "."}, {"path": "./1_Pooling/"}])"},
                                           {"1_Pooling/config.json", ""}};
  EXPECT_EQ(io::wanted_files(in_memory(files)),
            (std::vector<std::string>{"config.json", "modules.json", "model.safetensors",
                                      "1_Pooling/config.json"}));
  files["modules.json"] = R"([{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Dense"}])";
  files["2_Dense/config.json"] = files["2_Dense/tf_model.h5"] = "";
  test::expect_error("2_Dense/tf_model.h5", [&] { io::wanted_files(in_memory(files)); });
  files["2_Dense/pytorch_model.bin"] = "";
  EXPECT_EQ(io::wanted_files(in_memory(files)).back(), "2_Dense/pytorch_model.bin");
}

}  // namespace
}  // namespace bertie
