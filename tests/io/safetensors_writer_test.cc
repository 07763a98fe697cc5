#include "io/safetensors_writer.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>

#include "io/atomic_file.h"
#include "support/expect_error.h"
#include "support/numbers.h"
#include "support/temp_folder.h"

namespace bertie::io {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

size_t files_in(const fs::path& folder) {
  return size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TensorSource source(const std::string& name, std::vector<size_t> shape, std::vector<float> values) {
  return {.name = name, .shape = std::move(shape), .read = [values](size_t first, std::span<float> out) {
            std::copy_n(values.begin() + long(first), out.size(), out.begin());
          }};
}

std::vector<float> all_of(const TensorInfo& tensor) {
  std::vector<float> values(tensor.elements());
  to_float(tensor, 0, values);
  return values;
}

TEST(SafetensorsWriter, TheBytesAreThoseOfTheSafetensorsLibrary) {
  const test::TempFolder folder;
  const fs::path file = folder.path() / "x.safetensors";
  const TensorSource tensors[] = {source("b", {2, 1}, {1, -2}), source("a", {}, {0.5f})};
  write_safetensors(file, DType::kF32, tensors);
  std::string expected =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]}})";
  expected.resize((expected.size() + 7) / 8 * 8, ' ');
  const uint64_t length = expected.size();
  expected.insert(0, 8, '\0');
  std::memcpy(expected.data(), &length, 8);
  for (float x : {0.5f, 1.0f, -2.0f}) expected.append(reinterpret_cast<const char*>(&x), 4);
  EXPECT_EQ(read_all(file), expected);
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(SafetensorsWriter, WhatIsWrittenIsReadAgain) {
  const test::TempFolder folder;
  const fs::path file = folder.path() / "x.safetensors";
  // Longer than a piece, and not a multiple of one.
  const std::vector<float> many = test::random_floats(2 * kWriteElements + 12345, 7),
                           few = {1, 2, 3, 4, 5, 6};
  const TensorSource tensors[] = {source("many", {many.size()}, many), source("few", {3, 2}, few),
                                  source("none", {0, 4}, {}), source("one \"\\\n\x01 ü", {}, {3.25f})};
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    write_safetensors(file, dtype, tensors);
    const SafeTensors read = SafeTensors::open(file);
    ASSERT_EQ(read.tensors().size(), 4u);
    for (const TensorSource& t : tensors) {
      const TensorInfo* info = read.find(t.name);
      ASSERT_TRUE(info) << t.name;
      EXPECT_EQ(info->dtype, dtype);
      EXPECT_EQ(info->shape, t.shape);
    }
    EXPECT_EQ(all_of(*read.find("few")), few);
    const std::vector<float> values = all_of(*read.find("many"));
    if (dtype == DType::kF32) {
      EXPECT_TRUE(test::same_bits(values, many));
    } else {
      const float unit = dtype == DType::kF16 ? 0x1p-11f : 0x1p-8f;
      for (size_t i = 0; i < many.size(); ++i)
        ASSERT_LE(std::fabs(values[i] - many[i]), unit * std::max(std::fabs(many[i]), 0x1p-14f)) << i;
    }
    const std::string once = read_all(file);
    write_safetensors(file, dtype, tensors);
    EXPECT_TRUE(read_all(file) == once) << "equal content, other bytes";
    uint64_t header;
    std::memcpy(&header, once.data(), 8);
    EXPECT_EQ(header % 8, 0u);
  }
}

TEST(SafetensorsWriter, TypesMayBeMixedAndWideOnesComeFirst) {
  const test::TempFolder folder;
  const fs::path file = folder.path() / "x.safetensors";
  TensorSource tensors[] = {source("a", {1}, {1}), source("b", {1}, {2}), source("c", {1}, {3})};
  tensors[0].dtype = DType::kF16;
  tensors[1].dtype = DType::kBF16;
  write_safetensors(file, DType::kF32, tensors);
  const SafeTensors read = SafeTensors::open(file);
  EXPECT_EQ(read.find("a")->dtype, DType::kF16);
  EXPECT_EQ(read.find("b")->dtype, DType::kBF16);
  EXPECT_LT(read.find("c")->data.data(), read.find("b")->data.data());
  EXPECT_LT(read.find("b")->data.data(), read.find("a")->data.data());
}

