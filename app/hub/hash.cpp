// FIPS 180-4.
#include "app/hub/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "app/hub/sha256_blocks.h"

namespace skald {
namespace {

using State = Sha256State;

constexpr size_t kBlock = 64;

constexpr State kStart256 = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr State kStart1 = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

uint32_t big_endian(const unsigned char* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
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

void Hash::add_blocks(const unsigned char* bytes, size_t blocks) {
  if (kind_ == Kind::Sha256) return sha256_blocks(state_, bytes, blocks);
  for (; blocks > 0; --blocks, bytes += kBlock) mix1(state_, bytes);
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
    add_blocks(rest_.data(), 1);
    rest_size_ = 0;
  }
  add_blocks(at, left / kBlock);
  at += left / kBlock * kBlock;
  left %= kBlock;
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
