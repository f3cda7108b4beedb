#include "engine/nodes/watch.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "engine/base/error.h"
#include "engine/base/number_text.h"

namespace skald::nodes {
namespace {

constexpr char kAlive = '.', kFarewell = 'e';

void say(const Socket& socket, char word) {
  // A full buffer means that the other side does not listen, which its silence will tell.
  [[maybe_unused]] const ssize_t sent = ::send(socket.fd(), &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

Watch::Watch(std::vector<const Socket*> sockets, double timeout_seconds,
             std::function<void(size_t, const std::string&)> lost)
    : timeout_(timeout_seconds), lost_(std::move(lost)) {
  for (const Socket* socket : sockets) peers_.push_back({socket, Clock::now()});
  thread_ = std::thread([this] { work(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
  for (const Peer& peer : peers_) say(*peer.socket, kFarewell);
}

bool Watch::hear(size_t index) {
  Peer& peer = peers_[index];
  if (peer.left) return true;
  char words[64];
  for (;;) {
    const ssize_t count = ::recv(peer.socket->fd(), words, sizeof words, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count <= 0) {
      lost_(index, "has ended");
      return false;
    }
    peer.heard = Clock::now();
    peer.left = std::find(words, words + count, kFarewell) != words + count;
    if (peer.left) return true;
  }
  if (Clock::now() - peer.heard <= timeout_) return true;
  lost_(index, concat("has not answered for ", number_text(timeout_.count(), "%.3g"), " s"));
  return false;
}

void Watch::work() {
  using Seconds = std::chrono::duration<double>;
  const Seconds pause(std::clamp(timeout_.count() / 10, 0.02, 0.1));
  const Seconds between_words(std::min(timeout_.count() / 4, 1.0));
  auto said = Clock::now() - std::chrono::hours(1);
  for (;;) {
    if (Clock::now() - said >= between_words) {
      for (const Peer& peer : peers_) say(*peer.socket, kAlive);
      said = Clock::now();
    }
    for (size_t peer = 0; peer < peers_.size(); ++peer) {
      if (!hear(peer)) return;
    }
    std::unique_lock lock(mutex_);
    if (stopping_.wait_for(lock, pause, [this] { return stop_; })) return;
  }
}

}  // namespace skald::nodes
