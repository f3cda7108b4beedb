// TCP connections between the processes of a group.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace skald::nodes {

using Clock = std::chrono::steady_clock;

struct Address {
  std::string host;
  int port = 0;

  std::string text() const;  // "10.0.0.1:29500", "[::1]:29500"
};

// Owns a connected socket.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  // Both return false if the connection has ended, or after the time of limit_waits().
  bool send(std::span<const std::byte> bytes) const;
  bool receive(std::span<std::byte> bytes) const;
  void limit_waits(double seconds) const;  // 0: no limit
  // Ends the calls of all threads on this socket. Bytes that have arrived can still be received.
  void shut() const noexcept;
  std::string peer() const;  // its address, without the port: "10.0.0.2"

 private:
  int fd_ = -1;
};

// Listens at one address. Throws Error(Exit::Failed) if that is not possible, for example since
// another process does.
class Listener {
 public:
  explicit Listener(const Address& address);
  // The next connection; an empty Socket if none came in time.
  Socket accept(Clock::time_point until) const;

 private:
  Socket socket_;
};

// Tries again and again, since the other process may not be there yet. Throws Error(Exit::Failed)
// after `until`.
Socket connect_to(const Address& address, Clock::time_point until);

}  // namespace skald::nodes
