// The vectors of FIPS 180, lengths around the block, and git's names.
#include "io/sha.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace bertie::io {
namespace {

template <class Hash>
std::string hash(std::string_view text, size_t piece = SIZE_MAX) {
  Hash sha;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
    sha.add(std::as_bytes(std::span(text.substr(0, piece))));
  return sha.hex();
}

TEST(Sha, GivesThePublishedSums) {
  const std::string two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  const std::string million(1'000'000, 'a');
  EXPECT_EQ(hash<Sha256>(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash<Sha256>("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash<Sha256>(two_blocks), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash<Sha256>(million), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(hash<Sha1>(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(hash<Sha1>("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(hash<Sha1>(two_blocks), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(hash<Sha1>(million), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

// Python: hashlib.sha256("".join(hashlib.sha256(b"x" * n).hexdigest() for n in
// range(200)).encode()).hexdigest()
TEST(Sha, EndsWellForEveryLengthAndAnyPieces) {
  Sha256 of_256;
  Sha1 of_1;
  for (size_t n = 0; n < 200; ++n) {
    const std::string text(n, 'x');
    const std::string a = hash<Sha256>(text), b = hash<Sha1>(text);
    for (size_t piece : {1, 7, 63, 64, 65}) {
      EXPECT_EQ(hash<Sha256>(text, piece), a) << n << " in pieces of " << piece;
      EXPECT_EQ(hash<Sha1>(text, piece), b) << n << " in pieces of " << piece;
    }
    of_256.add(std::as_bytes(std::span(a)));
    of_1.add(std::as_bytes(std::span(b)));
  }
  EXPECT_EQ(of_256.hex(), "f61ffcc417e1f0e59eba2da7fa32fbe05b64e478b68c6bacf990455f00248b98");
  EXPECT_EQ(of_1.hex(), "f024a06f9df4db3a81e536a8d16895eb9a9defb5");
}

TEST(Sha, IsTheSameByTheProcessorsInstructions) {
  const Sha256Block fast = sha256_block_of_processor();
  if (!fast) GTEST_SKIP() << "this processor has none";
  const Random random(7);
  std::array<uint32_t, 8> ours{}, theirs{};
  for (size_t round = 0; round < 1000; ++round) {
    uint8_t bytes[64 + 1];
    for (size_t i = 0; i < 65; ++i) bytes[i] = uint8_t(random.at(round * 65 + i)[0]);
    sha256_block(ours, bytes + round % 2);
    fast(theirs, bytes + round % 2);
    ASSERT_EQ(ours, theirs) << round;
  }
}

TEST(Sha, NamesFilesAsGitDoes) {
  Sha1 sha = git_blob_sha1(12);
  sha.add(std::as_bytes(std::span(std::string_view("hello world\n"))));
  EXPECT_EQ(sha.hex(),
            "3b18e512dba79e4c8300dd08aeb37f8e728b8dad");  // echo hello world | git hash-object --stdin
  EXPECT_EQ(git_blob_sha1(0).hex(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}

}  // namespace
}  // namespace bertie::io
