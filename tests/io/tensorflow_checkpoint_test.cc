// What TensorFlow saves is read, number for number; what is damaged is an Error.
// tools/make_tensorflow_goldens.py made the files.
#include "io/tensorflow_checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "../fuzz/check_tensors.h"
#include "bertie/error.h"
#include "core/random.h"
#include "io/file.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie::io {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using Floats = std::vector<float>;
using Shape = std::vector<size_t>;

fs::path golden(const std::string& name) { return test::source_dir() / "tests/golden/tensorflow" / name; }

std::string bytes_of(const std::string& name) { return std::string(MappedFile(golden(name)).text()); }

Floats floats(const SafeTensors& all, const std::string& name) {
  const TensorInfo* t = all.find(name);
  if (!t) return {};
  Floats out(t->elements());
  to_float(*t, 0, out);
  return out;
}

TEST(TensorFlowCheckpoint, HasTheTensorsThatWereSaved) {
  const SafeTensors all = SafeTensors::open(golden("few.ckpt.index"));
  ASSERT_EQ(all.tensors().size(), 7u) << "and no text";
  EXPECT_EQ(floats(all, "a/kernel"), Floats({0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(all.find("a/kernel")->shape, Shape({2, 3}));
  EXPECT_EQ(floats(all, "a/bias"), Floats({1, 2}));
  EXPECT_EQ(all.find("a/bias")->dtype, DType::kF16);
  EXPECT_EQ(floats(all, "b"), Floats({1, 1, 1}));
  EXPECT_EQ(all.find("b")->dtype, DType::kBF16);
  EXPECT_EQ(floats(all, "scalar"), Floats({2.5}));
  EXPECT_EQ(all.find("scalar")->shape, Shape());
  EXPECT_EQ(all.find("empty")->shape, Shape({0, 3}));
  EXPECT_EQ(all.find("double")->dtype, DType::kF64);
  EXPECT_EQ(all.find("global_step")->dtype, DType::kI64);
}

TEST(TensorFlowCheckpoint, OfKerassKindHasPlainNames) {
  const SafeTensors all = SafeTensors::open(golden("variables.index"));
  EXPECT_EQ(floats(all, "layer"), Floats({0, 1, 2, 3, 4, 5}));
}

// Of two files in memory.
TensorFlowTensors read(const std::string& index, const std::string& data, Sums sums) {
  const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  const ModelFiles files =
      ModelFiles::in_memory({{"a.index", bytes(index)}, {"a.data-00000-of-00001", bytes(data)}});
  return tensorflow_tensors(files, "a.index", sums);
}

TEST(TensorFlowCheckpoint, ThatIsDamagedIsAnError) {
  const std::string index = bytes_of("few.ckpt.index"), data = bytes_of("few.ckpt.data-00000-of-00001");
  check_tensors(read(index, data, Sums::kCheck).tensors);
  for (size_t size = 0; size < index.size(); ++size)
    EXPECT_THROW(read(index.substr(0, size), data, Sums::kCheck), Error) << "cut at " << size;
  for (size_t i = 0; i + 48 < index.size(); ++i) {
    std::string bad = index;
    bad[i] ^= 1;
    EXPECT_THROW(read(bad, data, Sums::kCheck), Error) << "byte " << i << " of the index";
  }
  size_t noticed = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    std::string bad = data;
    bad[i] ^= 1;
    try {
      read(index, bad, Sums::kCheck);
    } catch (const Error& error) {
      ++noticed;
      EXPECT_NE(std::string(error.what()).find("its sum is wrong"), std::string::npos);
    }
  }
  EXPECT_GE(noticed, data.size() - 16) << "all but the text, which is not read";
}

TEST(TensorFlowCheckpoint, IsNotTrusted) {
  for (const char* name : {"few.ckpt", "variables", "bert/bert_model.ckpt"}) {
    const std::string index = bytes_of(std::string(name) + ".index"),
                      data = bytes_of(std::string(name) + ".data-00000-of-00001");
    Random random(5);
    for (int i = 0; i < 20'000; ++i) {
      std::string bad = index;
      for (uint32_t changes = 1 + random.below(3); changes > 0; --changes)
        bad[random.below(uint32_t(bad.size()))] = char(random.below(256));
      try {
        check_tensors(read(bad, data, Sums::kIgnore).tensors);
      } catch (const Error&) {
      }
    }
  }
}

TEST(TensorFlowCheckpoint, SaysWhatIsWrong) {
  const std::string index = bytes_of("few.ckpt.index"), data = bytes_of("few.ckpt.data-00000-of-00001");
  expect_error("is not the index of a TensorFlow checkpoint", [&] { read("{}", data, Sums::kCheck); });
  expect_error("reaches beyond its file", [&] { read(index, data.substr(0, 10), Sums::kCheck); });
  const test::TempFolder folder;
  fs::copy_file(golden("few.ckpt.index"), folder.path() / "model.ckpt.index");
  expect_error("model.ckpt.data-00000-of-00001", [&] { SafeTensors::open(folder.path()); });
  fs::copy_file(golden("few.ckpt.index"), folder.path() / "other.ckpt.index");
  expect_error("no model.safetensors", [&] { SafeTensors::open(folder.path()); });
}

}  // namespace
}  // namespace bertie::io
