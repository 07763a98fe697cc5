#pragma once
// Expected tensors from a golden file, and comparison that says where it went wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "bertie/error.h"
#include "io/safetensors.h"

namespace bertie::test {

class Expected {
 public:
  explicit Expected(const std::filesystem::path& file) : files_(io::SafeTensors::open(file)) {}
  bool has(const std::string& name) const { return files_.find(name) != nullptr; }
  std::vector<float> floats(const std::string& name) const {
    std::vector<float> values(get(name).elements());
    io::to_float(get(name), 0, values);
    return values;
  }
  std::vector<double> doubles(const std::string& name) const {
    const io::TensorInfo& t = get(name);
    if (t.dtype != io::DType::kF64) throw Error(name + " is not F64");
    std::vector<double> values(t.elements());
    std::memcpy(values.data(), t.data.data(), t.data.size());
    return values;
  }
  std::vector<int32_t> ints(const std::string& name) const {
    const io::TensorInfo& t = get(name);
    if (t.dtype != io::DType::kI32) throw Error(name + " is not I32");
    std::vector<int32_t> values(t.elements());
    std::memcpy(values.data(), t.data.data(), t.data.size());
    return values;
  }
  std::vector<uint8_t> bytes(const std::string& name) const {
    const io::TensorInfo& t = get(name);
    if (t.dtype != io::DType::kU8) throw Error(name + " is not U8");
    std::vector<uint8_t> values(t.elements());
    std::memcpy(values.data(), t.data.data(), t.data.size());
    return values;
  }
  std::vector<size_t> shape(const std::string& name) const { return get(name).shape; }

 private:
  const io::TensorInfo& get(const std::string& name) const {
    const io::TensorInfo* t = files_.find(name);
    if (!t) throw Error("golden file lacks " + name);
    return *t;
  }
  io::SafeTensors files_;
};

// |actual − expected| ≤ tolerance everywhere; NaN fails.
inline testing::AssertionResult near(std::span<const float> actual, std::span<const float> expected,
                                     double tolerance) {
  if (actual.size() != expected.size())
    return testing::AssertionFailure() << actual.size() << " numbers, expected " << expected.size();
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(double(actual[i]) - double(expected[i]));
    if (!(difference <= worst)) worst = difference, where = i;
    if (std::isnan(worst)) break;
  }
  if (worst <= tolerance) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "element " << where << " is " << actual[where] << ", expected "
                                     << expected[where] << " (off by " << worst << ", allowed " << tolerance
                                     << ")";
}

}  // namespace bertie::test
