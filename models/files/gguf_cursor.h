// Reads numbers and strings in sequence from the head of a GGUF file, and never past its end. This
// is the only code that uses lengths from the file, after checking them against the remaining
// bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "engine/base/error.h"

namespace skald {

class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> bytes, std::string_view path)
      : bytes_(bytes), path_(path) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return bytes_.size() - position_; }

  template <class Number>
  Number read(const char* what) {
    Number number;
    std::memcpy(&number, take(sizeof(Number), what).data(), sizeof(Number));
    return number;
  }

  // A string in the file: a u64 length and the bytes, without a terminator.
  std::string_view read_string(const char* what) {
    const auto length = read<uint64_t>(what);
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::span<const std::byte> take(uint64_t size, const char* what) {
    if (size > left()) {
      fail(Exit::Model, path_, ": ", what, " at byte ", position_, " needs ", size,
           " bytes, but the file has only ", left(), " more; it is incomplete or damaged");
    }
    const auto taken = bytes_.subspan(position_, size);
    position_ += size;
    return taken;
  }

  // Checks a count of items of at least smallest_bytes each, before memory is allocated for them.
  void check_count(uint64_t count, uint64_t smallest_bytes, const char* what) const {
    if (count > left() / smallest_bytes) {
      fail(Exit::Model, path_, ": says that it has ", count, " ", what, ", but only ", left(),
           " bytes follow; it is incomplete or damaged");
    }
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view path_;
  uint64_t position_ = 0;
};

}  // namespace skald
