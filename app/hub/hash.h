// SHA-256 and SHA-1 of bytes that come in parts. The hub names a large file by its SHA-256, and a
// small one as git does: by the SHA-1 of "blob SIZE", a zero byte and the content.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace skald {

class Hash {
 public:
  static Hash sha256();
  static Hash git_blob(int64_t size);  // of a content of `size` bytes

  void add(std::string_view bytes);
  std::string hex() const;  // of all bytes so far; more may follow

 private:
  enum class Kind { Sha1, Sha256 };
  explicit Hash(Kind kind);
  void add_blocks(const unsigned char* bytes, size_t blocks);  // of 64 bytes

  Kind kind_;
  std::array<uint32_t, 8> state_ = {};  // SHA-1 uses five
  std::array<unsigned char, 64> rest_ = {};
  size_t rest_size_ = 0;  // bytes of a block that is not whole yet
  uint64_t bytes_ = 0;
};

}  // namespace skald
