#include "engine/nodes/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "engine/base/error.h"

namespace skald::nodes {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Found look_up(const Address& address, std::string& problem) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (status != 0) problem = gai_strerror(status);
  return {status == 0 ? found : nullptr, freeaddrinfo};
}

int milliseconds_to(Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

// Waits for the event. False: it did not come in time.
bool await(int fd, short event, Clock::time_point until) {
  pollfd one = {fd, event, 0};
  for (;;) {
    const int count = poll(&one, 1, milliseconds_to(until));
    if (count > 0) return true;
    if (count == 0 || errno != EINTR) return false;
  }
}

void set_up(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

Socket try_to_connect(const addrinfo& to, Clock::time_point until, std::string& problem) {
  Socket socket(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  if (!socket || (connect(socket.fd(), to.ai_addr, to.ai_addrlen) != 0 && errno != EINPROGRESS)) {
    error = errno;
  } else if (!await(socket.fd(), POLLOUT, until)) {
    error = ETIMEDOUT;
  } else {
    socklen_t size = sizeof error;
    getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) {
    problem = std::strerror(error);
    return Socket();
  }
  set_up(socket.fd());
  return socket;
}

}  // namespace

std::string Address::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return concat(v6 ? "[" : "", host, v6 ? "]:" : ":", port);
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

bool Socket::send(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return true;
}

bool Socket::receive(std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::recv(fd_, bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return true;
}

void Socket::limit_waits(double seconds) const {
  timeval time = {};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(time.tv_sec)) * 1e6);
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

void Socket::shut() const noexcept {
  if (fd_ >= 0) shutdown(fd_, SHUT_RDWR);
}

std::string Socket::peer() const {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST] = {};
  if (getpeername(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return "an unknown address";
  }
  return host;
}

Listener::Listener(const Address& address) {
  std::string problem;
  const Found found = look_up(address, problem);
  if (!found) fail(Exit::Failed, "rank 0 cannot listen at ", address.text(), ": ", problem);
  socket_ = Socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (socket_) setsockopt(socket_.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  constexpr int kWaiting = 256;
  if (!socket_ || bind(socket_.fd(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(socket_.fd(), kWaiting) != 0) {
    const bool in_use = errno == EADDRINUSE;
    fail(Exit::Failed, "rank 0 cannot listen at ", address.text(), ": ", std::strerror(errno),
         in_use ? "; is there a second rank 0? Else choose another port with --join"
                : "; --join must name this machine");
  }
}

Socket Listener::accept(Clock::time_point until) const {
  while (await(socket_.fd(), POLLIN, until)) {
    Socket socket(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;  // it has ended already
    set_up(socket.fd());
    return socket;
  }
  return Socket();
}

Socket connect_to(const Address& address, Clock::time_point until) {
  constexpr std::chrono::milliseconds kPause{50};
  constexpr std::chrono::seconds kAttempt{3};
  std::string problem;
  for (;;) {
    const Found found = look_up(address, problem);
    for (const addrinfo* to = found.get(); to; to = to->ai_next) {
      Socket socket = try_to_connect(*to, std::min(until, Clock::now() + kAttempt), problem);
      if (socket) return socket;
    }
    if (Clock::now() + kPause >= until) {
      fail(Exit::Failed, "no rank 0 answers at ", address.text(), ": ", problem,
           "; start it, or correct --join");
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace skald::nodes
