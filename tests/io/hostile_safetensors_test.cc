// Files that somebody made to break a loader, and files that broke by accident: each is refused with words
// that name the problem, and no byte outside the file is read (the sanitizer builds watch that).
#include "../../fuzz/safetensors_fuzz.cc"
#include "core/random.h"
#include "io/safetensors.h"
#include "support/expect_error.h"
#include "support/safetensors_file.h"

namespace bertie::io {
namespace {

using test::as_bytes;
using test::safetensors_file;

// A header of one F32 tensor "x" with the given shape and data_offsets.
std::string tensor_x(const std::string& shape, const std::string& offsets, const std::string& dtype = "F32") {
  return R"({"x":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}
// Two F32 tensors of one element.
std::string tensors_xy(const std::string& x, const std::string& y) {
  return R"({"x":{"dtype":"F32","shape":[1],"data_offsets":)" + x +
         R"(},"y":{"dtype":"F32","shape":[1],"data_offsets":)" + y + "}}";
}
std::string many_tensors(size_t count) {
  std::string header = "{";
  for (size_t i = 0; i < count; ++i)
    header +=
        (i ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  return header + "}";
}

struct Hostile {
  const char* why;
  std::string file;
  std::string says;
};

std::vector<Hostile> hostile_files() {
  const std::string four(4, '\0'), eight(8, '\0');
  const std::string good = tensor_x("[1]", "[0,4]");
  const uint64_t most = UINT64_MAX;
  return {
      {"empty file", "", "too few for a header"},
      {"seven bytes", "1234567", "too few for a header"},
      {"a git-lfs pointer", "version https://git-lfs.github.com/spec/v1\n", "more than 100000000"},
      {"header length 2^64-1", safetensors_file(good, four, most), "more than 100000000"},
      {"header length that wraps with the 8 bytes before it", safetensors_file(good, four, most - 7),
       "more than"},
      {"header just too long", safetensors_file(good, four, 100'000'001), "more than 100000000"},
      {"header longer than the file", safetensors_file(good, "", good.size() + 1), "truncated"},
      {"header cut", safetensors_file(good, four, good.size() - 1), "not valid JSON"},
      {"header length 0", safetensors_file("", four, 0), "does not begin with '{'"},
      {"header of spaces", safetensors_file("   "), "does not begin with '{'"},
      {"space before the header", safetensors_file(" " + good, four), "does not begin with '{'"},
      {"a list", safetensors_file("[]"), "does not begin with '{'"},
      {"NUL in the header", safetensors_file(good + std::string("\0{", 2), four), "a NUL at byte"},
      {"two objects", safetensors_file("{}{}"), "not valid JSON"},
      {"name that is not UTF-8", safetensors_file("{\"\xff\":{}}"), "UTF-8"},
      {"lone surrogate", safetensors_file(R"({"\ud800":{}})"), "not valid JSON"},
      {"data missing", safetensors_file(good), "truncated: tensor \"x\" ends at byte 4"},
      {"data cut", safetensors_file(good, four.substr(1)), "truncated: tensor \"x\" ends at byte 4"},
      {"trailing byte", safetensors_file(good, four + "!"), "1 bytes after the last tensor"},
      {"data without tensors", safetensors_file("{}", four), "4 bytes after the last tensor"},
      {"hole at the start", safetensors_file(tensor_x("[1]", "[4,8]"), eight), "leaves a hole after 0"},
      {"hole", safetensors_file(tensors_xy("[0,4]", "[8,12]"), std::string(12, '\0')),
       "leaves a hole after 4"},
      {"overlap", safetensors_file(tensors_xy("[0,4]", "[2,6]"), std::string(6, '\0')), "overlaps"},
      {"the same range twice", safetensors_file(tensors_xy("[0,4]", "[0,4]"), four), "overlaps"},
      {"backwards", safetensors_file(tensor_x("[1]", "[4,0]"), four), "run backwards"},
      {"backwards by wrapping", safetensors_file(tensor_x("[1]", "[18446744073709551615,3]"), four),
       "backwards"},
      {"end of 2^64-1", safetensors_file(tensor_x("[1]", "[0,18446744073709551615]"), four), "truncated"},
      {"offset over 64 bits", safetensors_file(tensor_x("[1]", "[0,18446744073709551616]"), four),
       "a fraction"},
      {"negative offset", safetensors_file(tensor_x("[1]", "[-4,0]"), four), "a negative number"},
      {"fraction as offset", safetensors_file(tensor_x("[1]", "[0,4.0]"), four), "a fraction"},
      {"one offset", safetensors_file(tensor_x("[1]", "[0]"), four), "two numbers"},
      {"three offsets", safetensors_file(tensor_x("[1]", "[0,4,8]"), four), "two numbers"},
      {"offsets as text", safetensors_file(tensor_x("[1]", R"(["0","4"])"), four), "a string"},
      {"offsets as an object", safetensors_file(tensor_x("[1]", "{}"), four), "an object where"},
      {"offsets null", safetensors_file(tensor_x("[1]", "null"), four), "null where"},
      {"negative dimension", safetensors_file(tensor_x("[-1]", "[0,4]"), four), "a negative number"},
      {"nested shape", safetensors_file(tensor_x("[[1]]", "[0,4]"), four), "an array where"},
      {"shape a number", safetensors_file(tensor_x("1", "[0,4]"), four), "a number where"},
      {"shape too large for its data", safetensors_file(tensor_x("[2]", "[0,4]"), four),
       "is 8 bytes, but its data has 4"},
      {"shape too small", safetensors_file(tensor_x("[1]", "[0,8]"), eight),
       "is 4 bytes, but its data has 8"},
      {"shape product wraps to 4 bytes", safetensors_file(tensor_x("[4611686018427387905]", "[0,4]"), four),
       "overflows"},
      {"shape product wraps to 0", safetensors_file(tensor_x("[4294967296,4294967296]", "[0,0]")),
       "overflows"},
      {"shape wraps before a zero", safetensors_file(tensor_x("[18446744073709551615,2,0]", "[0,0]")),
       "overflows"},
      {"nine dimensions", safetensors_file(tensor_x("[1,1,1,1,1,1,1,1,1]", "[0,4]"), four),
       "more than 8 dimensions"},
      {"unknown dtype", safetensors_file(tensor_x("[1]", "[0,4]", "F33"), four), "unknown dtype \"F33\""},
      {"dtype in small letters", safetensors_file(tensor_x("[1]", "[0,4]", "f32"), four), "unknown dtype"},
      {"dtype a number", safetensors_file(R"({"x":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", four),
       "a number"},
      {"dtype missing", safetensors_file(R"({"x":{"shape":[1],"data_offsets":[0,4]}})", four),
       "dtype is missing"},
      {"shape missing", safetensors_file(R"({"x":{"dtype":"F32","data_offsets":[0,4]}})", four),
       "shape is missing"},
      {"offsets missing", safetensors_file(R"({"x":{"dtype":"F32","shape":[1]}})", four),
       "data_offsets is missing"},
      {"unknown key", safetensors_file(R"({"x":{"dtype":"F32","stride":[1]}})", four),
       "unknown key \"stride\""},
      {"tensor twice",
       safetensors_file(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                        R"("\u0078":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                        eight),
       "duplicate key \"x\""},
      {"dtype twice", safetensors_file(R"({"x":{"dtype":"F32","dtype":"F32"}})"), "duplicate key \"dtype\""},
      {"offsets twice", safetensors_file(R"({"x":{"data_offsets":[0,4],"data_offsets":[0,4]}})"),
       "duplicate key"},
      {"metadata twice", safetensors_file(R"({"__metadata__":{},"__metadata__":{}})"), "duplicate key"},
      {"metadata key twice", safetensors_file(R"({"__metadata__":{"a":"","a":""}})"), "duplicate key \"a\""},
      {"metadata not text", safetensors_file(R"({"__metadata__":{"a":1}})"), "a string in __metadata__"},
      {"metadata nested", safetensors_file(R"({"__metadata__":{"a":{}}})"), "a string in __metadata__"},
      {"metadata a string", safetensors_file(R"({"__metadata__":"pt"})"), "an object of strings"},
      {"tensor null", safetensors_file(R"({"x":null})"), "null where"},
      {"tensor a list", safetensors_file(R"({"x":[]})"), "an array where"},
      {"deep JSON", safetensors_file("{\"x\":" + std::string(1'000'000, '[')), "an array where"},
      {"deep objects", safetensors_file(R"({"x":{"dtype":{"x":{"x":{}}}}})"), "an object where"},
      {"a million tensors", safetensors_file(many_tensors(1'000'000)), "more than 100000 tensors"},
      {"long name", safetensors_file("{\"" + std::string(513, 'n') + "\":{}}"), "513 bytes, more than 512"},
  };
}

TEST(HostileSafeTensors, EachIsRefusedWithWordsThatNameTheProblem) {
  for (const Hostile& hostile : hostile_files()) {
    SCOPED_TRACE(hostile.why);
    test::expect_error(hostile.says, [&] { SafeTensors::from_memory(as_bytes(hostile.file), "t"); });
    test::expect_error("t: ", [&] { SafeTensors::from_memory(as_bytes(hostile.file), "t"); });
  }
}

TEST(HostileSafeTensors, AHundredThousandTensorsAndALongNameAreAllowed) {
  std::string many = safetensors_file(many_tensors(kMaxTensors));
  EXPECT_EQ(SafeTensors::from_memory(as_bytes(many), "t").tensors().size(), kMaxTensors);
  std::string name(kMaxTensorName, 'n');
  std::string file = safetensors_file("{\"" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                      std::string(4, '\0'));
  EXPECT_TRUE(SafeTensors::from_memory(as_bytes(file), "t").find(name));
}

// Flips, writes, inserts and deletes bytes and cuts the end off. Each variant goes into a block of exactly
// its size, so that a sanitizer sees the first byte read beyond it.
std::string mutate(std::string file, Random& random) {
  const std::string_view kTelling = "0123456789-[]{}\",:. \xff";
  for (uint32_t edits = 1 + random.below(3); edits > 0 && !file.empty(); --edits) {
    size_t at = random.below(uint32_t(file.size()));
    switch (random.below(6)) {
      case 0:
        file[at] = static_cast<char>(file[at] ^ (1 << random.below(8)));
        break;
      case 1:
        file[at] = static_cast<char>(random.next());
        break;
      case 2:
        file[at] = kTelling[random.below(uint32_t(kTelling.size()))];
        break;
      case 3:
        file.insert(at, 1, kTelling[random.below(uint32_t(kTelling.size()))]);
        break;
      case 4:
        file.erase(at, 1 + random.below(4));
        break;
      case 5:
        file.resize(random.below(8) ? file.size() : at);
        break;
    }
  }
  return file;
}

TEST(HostileSafeTensors, NoMutationOfAFileCrashes) {
  const std::string valid = test::valid_safetensors_file();
  Random random(20'240);
  int accepted = 0;
  for (int i = 0; i < 60'000; ++i) {
    std::string file = mutate(valid, random);
    // Half of them get the header length right again: what they break is deeper inside.
    if (uint64_t header = file.size() - std::min<size_t>(file.size(), 8 + 42); i % 2 && file.size() >= 8)
      std::memcpy(file.data(), &header, 8);
    auto exact = std::make_unique<uint8_t[]>(file.size());
    std::copy(file.begin(), file.end(), exact.get());
    accepted += LLVMFuzzerTestOneInput(exact.get(), file.size()) == 0;
  }
  // Some change data or names only and stay valid; most do not.
  EXPECT_GT(accepted, 1'000);
  EXPECT_LT(accepted, 40'000);
}

TEST(HostileSafeTensors, NoTruncationOfAFileIsAccepted) {
  const std::string valid = test::valid_safetensors_file();
  for (size_t size = 0; size < valid.size(); ++size)
    EXPECT_THROW(SafeTensors::from_memory(as_bytes(std::string_view(valid).substr(0, size)), "t"), Error)
        << size;
}

}  // namespace
}  // namespace bertie::io
