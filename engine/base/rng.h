// Random numbers without state. A draw is a function of (seed, request, position, draw), so a
// request's samples depend neither on other requests nor on the order of calls, and the device
// computes the same bits. The generator is Philox4x32-10 of Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3" (2011).
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

struct RandomWords {
  uint32_t word[4];
};

// Encrypts `counter` with the 64-bit `key` in ten rounds of multiply, swap and exclusive or.
SKALD_HD inline RandomWords philox4x32_10(RandomWords counter, uint64_t key) {
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter.word[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9u;  // the golden ratio
    key1 += 0xBB67AE85u;  // sqrt(3) - 1
  }
  return counter;
}

// Position and draw share 64 bits of the counter: 48 for the position, 16 for the draw.
inline constexpr int64_t kMaxRandomPosition = (int64_t{1} << 48) - 1;

// 128 independent bits, for 0 <= position <= kMaxRandomPosition. A position that needs several
// draws numbers them with `draw`.
SKALD_HD inline RandomWords random_words(uint64_t seed, uint64_t request, int64_t position,
                                         uint16_t draw = 0) {
  const uint64_t place = static_cast<uint64_t>(position) | uint64_t{draw} << 48;
  return philox4x32_10({{static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32),
                         static_cast<uint32_t>(request), static_cast<uint32_t>(request >> 32)}},
                       seed);
}

// A uniform number in [0, 1), a multiple of 2^-53.
SKALD_HD inline double uniform(uint64_t seed, uint64_t request, int64_t position,
                               uint16_t draw = 0) {
  const RandomWords random = random_words(seed, request, position, draw);
  const uint64_t bits = uint64_t{random.word[1]} << 32 | random.word[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace skald
