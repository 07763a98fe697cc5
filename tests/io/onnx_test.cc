// The weights inside exported graphs are those of the model that was exported, whatever its nodes are called.
// tools/make_onnx_goldens.py made the files.
#include "io/onnx.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "../fuzz/check_tensors.h"
#include "bertie/error.h"
#include "core/random.h"
#include "io/file.h"
#include "support/data.h"
#include "support/expect_error.h"

namespace bertie::io {
namespace {

using test::expect_error;

std::filesystem::path golden(const std::string& name) {
  return test::source_dir() / "tests/golden/onnx" / name;
}

class Exported : public testing::TestWithParam<const char*> {};

TEST_P(Exported, HasTheWeightsOfItsModel) {
  const SafeTensors model = SafeTensors::open(golden("model.safetensors")),
                    graph = SafeTensors::open(golden(GetParam()));
  for (const TensorInfo& t : model.tensors()) {
    const TensorInfo* found = graph.find(t.name);
    for (const auto& [name, tied] :
         {std::pair("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
          {"cls.predictions.bias", "cls.predictions.decoder.bias"}})
      if (!found && t.name == name) found = graph.find(tied);  // stored once
    ASSERT_TRUE(found) << t.name;
    EXPECT_EQ(found->shape, t.shape) << t.name;
    EXPECT_EQ(found->dtype, t.dtype) << t.name;
    EXPECT_TRUE(std::ranges::equal(found->data, t.data)) << t.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Onnx, Exported,
                         testing::Values("named.onnx", "numbered.onnx", "wrapped.onnx", "today.onnx",
                                         "lists.onnx"));

TEST(Onnx, ThatCannotBeReadIsAnErrorThatSaysWhy) {
  for (const char* name : {"integers.onnx", "dequantized.onnx"})
    expect_error("it is quantized", [&] { SafeTensors::open(golden(name)); });
  expect_error("fused for ONNX Runtime", [] { SafeTensors::open(golden("fused.onnx")); });
  const std::string text = "no graph", empty;
  const auto of = [](const std::string& bytes) {
    return ModelFiles::in_memory({{"m.onnx", std::as_bytes(std::span(bytes))}});
  };
  expect_error("is not an ONNX model", [&] { onnx_tensors(of(text), "m.onnx"); });
  expect_error("no weights", [&] { onnx_tensors(of(empty), "m.onnx"); });
  const std::string alone(MappedFile(golden("today.onnx")).text());
  expect_error("today.onnx.data", [&] { onnx_tensors(of(alone), "m.onnx"); });
}

TEST(Onnx, IsNotTrusted) {
  for (const char* name : {"numbered.onnx", "today.onnx"}) {
    const std::string whole(MappedFile(golden(name)).text());
    const MappedFile data(golden("today.onnx.data"));
    Random random(7);
    for (int i = 0; i < 3'000; ++i) {
      std::string bad = whole;
      for (uint32_t changes = 1 + random.below(3); changes > 0; --changes)
        bad[random.below(uint32_t(bad.size()))] = char(random.below(256));
      if (i % 4 == 0) bad.resize(random.below(uint32_t(bad.size())));
      try {
        const ModelFiles files = ModelFiles::in_memory(
            {{"m.onnx", std::as_bytes(std::span(bad))}, {"today.onnx.data", data.bytes()}});
        check_tensors(onnx_tensors(files, "m.onnx").tensors);
      } catch (const Error&) {
      }
    }
  }
}

// A model that never learned: all of its biases are 0, and one of them is stored.
TEST(Onnx, WhoseEqualNumbersWereMergedIsReadOrAnErrorThatSaysSo) {
  const SafeTensors model = SafeTensors::open(golden("fresh.safetensors")),
                    graph = SafeTensors::open(golden("fresh_numbered.onnx"));
  for (const TensorInfo& t : model.tensors()) {
    ASSERT_TRUE(graph.find(t.name)) << t.name;
    EXPECT_TRUE(std::ranges::equal(graph.find(t.name)->data, t.data)) << t.name;
  }
  expect_error("the exporter kept one", [] { SafeTensors::open(golden("fresh_today.onnx")); });
}

TEST(Onnx, OfFewBytesCannotTakeMuch) {
  // A matrix that a hundred nodes take is copied once.
  const auto bytes = [](int field, const std::string& text) {
    return std::string(1, char(field << 3 | 2)) + char(text.size()) + text;
  };
  std::string graph =
      bytes(5, std::string("\x08\x01\x08\x01\x10\x01", 6) + bytes(8, "w") + bytes(9, "1234")) +
      bytes(5, std::string("\x08\x01\x10\x01", 4) + bytes(8, "a.bias") + bytes(9, "1234"));
  for (char c = 'b'; c <= 'z'; ++c)
    graph += bytes(1, bytes(1, "x") + bytes(1, "w") + bytes(2, "y") +
                          bytes(3, std::string("/") + c + "/MatMul") + bytes(4, "MatMul"));
  std::string model = "\x3a";
  model += char((graph.size() & 127) | 128), model += char(graph.size() >> 7), model += graph;
  const ModelFiles files = ModelFiles::in_memory({{"m.onnx", std::as_bytes(std::span(model))}});
  const OnnxTensors all = onnx_tensors(files, "m.onnx");
  EXPECT_EQ(all.tensors.size(), 2u);
  EXPECT_EQ(all.copies.size(), 1u);
}

// A file beside it may be named, and none elsewhere.
TEST(Onnx, ReadsNothingOutsideItsFolder) {
  std::string text(MappedFile(golden("today.onnx")).text());
  for (size_t at = 0; (at = text.find("today.onnx.data", at)) != text.npos; ++at)
    text.replace(at, 15, "../../etc/hosts");
  const ModelFiles files = ModelFiles::in_memory({{"m.onnx", std::as_bytes(std::span(text))}});
  expect_error("not the plain name of a file beside it", [&] { onnx_tensors(files, "m.onnx"); });
}

}  // namespace
}  // namespace bertie::io