TEST(SafetensorsWriter, WhatCannotBeWrittenIsSaidAndTheOldFileStays) {
  const test::TempFolder folder;
  const fs::path file = folder.write("x.safetensors", "old");
  const TensorSource twice[] = {source("a", {1}, {1}), source("a", {1}, {1})};
  expect_error("tensor \"a\": it is there twice", [&] { write_safetensors(file, DType::kF32, twice); });
  expect_error("F64 is not a type", [&] { write_safetensors(file, DType::kF64, std::span(twice, 1)); });
  const TensorSource bytes[] = {source("a\xFF", {1}, {1})};
  expect_error("not UTF-8", [&] { write_safetensors(file, DType::kF32, bytes); });
  const TensorSource reserved[] = {source("__metadata__", {1}, {1})};
  expect_error("__metadata__", [&] { write_safetensors(file, DType::kF32, reserved); });
  const TensorSource huge[] = {source("a", {SIZE_MAX, 2}, {})};
  expect_error("64 bits", [&] { write_safetensors(file, DType::kF32, huge); });
  const TensorSource failing[] = {
      {.name = "a", .shape = {kWriteElements + 1}, .read = [](size_t first, std::span<float>) {
         if (first > 0) throw Error("the source broke");
       }}};
  expect_error("the source broke", [&] { write_safetensors(file, DType::kF32, failing); });
  EXPECT_EQ(read_all(file), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(SafetensorsWriter, AFiniteNumberNeverBecomesInfinite) {
  const test::TempFolder folder;
  const fs::path file = folder.path() / "x.safetensors";
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> many(kWriteElements + 3, 1.f);
  many.back() = -70000.f;
  const TensorSource large[] = {source("large", {many.size()}, many)};
  try {
    write_safetensors(file, DType::kF16, large);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("tensor \"large\": element 262146 is -70000, too large for F16"),
              std::string::npos)
        << error.what();
    EXPECT_NE(error.hint().find("bfloat16"), std::string::npos) << error.hint();
  }
  EXPECT_EQ(files_in(folder.path()), 0u);
  write_safetensors(file, DType::kBF16, large);
  const auto one = [&](DType dtype, float x) {
    const TensorSource tensor[] = {source("a", {1}, {x})};
    write_safetensors(file, dtype, tensor);
    return all_of(*SafeTensors::open(file).find("a"))[0];
  };
  // The last that rounds down to the largest, and the first that does not.
  EXPECT_EQ(one(DType::kF16, std::nextafter(65520.f, 0.f)), 65504.f);
  expect_error("is 65520", [&] { one(DType::kF16, 65520.f); });
  EXPECT_EQ(one(DType::kBF16, std::nextafter(0x1.FFp127f, 0.f)), 0x1.FEp127f);
  expect_error("too large for BF16", [&] { one(DType::kBF16, -0x1.FFp127f); });
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    EXPECT_EQ(one(dtype, kInfinity), kInfinity);
    EXPECT_EQ(one(dtype, -kInfinity), -kInfinity);
    EXPECT_TRUE(std::isnan(one(dtype, std::numeric_limits<float>::quiet_NaN())));
  }
}

TEST(AtomicFile, AppearsAtCommitAndNotBefore) {
  const test::TempFolder folder;
  const fs::path path = folder.path() / "x";
  {
    AtomicFile file(path);
    file.write("some");
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_EQ(files_in(folder.path()), 0u);
  AtomicFile file(path);
  file.write("some bytes");
  file.write_at(2, "ft");
  file.commit();
  EXPECT_EQ(read_all(path), "soft bytes");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, ALinkStaysALinkAndAFolderIsRefused) {
  const test::TempFolder folder;
  const fs::path target = folder.write("target", "old"), link = folder.path() / "link";
  fs::create_symlink(target, link);
  AtomicFile file(link);
  file.write("new");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_all(target), "new");
  expect_error("it is a folder", [&] { AtomicFile(folder.path()); });
  expect_error("it is not a regular file", [&] { AtomicFile("/dev/null"); });
  expect_error("No such file", [&] { AtomicFile(folder.path() / "no/x"); });
}

TEST(AtomicFile, AFolderThatMayNotBeWrittenIsNamed) {
  const test::TempFolder folder;
  const fs::path file = folder.write("x", "old");
  // Nobody, root included, makes a file in /proc.
  expect_error("cannot write /proc/x", [&] { AtomicFile("/proc/x"); });
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  expect_error("Permission denied", [&] { AtomicFile{file}; });
  fs::permissions(folder.path(), fs::perms::owner_all);
  EXPECT_EQ(read_all(file), "old");
}

// What `body` does in a process of its own, as its exit code; 128 + the signal that ended it.
int in_a_process(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(AtomicFile, ADiskWithoutRoomIsAnErrorAndTheOldFileStays) {
  const test::TempFolder folder;
  const fs::path file = folder.write("x.safetensors", "old");
  const TensorSource tensors[] = {source("a", {kWriteElements}, std::vector<float>(kWriteElements))};
  const int code = in_a_process([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_safetensors(file, DType::kF32, tensors);
    } catch (const Error& error) {
      const std::string what = error.what();
      return what.find(file.string()) != what.npos && what.find("File too large") != what.npos ? 7 : 1;
    }
    return 2;
  });
  EXPECT_EQ(code, 7);
  EXPECT_EQ(read_all(file), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, AProcessKilledInTheMiddleLeavesTheOldFile) {
  const test::TempFolder folder;
  const fs::path file = folder.write("x", "old");
  const int code = in_a_process([&] {
    AtomicFile half(file);
    half.write("ne");
    std::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(code, 128 + SIGKILL);
  EXPECT_EQ(read_all(file), "old");
}

TEST(AtomicFile, TheUmaskIsHonoredAndNotTouched) {
  const test::TempFolder folder;
  const mode_t before = umask(027);
  {
    AtomicFile out(folder.path() / "file");
    out.commit();
  }
  EXPECT_EQ(umask(before), 027u);
  EXPECT_EQ(fs::status(folder.path() / "file").permissions(), fs::perms(0640));
}

TEST(AtomicFile, FoldersChangePlacesAlsoWhereThereIsNoOneStep) {
  for (const bool at_once : {true, false}) {
    const test::TempFolder folder;
    const fs::path a = folder.path() / "a", b = folder.path() / "b";
    fs::create_directory(a);
    fs::create_directory(b);
    folder.write("a/1", "");
    folder.write("b/2", "");
    EXPECT_EQ(exchange_folders(a, b, at_once), 0);
    EXPECT_TRUE(fs::exists(b / "1"));
    EXPECT_TRUE(fs::exists(a / "2"));
    EXPECT_EQ(exchange_folders(folder.path() / "none", b, at_once), ENOENT);
    EXPECT_TRUE(fs::exists(b / "1"));
    EXPECT_EQ(files_in(folder.path()), 2u);
  }
}

}  // namespace
}  // namespace bertie::io
