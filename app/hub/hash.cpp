// FIPS 180-4.
#include "app/hub/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace skald {
namespace {

using State = std::array<uint32_t, 8>;

constexpr size_t kBlock = 64;

constexpr uint32_t kRound256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr State kStart256 = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr State kStart1 = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

uint32_t big_endian(const unsigned char* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

void mix256(State& state, const unsigned char* block) {
  uint32_t w[64];
  for (size_t i = 0; i < 16; ++i) w[i] = big_endian(block + 4 * i);
  for (size_t i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound256[i] + w[i];
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const State mixed = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state[i] += mixed[i];
}

void mix1(State& state, const unsigned char* block) {
  uint32_t w[80];
  for (size_t i = 0; i < 16; ++i) w[i] = big_endian(block + 4 * i);
  for (size_t i = 16; i < 80; ++i) {
    w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (size_t i = 0; i < 80; ++i) {
    uint32_t f = b ^ c ^ d, k = 0xca62c1d6;
    if (i < 20) {
      f = (b & c) | (~b & d), k = 0x5a827999;
    } else if (i < 40) {
      k = 0x6ed9eba1;
    } else if (i < 60) {
      f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
    }
    const uint32_t t = std::rotl(a, 5) + f + e + k + w[i];
    e = d, d = c, c = std::rotl(b, 30), b = a, a = t;
  }
  const uint32_t mixed[] = {a, b, c, d, e};
  for (size_t i = 0; i < 5; ++i) state[i] += mixed[i];
}

}  // namespace

Hash::Hash(Kind kind) : kind_(kind), state_(kind == Kind::Sha1 ? kStart1 : kStart256) {}

Hash Hash::sha256() { return Hash(Kind::Sha256); }

Hash Hash::git_blob(int64_t size) {
  Hash hash(Kind::Sha1);
  hash.add("blob " + std::to_string(size) + std::string(1, '\0'));
  return hash;
}

void Hash::add_block(const unsigned char* block) {
  kind_ == Kind::Sha1 ? mix1(state_, block) : mix256(state_, block);
}

void Hash::add(std::string_view bytes) {
  bytes_ += bytes.size();
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size();
  if (rest_size_ > 0) {
    const size_t count = std::min(left, kBlock - rest_size_);
    std::memcpy(rest_.data() + rest_size_, at, count);
    rest_size_ += count, at += count, left -= count;
    if (rest_size_ < kBlock) return;
    add_block(rest_.data());
    rest_size_ = 0;
  }
  for (; left >= kBlock; at += kBlock, left -= kBlock) add_block(at);
  if (left > 0) std::memcpy(rest_.data(), at, left);
  rest_size_ = left;
}

std::string Hash::hex() const {
  Hash end = *this;
  const uint64_t bits = bytes_ * 8;
  std::string padding(1, '\x80');
  while ((rest_size_ + padding.size()) % kBlock != kBlock - 8) padding += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) padding += static_cast<char>(bits >> shift);
  end.add(padding);
  std::string text;
  for (size_t i = 0; i < (kind_ == Kind::Sha1 ? 5U : 8U); ++i) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      text += "0123456789abcdef"[end.state_[i] >> shift & 15];
    }
  }
  return text;
}

}  // namespace skald
