// As FIPS 180-4 writes them.
#include "io/sha.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace bertie::io {
namespace {

constexpr std::array<uint32_t, 5> kStart1 = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
constexpr std::array<uint32_t, 8> kStart256 = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr std::array<uint32_t, 64> kRound256 = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t word_at(const uint8_t* bytes, size_t i) {
  const uint8_t* p = bytes + 4 * i;
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

}  // namespace

template <>
Sha1::Sha() : state_(kStart1) {}
template <>
Sha256::Sha() : state_(kStart256) {}

template <>
void Sha1::block(const uint8_t* bytes) {
  uint32_t w[80];
  for (size_t i = 0; i < 16; ++i) w[i] = word_at(bytes, i);
  for (size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  auto [a, b, c, d, e] = state_;
  for (size_t i = 0; i < 80; ++i) {
    const uint32_t f = i < 20   ? (b & c) | (~b & d)
                       : i < 40 ? b ^ c ^ d
                       : i < 60 ? (b & c) | (b & d) | (c & d)
                                : b ^ c ^ d;
    const uint32_t k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
    const uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
    e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
  }
  const uint32_t add[] = {a, b, c, d, e};
  for (size_t i = 0; i < 5; ++i) state_[i] += add[i];
}

void sha256_block(std::array<uint32_t, 8>& state, const uint8_t* bytes) {
  uint32_t w[64];
  for (size_t i = 0; i < 16; ++i) w[i] = word_at(bytes, i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound256[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const uint32_t add[] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] += add[i];
}

#ifdef __x86_64__
namespace {

// Four rounds at a time. The instructions want the state as (a, b, e, f) and (c, d, g, h), highest first.
[[gnu::target("sha,sse4.1")]] void sha256_block_x86(std::array<uint32_t, 8>& state, const uint8_t* bytes) {
  const auto load = [](const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); };
  const __m128i cdab = _mm_shuffle_epi32(load(&state[0]), 0xB1),
                efgh = _mm_shuffle_epi32(load(&state[4]), 0x1B);
  const __m128i abef_before = _mm_alignr_epi8(cdab, efgh, 8), cdgh_before = _mm_blend_epi16(efgh, cdab, 0xF0);
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i w[4], abef = abef_before, cdgh = cdgh_before;
  for (size_t i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(load(bytes + 16 * i), big_endian);
#pragma GCC unroll 16  // so that w stays in registers
  for (size_t i = 0; i < 16; ++i) {
    const __m128i now = w[i % 4], next = w[(i + 1) % 4], last = w[(i + 3) % 4];
    const __m128i added = _mm_add_epi32(now, load(&kRound256[4 * i]));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0E));
    w[i % 4] = _mm_sha256msg2_epu32(
        _mm_add_epi32(_mm_sha256msg1_epu32(now, next), _mm_alignr_epi8(last, w[(i + 2) % 4], 4)), last);
  }
  abef = _mm_add_epi32(abef, abef_before), cdgh = _mm_add_epi32(cdgh, cdgh_before);
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace

Sha256Block sha256_block_of_processor() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool has =
      __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1) && __builtin_cpu_supports("sse4.1");
  return has ? sha256_block_x86 : nullptr;
}
#else
Sha256Block sha256_block_of_processor() { return nullptr; }
#endif

template <>
void Sha256::block(const uint8_t* bytes) {
  static const Sha256Block fast = sha256_block_of_processor();
  fast ? fast(state_, bytes) : sha256_block(state_, bytes);
}

template <size_t kWords>
void Sha<kWords>::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t have = length_ % 64;
    if (have == 0 && bytes.size() >= 64) {
      block(reinterpret_cast<const uint8_t*>(bytes.data()));
      bytes = bytes.subspan(64);
      length_ += 64;
      continue;
    }
    const size_t count = std::min(64 - have, bytes.size());
    std::memcpy(pending_.data() + have, bytes.data(), count);
    bytes = bytes.subspan(count);
    length_ += count;
    if (have + count == 64) block(pending_.data());
  }
}

template <size_t kWords>
std::string Sha<kWords>::hex() {
  const uint64_t bits = length_ * 8;
  std::byte end[72] = {std::byte{0x80}};
  const size_t zeros = (119 - length_ % 64) % 64 + 1;  // 0x80 included: then 8 bytes end the block
  for (size_t i = 0; i < 8; ++i) end[zeros + i] = std::byte(bits >> (56 - 8 * i));
  add({end, zeros + 8});
  std::string out;
  for (uint32_t word : state_) out += fmt::format("{:08x}", word);
  return out;
}

template class Sha<5>;
template class Sha<8>;

Sha1 git_blob_sha1(uint64_t length) {
  Sha1 sha;
  const std::string head = fmt::format("blob {}", length);
  sha.add(std::as_bytes(std::span(head.c_str(), head.size() + 1)));
  return sha;
}

}  // namespace bertie::io
