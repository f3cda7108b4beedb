// SHA-256 of whole blocks of 64 bytes: the inner loop of Hash. An x86 CPU with instructions for it
// is several times as fast as portable code, which every byte of a download would wait for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace skald {

using Sha256State = std::array<uint32_t, 8>;

// Mixes `blocks` blocks of 64 bytes into the state. The second one is for CPUs without the
// instructions, and for tests.
void sha256_blocks(Sha256State& state, const unsigned char* bytes, size_t blocks);
void portable_sha256_blocks(Sha256State& state, const unsigned char* bytes, size_t blocks);

}  // namespace skald
