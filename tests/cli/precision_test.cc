// --precision: how a model's weights are held.
#include <cmath>

#include "program.h"
#include "support/temp_folder.h"

using namespace bertie::test;

namespace {

std::vector<double> vector_of(const ModelFolder& model, const std::string& precision) {
  const Result r =
      run({"embed", "-m", model.name(), "--json", "--precision", precision, "you found me by the river"});
  EXPECT_EQ(r.code, 0) << r.err;
  return json::parse(r.out)["vector"].get<std::vector<double>>();
}

TEST(Precision, OfBf16GivesNearlyTheSameVectors) {
  const ModelFolder model;
  const std::vector<double> exact = vector_of(model, "fp32"), rounded = vector_of(model, "bf16");
  double product = 0, a = 0, b = 0;
  for (size_t i = 0; i < exact.size(); ++i)
    product += exact[i] * rounded[i], a += exact[i] * exact[i], b += rounded[i] * rounded[i];
  EXPECT_GT(product / std::sqrt(a * b), 0.9999);
  EXPECT_NE(exact, rounded);
  EXPECT_EQ(vector_of(model, "bf16"), rounded);
}

TEST(Precision, OfBf16TakesLessMemory) {
  const ModelFolder model;
  const auto bytes = [&](const std::string& precision) {
    const Result r = run({"info", model.name(), "--json", "--precision", precision});
    EXPECT_EQ(r.code, 0) << r.err;
    return json::parse(r.out)["memory"]["weights_bytes"].get<size_t>();
  };
  EXPECT_LT(bytes("bf16"), bytes("fp32"));
}

// The folder that quantize writes is the model that --precision int8 makes, to the bit; what it cannot do, it says.
TEST(Quantize, WritesWhatPrecisionInt8MakesWhenItLoads) {
  const ModelFolder model;
  const TempFolder folder;
  const std::string to = (folder.path() / "int8").string();
  const Result made = run({"quantize", model.name(), to, "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  const json said = json::parse(made.out);
  EXPECT_GT(said["mean_cosine"].get<double>(), 0.99);
  EXPECT_GT(said["tokens"].get<size_t>(), 20u);
  const std::vector<double> at_load = vector_of(model, "int8");
  const Result r = run({"embed", "-m", to, "--json", "you found me by the river"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out)["vector"].get<std::vector<double>>(), at_load);

  const Result explained = run({"explain", "-m", to, "you found me"});
  EXPECT_EQ(explained.code, 1);
  EXPECT_NE(explained.err.find("8-bit integers"), std::string::npos) << explained.err;
  const Result again = run({"quantize", to, (folder.path() / "twice").string()});
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("quantized already"), std::string::npos) << again.err;
  const Result there = run({"quantize", model.name(), to});
  EXPECT_EQ(there.code, 1);
  EXPECT_NE(there.err.find("--force"), std::string::npos) << there.err;
  EXPECT_EQ(run({"quantize", model.name(), to, "--force"}).code, 0);
  EXPECT_EQ(run({"quantize", model.name()}).code, 2);
  const json info = json::parse(run({"info", to, "--json"}).out);
  EXPECT_GT(info["stored"]["I8"].get<size_t>(), 0u);
}

TEST(Precision, IsOneThatThereIsAndOfCommandsThatLoadAModel) {
  const ModelFolder model;
  const Result r = run({"embed", "-m", model.name(), "--precision", "fp16", "you"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("bf16"), std::string::npos) << r.err;
  EXPECT_EQ(run({"pretrain", "--precision", "bf16"}).code, 2);
  for (const char* task : {"fill-mask", "next-sentence", "classify", "pair", "tag", "answer", "generate",
                           "similar", "attend", "explain", "demo", "bench"})
    EXPECT_NE(run({"help", task}).out.find("--precision"), std::string::npos) << task;
}

}  // namespace
