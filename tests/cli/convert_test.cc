// bertie convert, as its users run it.
#include <sys/resource.h>

#include "program.h"

using namespace bertie::test;

namespace {

const fs::path kGolden = source_dir() / "tests/golden/convert";

size_t entries(const fs::path& folder) {
  return size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(ConvertCommand, SaysWhatItDidAndTheResultRuns) {
  const TemporaryFolder folder;
  const ModelFolder model;
  const Result r = run({"convert", model.name(), folder / "new", "--dtype", "fp16"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with((folder / "new").string() + ": ")) << r.out;
  EXPECT_NE(r.out.find(" tensors, 0 renamed, "), std::string::npos) << r.out;
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(json::parse(run({"info", folder / "new", "--json"}).out)["stored"].size(), 1u);
  EXPECT_TRUE(json::parse(run({"info", folder / "new", "--json"}).out)["stored"].contains("F16"));
  EXPECT_EQ(run({"embed", "-m", folder / "new", "you"}).code, 0);
}

TEST(ConvertCommand, JsonSaysWhatWasLeftOut) {
  const TemporaryFolder folder;
  const Result r = run({"convert", kGolden / "bert/model.npz", folder / "new", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const json out = json::parse(r.out);
  EXPECT_EQ(out["renamed"], out["tensors"]);
  EXPECT_EQ(out["dropped"].size(), 3u);
  EXPECT_EQ(out["dropped"][0]["reason"], "the optimizer's");
  EXPECT_EQ(out["files"], json::parse(R"(["config.json","model.safetensors"])"));
}

TEST(ConvertCommand, WrongWordsAreUsageErrors) {
  const TemporaryFolder folder;
  EXPECT_EQ(run({"convert"}).code, 2);
  EXPECT_EQ(run({"convert", "x"}).code, 2);
  const Result r = run({"convert", kGolden / "bert/model.npz", folder / "new", "--dtype", "fp8"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("fp32, fp16, bf16"), std::string::npos) << r.err;
  EXPECT_EQ(entries(folder.path()), 0u);
}

TEST(ConvertCommand, APickleThatCallsSomethingIsRefusedByItsName) {
  const TemporaryFolder folder;
  const std::string file = (source_dir() / "tests/golden/torch/calls.bin").string();
  const Result r = run({"convert", file, folder / "new"});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("posix.system"), std::string::npos) << r.err;
}

TEST(ConvertCommand, ADiskWithoutRoomLeavesNothing) {
  const TemporaryFolder folder;
  const Result r = run_shell("ulimit -f 4; \"$BERTIE\" convert " + (kGolden / "bert/model.npz").string() +
                             " " + (folder / "new").string());
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("model.safetensors: File too large"), std::string::npos) << r.err;
  EXPECT_EQ(entries(folder.path()), 0u);
}

}  // namespace
