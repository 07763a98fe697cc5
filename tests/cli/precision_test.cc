// --precision: how a model's weights are held.
#include <cmath>

#include "program.h"

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
