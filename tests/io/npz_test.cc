#include "io/npz.h"

#include <gtest/gtest.h>

#include <cstring>

#define LLVMFuzzerTestOneInput try_npz  // another test has one of that name
#include "../../fuzz/npz_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput try_npy
#include "../../fuzz/npy_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#include "core/random.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/numbers.h"
#include "support/safetensors_file.h"
#include "support/temp_folder.h"
#include "support/tensors.h"

namespace bertie::io {
namespace {

using test::as_bytes;
using test::expect_error;

std::filesystem::path golden(const std::string& name) {
  return test::source_dir() / "tests/golden/npz" / name;
}

std::string read_all(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Npz, WhatNumpyWroteIsRead) {
  const test::Expected expected(golden("expected.safetensors"));
  for (const char* file : {"stored.npz", "deflated.npz", "streamed.npz"}) {
    SCOPED_TRACE(file);
    const Npz npz = Npz::open(golden(file));
    EXPECT_EQ(npz.tensors().size(), 9u);
    for (const NpzTensor& tensor : npz.tensors()) {
      SCOPED_TRACE(tensor.name);
      EXPECT_EQ(tensor.shape, expected.shape(tensor.name));
      EXPECT_TRUE(test::same_bits(npz.read(tensor), expected.floats(tensor.name)));
    }
    EXPECT_EQ(npz.find("f2")->dtype, DType::kF16);
    EXPECT_EQ(npz.find("f8")->dtype, DType::kF64);
    EXPECT_TRUE(npz.find("fortran")->fortran_order);
    EXPECT_FALSE(npz.find("f"));
  }
}

TEST(Npz, Zip64IsRead) {
  const Npz npz = Npz::open(golden("zip64.npz"));
  ASSERT_EQ(npz.tensors().size(), 1u);
  EXPECT_TRUE(test::same_bits(npz.read(npz.tensors()[0]),
                              test::Expected(golden("expected.safetensors")).floats("f4")));
}

TEST(Npz, IntegersAreListedAndNotRead) {
  const Npz npz = Npz::open(golden("integers.npz"));
  EXPECT_EQ(npz.find("global_step")->dtype, DType::kI64);
  expect_error("\"global_step\": it is I64", [&] { npz.read(*npz.find("global_step")); });
}

TEST(Npz, WhatIsNotReadIsSaid) {
  expect_error("pickle", [] { Npz::open(golden("pickled.npz")); });
  expect_error("\">f4\" is not one that is read", [] { Npz::open(golden("big_endian.npz")); });
  expect_error("not an .npz file", [] { Npz::open(golden("expected.safetensors")); });
  expect_error("too few for a zip archive", [] { Npz::from_memory({}, "t"); });
}

// `bytes` with `value` written at `at`.
template <class T>
std::string with(std::string bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return bytes;
}

void expect_refused(const std::string& part, const std::string& file) {
  expect_error(part, [&] {
    const Npz npz = Npz::from_memory(as_bytes(file), "t");
    for (const NpzTensor& tensor : npz.tensors()) npz.read(tensor);
  });
}

TEST(Npz, EveryLieOfTheDirectoryIsFound) {
  const std::string stored = read_all(golden("stored.npz")), deflated = read_all(golden("deflated.npz"));
  const std::string record("PK\x01\x02", 4), local("PK\x03\x04", 4);
  const size_t first = stored.find(record), second = stored.find(record, first + 4);
  const size_t packed = deflated.find(record);
  expect_refused("ends after the file", with<uint32_t>(stored, first + 42, 0x7FFFFFFF));
  expect_refused("where it should be", with<uint32_t>(stored, first + 42, 8));
  expect_refused("its entry has another name", with<uint32_t>(stored, second + 42, 0));
  expect_refused("encrypted", with<uint16_t>(stored, first + 8, 1));
  expect_refused("packed by method 12", with<uint16_t>(stored, first + 10, 12));
  expect_refused("differ", with<uint32_t>(stored, first + 24, 100));
  expect_refused("checksum", with<uint32_t>(stored, first + 16, 0));
  expect_refused("checksum", with<uint32_t>(deflated, packed + 16, 0));
  expect_refused("cannot be deflated", with<uint32_t>(deflated, packed + 24, 0x70000000));
  expect_refused("but its data has", with<uint32_t>(deflated, packed + 24, 300));
  expect_refused("no directory entry", with<uint32_t>(stored, first, 0));
  expect_refused("more than the limit",
                 with<uint64_t>(read_all(golden("zip64.npz")),
                                read_all(golden("zip64.npz")).find("PK\x06\x06") + 32, 1u << 30));
  // Two entries of the same name and place.
  std::string twice = stored;
  std::memcpy(twice.data() + first + 42, stored.data() + second + 42, 4);
  expect_refused("another name", twice);
}

TEST(Npz, EntriesThatOverlapAreRefused) {
  // The directory names one entry twice: the classic bomb.
  const std::string file = read_all(golden("zip64.npz"));
  const size_t record = file.find("PK\x01\x02"), end64 = file.find("PK\x06\x06"), size = end64 - record;
  std::string bomb = file.substr(0, end64) + file.substr(record);
  bomb = with<uint64_t>(bomb, end64 + size + 24, 2);
  bomb = with<uint64_t>(bomb, end64 + size + 32, 2);
  bomb = with<uint64_t>(bomb, end64 + size + 40, 2 * size);
  bomb = with<uint64_t>(bomb, bomb.find("PK\x06\x07") + 8, end64 + size);
  expect_refused("overlap", bomb);
}

TEST(Npz, HeadersThatLieAreRefused) {
  const std::string file = read_all(golden("stored.npz"));
  const auto replaced = [&](std::string_view from, std::string_view to) {
    std::string copy = file;
    return copy.replace(copy.find(from), from.size(), to);
  };
  expect_refused("but its data has", replaced("(3, 4, 5)", "(3, 4, 6)"));
  expect_refused("overflows", replaced("(3, 4, 5), }                           ",
                                       "(4294967296, 4294967296, 4294967296), }"));
  expect_refused("dimensions", replaced("(3, 4, 5), }              ", "(1,1,1,1,1,1,1,1,1), }    "));
  expect_refused("not one that NumPy writes", replaced("(3, 4, 5)", "(3, 4,-5)"));
  expect_refused("not one that NumPy writes", replaced("'fortran_order'", "'fortran-order'"));
  expect_refused("not an .npy file", replaced("NUMPY", "NUMPI"));
  expect_refused("records", replaced("'descr': '<f4'", "'descr': [('a'"));
}

TEST(Npz, TruncatedFilesAreRefused) {
  const std::string file = read_all(golden("deflated.npz"));
  for (size_t size = 0; size < file.size(); ++size)
    ASSERT_THROW(Npz::from_memory(as_bytes(file).first(size), "t"), Error) << size;
}

TEST(Npy, MutationsOfAHeaderAreAnErrorOrNumbers) {
  const auto npy = [](const std::string& dictionary) {
    std::string file("\x93NUMPY\x01\0", 8);
    file += char(dictionary.size()), file += '\0';
    return file + dictionary + std::string(24, '\x3C');
  };
  const auto accepted = [](const std::string& file) {
    return try_npy(reinterpret_cast<const uint8_t*>(file.data()), file.size()) == 0;
  };
  ASSERT_TRUE(accepted(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }\n")));
  ASSERT_FALSE(accepted(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 3), }\n")));
  Random random(13);
  size_t good = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string dictionary = "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }\n";
    for (uint32_t edits = 1 + random.below(3); edits-- > 0;)
      dictionary[random.below(uint32_t(dictionary.size()))] =
          "0123468<|fiu()[]{},:' \n\xFF"[random.below(24)];
    good += accepted(npy(dictionary));
  }
  EXPECT_GT(good, 100u);
}

TEST(Npz, MutationsAreAnErrorOrAValidFile) {
  size_t refused = 0, count = 0;
  for (const char* name : {"stored.npz", "deflated.npz", "streamed.npz", "zip64.npz", "integers.npz"}) {
    const std::string file = read_all(golden(name));
    Random random(11);
    for (int i = 0; i < 3000; ++i, ++count) {
      std::string mutant = file;
      for (uint32_t edits = 1 + random.below(4); edits-- > 0;) {
        // Half of them in the directory, where the sizes are.
        const uint32_t half = uint32_t(mutant.size() / 2);
        mutant[random.below(2) ? random.below(uint32_t(mutant.size())) : half + random.below(half)] =
            char(random.below(256));
      }
      if (random.below(8) == 0) mutant.erase(random.below(uint32_t(mutant.size())), 1 + random.below(20));
      refused += try_npz(reinterpret_cast<const uint8_t*>(mutant.data()), mutant.size()) != 0;
    }
  }
  EXPECT_GT(refused, count / 4);
  EXPECT_LT(refused, count);
}

}  // namespace
}  // namespace bertie::io
