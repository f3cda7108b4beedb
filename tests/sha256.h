// SHA-256 (FIPS 180-4): large results are compared with goldens of 32 bytes.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace skald::test {

namespace sha256_detail {

// The first 32 bits of the fractional parts of the primes' roots: the constants of the standard.
inline std::array<uint32_t, 64> prime_roots(bool cubic, size_t count) {
  std::array<uint32_t, 64> out = {};
  size_t n = 0;
  for (int candidate = 2; n < count; ++candidate) {
    bool prime = true;
    for (int d = 2; d * d <= candidate; ++d) prime = prime && candidate % d != 0;
    if (!prime) continue;
    const long double root = cubic ? std::cbrt(static_cast<long double>(candidate))
                                   : std::sqrt(static_cast<long double>(candidate));
    out[n++] = static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L);
  }
  return out;
}

}  // namespace sha256_detail

inline std::string sha256_hex(std::string_view data) {
  static const auto kRound = sha256_detail::prime_roots(true, 64);
  auto h = sha256_detail::prime_roots(false, 8);
  std::string tail(data.substr(data.size() / 64 * 64));
  tail += '\x80';
  while (tail.size() % 64 != 56) tail += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) {
    tail += static_cast<char>(uint64_t{data.size()} * 8 >> shift);
  }
  const auto block = [&](std::string_view bytes) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
      w[i] = 0;
      for (int k = 0; k < 4; ++k) w[i] = w[i] << 8 | static_cast<uint8_t>(bytes[4 * i + k]);
    }
    for (int i = 16; i < 64; ++i) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto s = h;
    for (int i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
      const uint32_t t1 = s[7] + s1 + ((s[4] & s[5]) ^ (~s[4] & s[6])) + kRound[i] + w[i];
      const uint32_t s0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
      const uint32_t t2 = s0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      for (int k = 7; k > 0; --k) s[k] = s[k - 1];
      s[4] += t1;
      s[0] = t1 + t2;
    }
    for (int k = 0; k < 8; ++k) h[k] += s[k];
  };
  for (size_t i = 0; i + 64 <= data.size(); i += 64) block(data.substr(i, 64));
  for (size_t i = 0; i < tail.size(); i += 64) block(std::string_view(tail).substr(i, 64));
  std::string hex;
  for (int k = 0; k < 8; ++k) {
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[h[k] >> shift & 15];
  }
  return hex;
}

}  // namespace skald::test
