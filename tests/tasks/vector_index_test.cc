#include "bertie/vector_index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "bertie/error.h"
#include "bertie/files.h"
#include "core/random.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

constexpr size_t kDimension = 37, kCount = 9000;  // more than two chunks of a search

std::vector<float> vector_of(size_t i) {
  const Random random(7, i);
  std::vector<float> v(kDimension);
  for (size_t c = 0; c < kDimension; ++c) v[c] = float(random.at(c)[0]) / 4294967296.0f - 0.5f;
  return v;
}

VectorIndexOptions options(VectorNumbers numbers = VectorNumbers::kFloat16) {
  return {.dimension = kDimension, .numbers = numbers, .model = "some model", .pooling = "mean"};
}

void add(VectorIndexWriter& writer, size_t end) {
  for (size_t i = writer.size(); i < end; ++i) writer.add(vector_of(i), "text " + std::to_string(i));
}

std::string all_bytes(const fs::path& folder) {
  std::string all;
  for (const char* name : {"index.json", "vectors.npy", "scales.npy", "ends.npy", "texts"}) {
    std::ifstream in(folder / name, std::ios::binary);
    all += std::string(std::istreambuf_iterator<char>(in), {}) + name;
  }
  return all;
}

TEST(VectorIndex, FindsWhatComparingEveryVectorFinds) {
  const test::TempFolder folder;
  for (const auto numbers : {VectorNumbers::kFloat16, VectorNumbers::kInt8}) {
    const fs::path path = folder.path() / (numbers == VectorNumbers::kInt8 ? "int8" : "float16");
    VectorIndexWriter writer(path, options(numbers));
    add(writer, kCount);
    writer.commit();
    const VectorIndex index(path);
    EXPECT_EQ(index.size(), kCount);
    EXPECT_EQ(index.options().model, "some model");
    const std::vector<float> query = vector_of(123'456);
    const double error = numbers == VectorNumbers::kInt8 ? 6e-3 : 3e-4;
    const std::vector<Ranked> found = index.search(query, kCount, 2);
    ASSERT_EQ(found.size(), kCount);
    std::vector<bool> seen(kCount);
    for (size_t k = 0; k < kCount; ++k) {
      EXPECT_NEAR(found[k].score, cosine(query, vector_of(found[k].index)), error);
      EXPECT_FALSE(seen[found[k].index]);
      seen[found[k].index] = true;
      if (k > 0) {
        EXPECT_GE(found[k - 1].score, found[k].score);
      }
    }
    const std::vector<Ranked> few = index.search(query, 5, 1);
    for (size_t k = 0; k < 5; ++k)
      EXPECT_EQ(few[k].index, found[k].index) << "with another number of threads";
    EXPECT_EQ(index.search(vector_of(77), 1)[0].index, 77u);
    EXPECT_EQ(index.text(77), "text 77");
    EXPECT_TRUE(index.search(query, 0).empty());
    expect_error("a query of 3 numbers", [&] { index.search(std::vector<float>(3), 1); });
    expect_error("no text 9000", [&] { index.text(kCount); });
    expect_error("NaN", [&] { index.search(std::vector<float>(kDimension, NAN), 1); });
  }
}

TEST(VectorIndex, EqualScoresComeInTheirOrder) {
  const test::TempFolder folder;
  VectorIndexWriter writer(folder.path() / "same", options());
  for (int i = 0; i < 20; ++i) writer.add(vector_of(1), "");
  writer.add(std::vector<float>(kDimension), "nothing");
  writer.commit();
  const std::vector<Ranked> found = VectorIndex(folder.path() / "same").search(vector_of(1), 4, 2);
  for (size_t k = 0; k < 4; ++k) EXPECT_EQ(found[k].index, k);
}

// Whatever the moment of its end: between two rows, or within what one row writes to several files.
TEST(VectorIndex, ThatWasBegunIsGoneOnWithToTheSameBytes) {
  const test::TempFolder folder;
  for (const auto numbers : {VectorNumbers::kFloat16, VectorNumbers::kInt8}) {
    const std::string kind = numbers == VectorNumbers::kInt8 ? "i" : "f";
    const fs::path whole = folder.path() / (kind + "whole"), parts = folder.path() / (kind + "parts");
    VectorIndexWriter once(whole, options(numbers));
    add(once, 100);
    once.commit();
    for (const std::string_view torn :
         {"", "vectors.npy", "ends.npy", "scales.npy", "more texts", "texts", "unmarked"}) {
      fs::remove_all(parts);
      {
        VectorIndexWriter first(parts, options(numbers));
        add(first, 39);
        first.mark({.sum = 39});
        add(first, 40);
        first.mark({.sum = 40});
        if (torn == "unmarked") add(first, 45);
      }
      expect_error("was begun", [&] { VectorIndexWriter again(parts, options(numbers)); });
      expect_error("is no index", [&] { VectorIndex index(parts); });
      VectorIndexOptions other = options(numbers);
      other.model = "another";
      expect_error("another model", [&] { VectorIndexWriter again(parts, other, true); });
      if (torn == "more texts") std::ofstream(parts / "texts", std::ios::app) << "half a te";
      const bool shorter = torn == "texts" || (torn.ends_with(".npy") && fs::exists(parts / torn));
      if (shorter) fs::resize_file(parts / torn, fs::file_size(parts / torn) - 3);
      VectorIndexWriter second(parts, options(numbers), true);
      EXPECT_EQ(second.size(), shorter ? 39u : 40u) << torn;
      EXPECT_EQ(second.done().sum, second.size());
      add(second, 100);
      second.commit();
      EXPECT_EQ(all_bytes(parts), all_bytes(whole)) << torn;
      expect_error("is whole", [&] { second.add(vector_of(1), ""); });
    }
    expect_error("is an index already", [&] { VectorIndexWriter again(whole, options(numbers), true); });
  }
}

TEST(VectorIndex, RefusesFilesThatAreNotItsOwn) {
  const test::TempFolder folder;
  const fs::path path = folder.path() / "index";
  {
    VectorIndexWriter writer(path, options(VectorNumbers::kInt8));
    add(writer, 10);
    expect_error("a vector of 3 numbers", [&] { writer.add(std::vector<float>(3), ""); });
    expect_error("NaN", [&] { writer.add(std::vector<float>(kDimension, NAN), ""); });
    writer.commit();
  }
  for (const char* name : {"vectors.npy", "scales.npy", "ends.npy"}) {
    const test::TempFolder copy;
    fs::copy(path, copy.path() / "c", fs::copy_options::recursive);
    fs::resize_file(copy.path() / "c" / name, fs::file_size(path / name) - 1);
    expect_error(name, [&] { VectorIndex index(copy.path() / "c"); });
  }
  const test::TempFolder copy;
  fs::copy(path, copy.path() / "c", fs::copy_options::recursive);
  fs::resize_file(copy.path() / "c" / "texts", 5);
  const VectorIndex index(copy.path() / "c");
  expect_error("ends.npy", [&] { index.text(9); });
  for (const char* text :
       {"", "[]", "{}", "{\"version\": 2}",
        "{\"version\":1,\"dimension\":37,\"numbers\":\"int8\",\"model\":\"\",\"pooling\":\"\",\"how\":\"\","
        "\"count\":1099511627776}"}) {
    write_file(copy.path() / "c" / "index.json", text);
    EXPECT_THROW(VectorIndex(copy.path() / "c"), Error) << text;
  }
}

}  // namespace
}  // namespace bertie
