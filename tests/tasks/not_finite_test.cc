// A damaged model: NaN and infinity are refused, not handed out.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <limits>

#include "bertie/explain.h"
#include "io/safetensors.h"
#include "support/expect_error.h"
#include "tasks/made_up_model.h"

namespace bertie {
namespace {

using test::expect_error;
using test::MadeUpModel;

constexpr const char* kRefused = "the model's numbers are not finite";

// A model with one number of a tensor replaced.
struct Damaged : MadeUpModel {
  Damaged(const std::string& tensor, float number) { put(tensor, number); }
  void put(const std::string& tensor, float number);
};

void Damaged::put(const std::string& tensor, float number) {
  std::ifstream in(path() / "model.safetensors", std::ios::binary);
  std::string file{std::istreambuf_iterator<char>(in), {}};
  const auto tensors = io::SafeTensors::from_memory(std::as_bytes(std::span(file)), "model");
  const io::TensorInfo* found = tensors.find(tensor);
  ASSERT_TRUE(found) << tensor;
  const auto place = size_t(found->data.data() - reinterpret_cast<const std::byte*>(file.data()));
  std::memcpy(file.data() + place, &number, sizeof number);
  in.close();
  write("model.safetensors", file);
}

const float kBad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
const std::string kLayer = "bert.encoder.layer.1.";

TEST(NotFinite, HiddenStatesGiveNoVectorWhateverThePooling) {
  for (float bad : kBad) {
    Damaged model(kLayer + "output.LayerNorm.bias", bad);
    expect_error(kRefused, [&] { model.load().embed("a b"); });
    model.modules({{"Pooling", "1_Pooling"}});
    for (const char* mode : {"cls", "max", "mean"}) {
      model.pooling(fmt::format(R"("pooling_mode":"{}")", mode));
      expect_error(kRefused, [&] { model.load().embed("a b"); });
    }
  }
}

TEST(NotFinite, AttentionIsRefused) {
  for (float bad : kBad) {
    const Damaged model(kLayer + "attention.self.query.bias", bad);
    expect_error(kRefused, [&] { model.load().attend("a b"); });
    expect_error(kRefused, [&] { model.load().attend("a b", {.layers = {1}}); });
    const Damaged later(kLayer + "output.LayerNorm.bias", bad);
    expect_error(kRefused, [&] { later.load().attend("a b"); });
  }
}

TEST(NotFinite, StepsAreRefused) {
  for (float bad : kBad) {
    for (const char* part :
         {"attention.self.query.bias", "attention.self.value.bias", "attention.output.dense.bias"}) {
      const Damaged model(kLayer + part, bad);
      EXPECT_NO_THROW(explain(model.load(), "a b", {.layer = 0}));
      expect_error(kRefused, [&] { explain(model.load(), "a b", {.layer = 1}); });
    }
    const Damaged below("bert.embeddings.LayerNorm.bias", bad);
    expect_error(kRefused, [&] { explain(below.load(), "a b"); });
  }
}

}  // namespace
}  // namespace bertie
