// What torch.save writes is read; what else a pickle may say is an Error, and nothing in it is ever called.
// tools/make_torch_goldens.py made the files.
#include "io/torch_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../fuzz/check_tensors.h"
#include "bertie/error.h"
#include "core/random.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie::io {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

fs::path golden(const std::string& name) { return test::source_dir() / "tests/golden/torch" / name; }

std::string bytes_of(const std::string& name) {
  std::ifstream in(golden(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::vector<float> floats(const SafeTensors& all, const std::string& name) {
  const TensorInfo* t = all.find(name);
  if (!t) return {};
  std::vector<float> out(t->elements());
  to_float(*t, 0, out);
  return out;
}

using Floats = std::vector<float>;
using Shape = std::vector<size_t>;

TEST(TorchFile, HasTheTensorsThatWereSaved) {
  for (const char* name : {"today.bin", "older.bin"}) {
    const SafeTensors all = SafeTensors::open(golden(name));
    ASSERT_EQ(all.tensors().size(), 9u) << name;
    EXPECT_EQ(floats(all, "a.weight"), Floats({0, 1, 2, 3, 4, 5})) << name;
    EXPECT_EQ(all.find("a.weight")->shape, Shape({2, 3}));
    EXPECT_EQ(floats(all, "tied"), Floats({0, 1, 2, 3, 4, 5})) << "the same storage twice";
    EXPECT_EQ(floats(all, "a.bias"), Floats({1, 2}));
    EXPECT_EQ(all.find("a.bias")->dtype, DType::kF16);
    EXPECT_EQ(floats(all, "transposed"), Floats({0, 3, 1, 4, 2, 5})) << "in row-major order";
    EXPECT_EQ(all.find("transposed")->shape, Shape({3, 2}));
    EXPECT_EQ(floats(all, "part"), Floats({3, 4, 5, 6}));
    EXPECT_EQ(floats(all, "b"), Floats({1, 1, 1}));
    EXPECT_EQ(floats(all, "scalar"), Floats({2.5}));
    EXPECT_EQ(all.find("empty")->shape, Shape({0, 3}));
    EXPECT_EQ(all.find("ids")->dtype, DType::kI64);
  }
}

TEST(TorchFile, OfATrainingRunHasItsModel) {
  const SafeTensors all = SafeTensors::open(golden("training.pt"));
  EXPECT_EQ(all.tensors().size(), 2u);
  EXPECT_EQ(floats(all, "weight"), Floats({3, 4}));
  EXPECT_EQ(floats(all, "bias"), Floats({5}));
}

TEST(TorchFile, CallsNothing) {
  for (const char* name : {"calls.bin", "pickle.bin"}) {
    fs::remove("/tmp/called");
    EXPECT_THROW(SafeTensors::open(golden(name)), Error) << name;
    EXPECT_FALSE(fs::exists("/tmp/called")) << name;
  }
  expect_error("posix.system", [] { SafeTensors::open(golden("calls.bin")); });
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\n";
  expect_error("git-lfs", [&] { torch_tensors(as_bytes(pointer), "model.bin"); });
  expect_error("repeats its numbers", [] { SafeTensors::open(golden("repeats.pt")); });
}

TEST(TorchFile, IsTakenWhereThereAreNoSafetensors) {
  const test::TempFolder folder;
  fs::copy_file(golden("today.bin"), folder.path() / "pytorch_model.bin");
  EXPECT_EQ(SafeTensors::open(folder.path()).tensors().size(), 9u);
  const test::TempFolder shards;
  fs::copy_file(golden("today.bin"), shards.path() / "pytorch_model-00001-of-00002.bin");
  fs::copy_file(golden("training.pt"), shards.path() / "pytorch_model-00002-of-00002.bin");
  shards.write("pytorch_model.bin.index.json",
               R"({"weight_map": {"transposed": "pytorch_model-00001-of-00002.bin",)"
               R"( "weight": "pytorch_model-00002-of-00002.bin"}})");
  const SafeTensors all = SafeTensors::open(shards.path());
  EXPECT_EQ(floats(all, "transposed"), Floats({0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(floats(all, "weight"), Floats({3, 4}));
}

TEST(TorchFile, ThatIsDamagedIsAnErrorOrStillWhole) {
  for (const char* name : {"today.bin", "older.bin", "training.pt"}) {
    const std::string whole = bytes_of(name);
    ASSERT_GT(whole.size(), 500u);
    for (size_t size = 0; size < whole.size(); ++size) {
      const std::string cut = whole.substr(0, size);
      EXPECT_THROW(check_tensors(torch_tensors(as_bytes(cut), "file").tensors), Error)
          << name << " cut at " << size;
    }
    Random random(3);
    for (int i = 0; i < 20'000; ++i) {
      std::string bad = whole;
      for (uint32_t changes = 1 + random.below(3); changes > 0; --changes)
        bad[random.below(uint32_t(bad.size()))] = char(random.below(256));
      try {
        check_tensors(torch_tensors(as_bytes(bad), "file").tensors);
      } catch (const Error&) {
      }
    }
  }
}

TEST(TorchFile, SaysWhatIsWrong) {
  const std::string text = "no pickle at all";
  expect_error("not a file of tensors", [&] { torch_tensors(as_bytes(text), "model.bin"); });
  const std::string number("\x80\x02K\x01.", 5);
  expect_error("magic number", [&] { torch_tensors(as_bytes(number), "model.bin"); });
  std::string damaged = bytes_of("today.bin");
  damaged[damaged.find(std::string("\0\0\x80\x3f\0\0\0\x40", 8))] = 1;  // a number of a storage
  EXPECT_THROW(torch_tensors(as_bytes(damaged), "model.bin"), Error) << "its sum is another";
}

}  // namespace
}  // namespace bertie::io
