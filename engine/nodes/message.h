// Messages between the processes of a group: a kind and a body of numbers and texts. What arrives
// is not trusted: sizes have bounds, and a body that does not say what it must is an Error.
//
// On the wire: magic, kind and the length of the body (32, 32 and 64 bits), then the body. Numbers
// are those of the machine, as all ranks run the same program.
#pragma once

#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/base/error.h"
#include "engine/nodes/socket.h"

namespace skald::nodes {

// From the first rank: Start to Write, which are answered by Done or Failed, and Drop, Abort and
// End, which are not. Facts is the first message of every other rank.
enum class Kind : uint32_t {
  Facts,
  Verdict,
  Start,
  Go,
  Run,
  Logits,
  Pick,
  Score,
  Read,
  Write,
  Drop,
  Abort,
  End,
  Done,
  Failed
};

// A message that the program of another rank would never send.
class Garbled : public Error {
 public:
  Garbled() : Error(Exit::Failed, "another rank sent a message that is not understood") {}
};

class Writer {
 public:
  template <class T>
  Writer& add(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    return append(&value, sizeof value);
  }
  template <class T>
  Writer& add_list(std::span<const T> values) {
    add(static_cast<uint64_t>(values.size()));
    return append(values.data(), values.size_bytes());
  }
  Writer& add_bytes(std::span<const std::byte> bytes) { return append(bytes.data(), bytes.size()); }
  Writer& add_text(std::string_view text) { return add_list(std::span<const char>(text)); }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Writer& append(const void* data, size_t size) {
    const auto* const first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
    return *this;
  }

  std::vector<std::byte> bytes_;
};

// Reads what a Writer has written, in the same order. Throws Garbled.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T take() {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, cut(sizeof value).data(), sizeof value);
    return value;
  }
  // A whole number from least to most.
  template <class T>
  T take(T least, T most) {
    const T value = take<T>();
    if (value < least || value > most) throw Garbled();
    return value;
  }
  template <class T>
  std::vector<T> take_list() {
    const auto count = take<uint64_t>();
    if (count > bytes_.size() / sizeof(T)) throw Garbled();
    std::vector<T> values(static_cast<size_t>(count));
    const auto from = cut(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  std::string take_text() {
    const std::vector<char> text = take_list<char>();
    return {text.begin(), text.end()};
  }
  std::span<const std::byte> rest() { return cut(bytes_.size()); }
  void end() const {
    if (!bytes_.empty()) throw Garbled();
  }

 private:
  std::span<const std::byte> cut(size_t size) {
    if (size > bytes_.size()) throw Garbled();
    const auto first = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return first;
  }

  std::span<const std::byte> bytes_;
};

struct Message {
  Kind kind = Kind::End;
  std::vector<std::byte> body;
};

inline constexpr uint64_t kMostBody = uint64_t{1} << 30;

// False if the connection has ended.
bool send_message(const Socket& socket, Kind kind, const Writer& body);
// Nothing if the connection has ended. Throws Garbled, also for a body longer than `most` bytes.
std::optional<Message> receive_message(const Socket& socket, uint64_t most = kMostBody);

}  // namespace skald::nodes
