// Weights with low-rank changes: W + B·A, and what can be wrong with them.
#include "model/low_rank.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"
#include "support/safetensors_file.h"

namespace bertie {
namespace {

using test::expect_error;

struct Tensor {
  std::string name;
  std::vector<size_t> shape;
  std::vector<float> numbers;
};

// The file's bytes must outlive what is opened.
std::string file_of(const std::vector<Tensor>& tensors) {
  nlohmann::json header;
  std::string bytes;
  for (const Tensor& t : tensors) {
    const size_t begin = bytes.size();
    bytes.append(reinterpret_cast<const char*>(t.numbers.data()), t.numbers.size() * sizeof(float));
    header[t.name] = {{"dtype", "F32"}, {"shape", t.shape}, {"data_offsets", {begin, bytes.size()}}};
  }
  return test::safetensors_file(header.dump(), bytes);
}

io::SafeTensors open(const std::string& file) {
  return apply_low_rank(io::SafeTensors::from_memory(std::as_bytes(std::span(file)), "file"), "file");
}

std::vector<float> numbers_of(const io::SafeTensors& tensors, const char* name) {
  const io::TensorInfo* t = tensors.find(name);
  if (!t) return {};
  std::vector<float> out(t->elements());
  io::to_float(*t, 0, out);
  return out;
}

const Tensor kW{"x.weight", {2, 3}, {1, 2, 3, 4, 5, 6}}, kA{"x.lora_A.weight", {1, 3}, {1, 0, -1}},
    kB{"x.lora_B.weight", {2, 1}, {10, 100}}, kBias{"x.bias", {2}, {7, 8}};

TEST(LowRank, ChangesTheWeightAndNothingElse) {
  const std::string file = file_of({kW, kA, kB, kBias, {"y.weight", {1, 1}, {9}}});
  const io::SafeTensors tensors = open(file);
  EXPECT_EQ(tensors.tensors().size(), 3u);
  EXPECT_EQ(numbers_of(tensors, "x.weight"), (std::vector<float>{11, 2, -7, 104, 5, -94}));
  EXPECT_EQ(numbers_of(tensors, "x.bias"), kBias.numbers);
  EXPECT_EQ(numbers_of(tensors, "y.weight"), std::vector<float>{9});
}

TEST(LowRank, LeavesOtherCheckpointsWhereTheyLie) {
  const std::string file = file_of({kW, kBias});
  const io::SafeTensors tensors = open(file);
  const auto* at = reinterpret_cast<const char*>(tensors.find("x.weight")->data.data());
  EXPECT_TRUE(at >= file.data() && at < file.data() + file.size()) << "mapped, not copied";
}

TEST(LowRank, NamesWhatIsMissing) {
  expect_error("\"x.lora_B.weight\" is missing", [] { open(file_of({kW, kA})); });
  expect_error("\"x.lora_A.weight\" is missing", [] { open(file_of({kW, kB})); });
  expect_error("\"x.weight\" is missing", [] { open(file_of({kA, kB})); });
}

TEST(LowRank, NamesShapesThatDoNotFit) {
  expect_error("is no change of \"x.weight\" of [2, 3]", [] {
    open(file_of({kW, {kA.name, {1, 2}, {1, 2}}, kB}));
  });
  expect_error("is no change of", [] { open(file_of({kW, kA, {kB.name, {3, 1}, {1, 2, 3}}})); });
  expect_error("is no change of", [] { open(file_of({kW, kA, {kB.name, {2, 2}, {1, 2, 3, 4}}})); });
  expect_error("\"x.lora_A.weight\" has 1 dimensions", [] {
    open(file_of({kW, {kA.name, {3}, {1, 2, 3}}, kB}));
  });
}

TEST(LowRank, OfNoRankChangesNothing) {
  const std::string file = file_of({kW, {kA.name, {0, 3}, {}}, {kB.name, {2, 0}, {}}});
  EXPECT_EQ(numbers_of(open(file), "x.weight"), kW.numbers);
}

}  // namespace
}  // namespace bertie
