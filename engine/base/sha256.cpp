#include "engine/base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace skald {
namespace {

constexpr size_t kBlock = 64;

template <size_t kCount>
constexpr std::array<uint64_t, kCount> first_primes() {
  std::array<uint64_t, kCount> primes = {};
  size_t count = 0;
  for (uint64_t candidate = 2; count < kCount; ++candidate) {
    bool prime = true;
    for (size_t i = 0; i < count; ++i) prime = prime && candidate % primes[i] != 0;
    if (prime) primes[count++] = candidate;
  }
  return primes;
}

// The standard's constants: the first 32 bits of the fractional parts of the primes' square roots
// (power 2) or cube roots (power 3).
template <size_t kCount>
constexpr std::array<uint32_t, kCount> root_fractions(int power) {
  __extension__ using Wide = unsigned __int128;
  std::array<uint32_t, kCount> fractions = {};
  const auto primes = first_primes<kCount>();
  for (size_t i = 0; i < kCount; ++i) {
    // floor(prime^(1/power) * 2^32): the largest integer whose power is at most prime * 2^(32 *
    // power).
    uint64_t root = 0;
    for (int bit = 37; bit >= 0; --bit) {
      const uint64_t trial = root | uint64_t{1} << bit;
      Wide product = Wide{trial} * trial;
      if (power == 3) product *= trial;
      if (product <= Wide{primes[i]} << (32 * power)) root = trial;
    }
    fractions[i] = static_cast<uint32_t>(root);
  }
  return fractions;
}

constexpr auto kStart = root_fractions<8>(2);
constexpr auto kRound = root_fractions<64>(3);

uint32_t load_big_endian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

}  // namespace

Sha256::Sha256() : state_(kStart) {}

void Sha256::add_block(const uint8_t* block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = load_big_endian(block + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[static_cast<size_t>(i)] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const uint32_t sums[] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += sums[i];
}

Sha256& Sha256::add(std::span<const std::byte> bytes) {
  const auto* next = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size();
  const auto held = static_cast<size_t>(bytes_ % kBlock);
  bytes_ += left;
  if (held > 0) {
    const size_t taken = std::min(left, kBlock - held);
    std::copy_n(next, taken, pending_.begin() + static_cast<std::ptrdiff_t>(held));
    next += taken;
    left -= taken;
    if (held + taken < kBlock) return *this;
    add_block(pending_.data());
  }
  for (; left >= kBlock; next += kBlock, left -= kBlock) add_block(next);
  std::copy_n(next, left, pending_.begin());
  return *this;
}

Sha256& Sha256::add_number(uint64_t number) {
  std::byte bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
  return add(bytes);
}

Sha256& Sha256::add_field(std::string_view bytes) { return add_number(bytes.size()).add(bytes); }

Sha256::Digest Sha256::digest() const {
  Sha256 last = *this;
  constexpr std::byte kPadding[kBlock] = {std::byte{0x80}};
  const auto held = static_cast<size_t>(bytes_ % kBlock);
  const size_t zeros = (held < 56 ? 56 : 120) - held;
  last.add(std::span(kPadding).first(zeros));
  std::byte length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(bytes_ * 8 >> (56 - 8 * i));
  last.add(length);
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<uint8_t>(last.state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

std::string Sha256::hex() const {
  std::string text;
  for (const uint8_t byte : digest()) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view bytes) { return Sha256().add(bytes).hex(); }

}  // namespace skald
