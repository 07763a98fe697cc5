#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "support/data.h"
#include "support/expect_error.h"
#include "support/safetensors_file.h"
#include "support/temp_folder.h"

namespace bertie::io {
namespace {

using test::as_bytes;
using test::expect_error;
using test::safetensors_file;
using test::valid_safetensors_file;

std::vector<float> all_of(const TensorInfo& tensor) {
  std::vector<float> values(tensor.elements());
  to_float(tensor, 0, values);
  return values;
}

TEST(SafeTensors, FindsTensorsByName) {
  std::string file = valid_safetensors_file();
  auto tensors = SafeTensors::from_memory(as_bytes(file), "t");
  ASSERT_EQ(tensors.tensors().size(), 4u);
  EXPECT_TRUE(std::is_sorted(tensors.tensors().begin(), tensors.tensors().end(),
                             [](auto& a, auto& b) { return a.name < b.name; }));
  const TensorInfo* weight = tensors.find("b.weight");
  ASSERT_TRUE(weight);
  EXPECT_EQ(weight->dtype, DType::kF32);
  EXPECT_EQ(weight->shape, (std::vector<size_t>{2, 3}));
  EXPECT_EQ(all_of(*weight), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  const TensorInfo* scalar = tensors.find("a.scalar");
  ASSERT_TRUE(scalar);
  EXPECT_TRUE(scalar->shape.empty());
  EXPECT_EQ(all_of(*scalar), (std::vector<float>{1.5f}));
  EXPECT_EQ(tensors.find("c.empty")->elements(), 0u);
  EXPECT_EQ(tensors.find("d.ids")->elements(), 2u);
  EXPECT_FALSE(tensors.find("b.weigh"));
  EXPECT_FALSE(tensors.find("b.weight2"));
  EXPECT_FALSE(tensors.find(""));
}

TEST(SafeTensors, AFileWithoutTensorsIsFine) {
  EXPECT_TRUE(SafeTensors::from_memory(as_bytes(safetensors_file("{}")), "t").tensors().empty());
}

TEST(SafeTensors, ARangeOfElementsConverts) {
  std::string file = valid_safetensors_file();
  auto tensors = SafeTensors::from_memory(as_bytes(file), "t");
  const TensorInfo& weight = *tensors.find("b.weight");
  std::vector<float> two(2), seven(7), none;
  to_float(weight, 3, two);
  EXPECT_EQ(two, (std::vector<float>{3, 4}));
  EXPECT_NO_THROW(to_float(weight, 6, none));
  expect_error("\"b.weight\" has 6 elements", [&] { to_float(weight, 5, two); });
  expect_error("\"b.weight\" has 6 elements", [&] { to_float(weight, 0, seven); });
  expect_error("\"b.weight\" has 6 elements", [&] { to_float(weight, SIZE_MAX, two); });
  expect_error("tensor \"d.ids\" is I64", [&] { to_float(*tensors.find("d.ids"), 0, two); });
}

TEST(SafeTensors, KnowsTheSizesOfTypes) {
  for (auto [name, size] : {std::pair{"BOOL", 1},
                            {"U8", 1},
                            {"I8", 1},
                            {"F8_E4M3", 1},
                            {"F8_E5M2", 1},
                            {"U16", 2},
                            {"I16", 2},
                            {"F16", 2},
                            {"BF16", 2},
                            {"U32", 4},
                            {"I32", 4},
                            {"F32", 4},
                            {"U64", 8},
                            {"I64", 8},
                            {"F64", 8}}) {
    std::string header = std::string(R"({"x":{"dtype":")") + name + R"(","shape":[3],"data_offsets":[0,)" +
                         std::to_string(3 * size) + "]}}";
    std::string file = safetensors_file(header, std::string(size_t(3 * size), '\0'));
    auto tensors = SafeTensors::from_memory(as_bytes(file), "t");
    EXPECT_EQ(name_of(tensors.find("x")->dtype), name);
    EXPECT_EQ(tensors.find("x")->elements(), 3u);
  }
}

TEST(SafeTensors, OpensAFileOrTheFolderItIsIn) {
  test::TempFolder folder;
  auto path = folder.write("model.safetensors", valid_safetensors_file());
  for (const auto& p : {path, folder.path()}) {
    SafeTensors opened = SafeTensors::open(p);
    SafeTensors moved = std::move(opened);
    EXPECT_EQ(all_of(*moved.find("b.weight")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
}

TEST(SafeTensors, AFolderWithoutWeightsSaysSo) {
  test::TempFolder folder;
  expect_error("no model.safetensors in " + folder.path().string(),
               [&] { SafeTensors::open(folder.path()); });
  folder.write("pytorch_model.bin", "x");
  expect_error("not a file of tensors", [&] { SafeTensors::open(folder.path()); });
  expect_error("No such file", [&] { SafeTensors::open(folder.path() / "other.safetensors"); });
}

// One float tensor of `name` with value `value`.
std::string one_tensor(const std::string& name, float value) {
  std::string data(4, '\0');
  std::memcpy(data.data(), &value, 4);
  return safetensors_file("{\"" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", data);
}

TEST(SafeTensors, ShardsAreReadAsOne) {
  test::TempFolder folder;
  folder.write("model-1.safetensors", one_tensor("z", 1));
  folder.write("model-2.safetensors", one_tensor("a", 2));
  auto index = folder.write("model.safetensors.index.json",
                            R"({"metadata": {"total_size": 8},
                                "weight_map": {"z": "model-1.safetensors", "a": "model-2.safetensors"}})");
  for (const auto& path : {index, folder.path()}) {
    SafeTensors tensors = SafeTensors::open(path);
    EXPECT_EQ(tensors.tensors().size(), 2u);
    EXPECT_EQ(all_of(*tensors.find("z")), (std::vector<float>{1}));
    EXPECT_EQ(all_of(*tensors.find("a")), (std::vector<float>{2}));
  }
}

TEST(SafeTensors, OpensEveryGoldenCheckpoint) {
  size_t checkpoints = 0;
  for (const auto& folder : std::filesystem::directory_iterator(test::source_dir() / "tests/golden/models")) {
    SCOPED_TRACE(folder.path());
    SafeTensors weights = SafeTensors::open(folder.path());
    for (const TensorInfo& tensor : weights.tensors())
      if (tensor.dtype != DType::kI64) {
        for (float value : all_of(tensor)) ASSERT_TRUE(std::isfinite(value)) << tensor.name;
      }
    EXPECT_TRUE(SafeTensors::open(folder.path() / "expected.safetensors").find("hidden.0"));
    ++checkpoints;
  }
  EXPECT_GE(checkpoints, 14u);
}

TEST(SafeTensors, AWrongIndexIsRefused) {
  test::TempFolder folder, outside;
  folder.write("model-1.safetensors", one_tensor("z", 1));
  auto outside_file = outside.write("x.safetensors", one_tensor("z", 1));
  auto with_map = [&](const std::string& map) {
    return [&folder, map] {
      SafeTensors::open(folder.write("model.safetensors.index.json", "{\"weight_map\": " + map + "}"));
    };
  };
  EXPECT_NO_THROW(with_map(R"({"z": "model-1.safetensors"})")());
  expect_error("not the plain name",
               with_map(R"({"z": "../)" + outside.path().filename().string() + R"(/x.safetensors"})"));
  expect_error("not the plain name", with_map(R"({"z": ")" + outside_file.string() + R"("})"));
  expect_error("not the plain name", with_map(R"({"z": "..\\x.safetensors"})"));
  expect_error("not the plain name", with_map(R"({"z": "model-1.safetensors\u0000.safetensors"})"));
  expect_error("not the plain name", with_map(R"({"z": "config.json"})"));
  expect_error("not the plain name", with_map(R"({"z": ".."})"));
  expect_error("not the plain name", with_map(R"({"z": 1})"));
  expect_error("\"y\": it is not in its shard", with_map(R"({"y": "model-1.safetensors"})"));
  expect_error("No such file", with_map(R"({"z": "model-3.safetensors"})"));
  expect_error("duplicate key", with_map(R"({"z": "model-1.safetensors", "z": "model-1.safetensors"})"));
  expect_error("weight_map", with_map("[]"));
  expect_error("weight_map", [&] { SafeTensors::open(folder.write("a.index.json", "{}")); });
  expect_error("weight_map", [&] { SafeTensors::open(folder.write("a.index.json", "[]")); });
  std::string many = "{";
  for (int i = 0; i < 1001; ++i) {
    folder.write(fmt::format("t{}.safetensors", i), one_tensor(fmt::format("t{}", i), 0));
    many += fmt::format("{}\"t{}\":\"t{}.safetensors\"", i ? "," : "", i, i);
  }
  expect_error("more than 1000 shards", with_map(many + "}"));
}

TEST(SafeTensors, OpensMiniLmWithinItsShareOfTheTimeToTheFirstEmbedding) {
  auto path = test::data("models/all-MiniLM-L6-v2/model.safetensors");
  BERTIE_NEEDS(path);
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    auto start = std::chrono::steady_clock::now();
    SafeTensors tensors = SafeTensors::open(path);
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    ASSERT_EQ(tensors.find("embeddings.word_embeddings.weight")->shape, (std::vector<size_t>{30522, 384}));
  }
  RecordProperty("milliseconds", std::to_string(best));
  EXPECT_LT(best, 20.0);  // 2 ms is the term; a debug build under a sanitizer on a busy machine passes too
}

}  // namespace
}  // namespace bertie::io
