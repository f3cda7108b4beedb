// SHA-256 (FIPS 180-4) over bytes that arrive in several calls. Results name models, tokenizers and
// texts by this hash. Portable code, about 300 MB/s on one core.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace skald {

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  Sha256();
  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(std::string_view bytes) { return add(std::as_bytes(std::span(bytes))); }

  // For a hash over several fields: adds the length first, so that "ab" + "c" differs from "a" +
  // "bc".
  Sha256& add_field(std::string_view bytes);
  Sha256& add_number(uint64_t number);  // 8 bytes, little-endian

  // The hash of all bytes added so far. More bytes may be added afterwards.
  Digest digest() const;
  std::string hex() const;  // 64 digits, lower case

 private:
  void add_block(const uint8_t* block);  // [64]

  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> pending_ = {};  // bytes after the last whole block: bytes_ % 64 of them
  uint64_t bytes_ = 0;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace skald
