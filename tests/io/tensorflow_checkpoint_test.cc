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

TEST(TensorFlowCheckpoint, MayHaveItsNumbersInSeveralFiles) {
  const SafeTensors all = SafeTensors::open(golden("two.index"));
  EXPECT_EQ(floats(all, "a"), Floats({1, 2}));
  EXPECT_EQ(floats(all, "b"), Floats({3, 4, 5}));
}

// Of two files in memory.
TensorFlowTensors read(const std::string& index, const std::string& data, Crcs sums) {
  const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  const ModelFiles files =
      ModelFiles::in_memory({{"a.index", bytes(index)}, {"a.data-00000-of-00001", bytes(data)}});
  return tensorflow_tensors(files, "a.index", sums);
}

TEST(TensorFlowCheckpoint, ThatIsDamagedIsAnError) {
  const std::string index = bytes_of("few.ckpt.index"), data = bytes_of("few.ckpt.data-00000-of-00001");
  check_tensors(read(index, data, Crcs::kCheck).tensors);
  for (size_t size = 0; size < index.size(); ++size)
    EXPECT_THROW(read(index.substr(0, size), data, Crcs::kCheck), Error) << "cut at " << size;
  for (size_t i = 0; i + 48 < index.size(); ++i) {
    std::string bad = index;
    bad[i] ^= 1;
    EXPECT_THROW(read(bad, data, Crcs::kCheck), Error) << "byte " << i << " of the index";
  }
  size_t noticed = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    std::string bad = data;
    bad[i] ^= 1;
    try {
      read(index, bad, Crcs::kCheck);
    } catch (const Error& error) {
      ++noticed;
      EXPECT_NE(std::string(error.what()).find("its CRC is wrong"), std::string::npos);
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
        check_tensors(read(bad, data, Crcs::kIgnore).tensors);
      } catch (const Error&) {
      }
    }
  }
}

TEST(TensorFlowCheckpoint, SaysWhatIsWrong) {
  const std::string index = bytes_of("few.ckpt.index"), data = bytes_of("few.ckpt.data-00000-of-00001");
  expect_error("is not the index of a TensorFlow checkpoint", [&] { read("{}", data, Crcs::kCheck); });
  expect_error("reaches beyond its file", [&] { read(index, data.substr(0, 10), Crcs::kCheck); });
  const test::TempFolder folder;
  fs::copy_file(golden("few.ckpt.index"), folder.path() / "model.ckpt.index");
  expect_error("no model.safetensors", [&] { SafeTensors::open(folder.path()); });  // somebody else's .index
  folder.write("model.ckpt.data-00001-of-00002", "");
  expect_error("model.ckpt.data-00000-of-00001", [&] { SafeTensors::open(folder.path()); });
  fs::copy_file(golden("few.ckpt.index"), folder.path() / "other.ckpt.index");
  folder.write("other.ckpt.data-00000-of-00001", "");
  expect_error("several TensorFlow checkpoints: model.ckpt.index, other.ckpt.index",
               [&] { SafeTensors::open(folder.path()); });
}

// A table of one block, as few bytes as can be.
std::string table_of(const std::vector<std::pair<std::string, std::string>>& entries, int blocks = 1) {
  const auto block = [](const std::vector<std::pair<std::string, std::string>>& all) {
    std::string out;
    for (const auto& [key, value] : all) {
      out += '\0', out += char(key.size());
      for (size_t n = value.size(); n >= 128; n >>= 7) out += char(n | 128);
      out += char(value.size() < 128 ? value.size() : value.size() >> 7);
      out += key + value;
    }
    return out + std::string(4, '\0') + std::string(5, '\0');  // no restarts; no compression, no CRC
  };
  const auto place = [](size_t offset, size_t size) {
    std::string out;
    for (size_t n : {offset, size}) {
      for (; n >= 128; n >>= 7) out += char(n | 128);
      out += char(n);
    }
    return out;
  };
  const std::string data = block(entries);
  std::vector<std::pair<std::string, std::string>> handles;
  for (int i = 0; i < blocks; ++i) handles.emplace_back("k", place(0, data.size() - 5));
  const std::string index = block(handles);
  std::string footer = place(0, data.size() - 5) + place(data.size(), index.size() - 5);
  footer.resize(40);
  return data + index + footer + "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
}

TEST(TensorFlowCheckpoint, OfFewBytesCannotTakeMuch) {
  const std::string header = "\x08\x01", data(8, 'x');
  const std::string two_floats = "\x08\x01\x12\x04\x12\x02\x08\x02\x28\x08";  // float, shape [2], 8 bytes
  EXPECT_EQ(read(table_of({{"", header}, {"a", two_floats}}), data, Crcs::kIgnore).tensors.size(), 1u);
  expect_error("overlaps", [&] {
    read(table_of({{"", header}, {"a", two_floats}, {"b", two_floats}}), data, Crcs::kIgnore);
  });
  expect_error("blocks overlap", [&] {
    read(table_of({{"", header}, {"a", two_floats}}, 2), data, Crcs::kIgnore);
  });
  expect_error("big-endian", [&] { read(table_of({{"", "\x08\x01\x10\x01"}}), data, Crcs::kIgnore); });
  expect_error("in slices", [&] {
    read(table_of({{"", header}, {"a", two_floats + std::string("\x3a\0", 2)}}), data, Crcs::kIgnore);
  });
  expect_error("file 4 of 1", [&] {
    read(table_of({{"", header}, {"a", two_floats + "\x18\x03"}}), data, Crcs::kIgnore);
  });
  expect_error("overflows 64 bits", [&] {  // shape [-1, 5]
    const std::string minus = "\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    read(table_of({{"", header}, {"a", "\x08\x01\x12\x11" + minus + "\x12\x02\x08\x05"}}), data,
         Crcs::kIgnore);
  });
  expect_error("plain ASCII", [&] {
    read(table_of({{"", header}, {"\xff", two_floats}}), data, Crcs::kIgnore);
  });
}

}  // namespace
}  // namespace bertie::io
