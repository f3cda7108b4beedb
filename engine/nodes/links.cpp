#include "engine/nodes/links.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "engine/base/number_text.h"
#include "engine/base/printable.h"

namespace skald::nodes {
namespace {

constexpr uint64_t kMostFacts = 1 << 16;

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Writer facts_body(const Facts& facts) {
  Writer body;
  body.add(static_cast<uint32_t>(facts.size()));
  for (const auto& [name, value] : facts) body.add_text(name).add_text(value);
  return body;
}

// What differs between the first rank's facts and another's; empty: nothing.
std::string first_difference(const Facts& mine, Reader other) {
  const char* const version = "it is another version of skald";
  if (other.take<uint32_t>() != mine.size()) return version;
  for (const auto& [name, value] : mine) {
    const std::string their_name = other.take_text(), their_value = other.take_text();
    if (their_name != name) return version;
    if (their_value != value) {
      return concat("its ", name, " is ", printable(their_value, 80), ", the first rank's is ",
                    printable(value, 80));
    }
  }
  other.end();
  return "";
}

}  // namespace

Links::Links(const Party& party)
    : rank_(party.rank), ranks_(party.of), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) fail(Exit::Failed, "the system has no file descriptor left");
  if (rank_ == 0) {
    gather(party);
    check_facts(party);
  } else {
    join(party);
  }
  std::vector<const Socket*> watched;
  for (const auto& peer : peers_) watched.push_back(&peer->sockets[2]);
  watch_ = std::make_unique<Watch>(watched, party.timeout, [this](size_t peer, const auto& why) {
    lose(peers_[peer]->rank, why);
  });
}

Links::~Links() {
  std::string reason;
  if (std::uncaught_exceptions() > 0) {
    // Another thread may know that a rank is lost, and not have said it yet.
    const std::lock_guard lock(mutex_);
    reason = end_.empty() ? "the first rank has failed, and says why" : end_;
  }
  say_end(reason);
  watch_.reset();
}

void Links::gather(const Party& party) {
  for (int rank = 1; rank < ranks_; ++rank) {
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->rank = rank;
  }
  const Listener listener(party.address);
  const auto until = after(party.join_timeout);
  const auto complete = [](const auto& peer) {
    return std::all_of(std::begin(peer->sockets), std::end(peer->sockets),
                       [](const Socket& socket) { return static_cast<bool>(socket); });
  };
  int strangers = 0;
  while (!std::all_of(peers_.begin(), peers_.end(), complete)) {
    Socket socket = listener.accept(until);
    if (!socket) {
      const auto missing = std::find_if_not(peers_.begin(), peers_.end(), complete);
      fail(Exit::Failed, "rank ", (*missing)->rank, " has not come to ", party.address.text(),
           " within ", number_text(party.join_timeout, "%.3g"), " s",
           strangers > 0 ? concat("; refused without the secret: ", strangers) : "");
    }
    if (!take(std::move(socket), party)) ++strangers;
  }
}

// False: a stranger.
bool Links::take(Socket socket, const Party& party) {
  const auto introduction = meet(socket, party.secret);
  if (!introduction) return false;
  const auto& [channel, rank, of] = *introduction;
  std::string wrong;
  if (of != ranks_) {
    wrong = concat("it is one of ", of, " ranks, and the first rank is one of ", ranks_);
  } else if (rank < 1 || rank >= ranks_) {
    wrong = rank == 0 ? "there is a first rank already" : "there is no such rank";
  } else if (at(rank).sockets[static_cast<size_t>(channel)]) {
    wrong = "there is such a rank already";
  }
  // Its other side waits for the verdict before it goes on.
  const bool told = send_message(socket, Kind::Verdict, Writer().add_text(wrong));
  if (!wrong.empty()) {
    fail(Exit::Failed, "rank ", rank, " (", socket.peer(), ") cannot join: ", wrong);
  }
  if (!told) return true;
  at(rank).host = socket.peer();
  at(rank).sockets[static_cast<size_t>(channel)] = std::move(socket);
  return true;
}

void Links::check_facts(const Party& party) {
  std::string problem;
  for (const auto& peer : peers_) {
    const Socket& socket = peer->sockets[0];
    socket.limit_waits(party.join_timeout);
    const auto message = receive_message(socket, kMostFacts);
    if (!message || message->kind != Kind::Facts) fail_gone(peer->rank);
    const std::string wrong = first_difference(party.facts, Reader(message->body));
    if (!wrong.empty() && problem.empty()) problem = concat(name(peer->rank), ": ", wrong);
    socket.limit_waits(0);
  }
  for (const auto& peer : peers_) {
    send_message(peer->sockets[0], Kind::Verdict, Writer().add_text(problem));
  }
  if (!problem.empty()) fail(Exit::Failed, problem, "; all ranks take the same command");
}

void Links::join(const Party& party) {
  peers_.push_back(std::make_unique<Peer>());
  Peer& first = *peers_.front();
  const auto until = after(party.join_timeout);
  const auto verdict = [&](const Socket& socket) {
    socket.limit_waits(party.join_timeout + party.timeout);
    const auto message = receive_message(socket, kMostFacts);
    if (!message || message->kind != Kind::Verdict) {
      fail(Exit::Failed, "the first rank at ", party.address.text(), " has ended");
    }
    socket.limit_waits(0);
    return Reader(message->body).take_text();
  };
  for (int channel = 0; channel < kChannels; ++channel) {
    Socket socket = connect_to(party.address, until);
    std::string wrong =
        introduce(socket, {static_cast<Channel>(channel), rank_, ranks_}, party.secret);
    if (!wrong.empty()) fail(Exit::Failed, party.address.text(), ": what listens there ", wrong);
    wrong = verdict(socket);
    if (!wrong.empty()) fail(Exit::Failed, "rank ", rank_, " cannot join: ", wrong);
    first.sockets[channel] = std::move(socket);
  }
  first.host = first.sockets[0].peer();
  const Socket& control = first.sockets[0];
  send_message(control, Kind::Facts, facts_body(party.facts));
  const std::string wrong = verdict(control);
  if (!wrong.empty()) fail(Exit::Failed, "the group does not begin: ", wrong);
}

std::string Links::name(int rank) const { return concat("rank ", rank, " (", at(rank).host, ")"); }

void Links::send(int rank, Kind kind, const Writer& body) {
  Peer& peer = at(rank);
  {
    const std::lock_guard lock(peer.sending);
    if (send_message(peer.sockets[0], kind, body)) return;
  }
  fail_gone(rank);
}

bool Links::pending() const {
  pollfd control = {at(0).sockets[0].fd(), POLLIN, 0};
  return poll(&control, 1, 0) > 0;
}

void Links::answer(Kind kind, const Writer& body) {
  Peer& first = at(0);
  const std::lock_guard lock(first.sending);
  send_message(first.sockets[0], kind, body);
}

Message Links::receive(int rank, uint64_t most) {
  auto message = receive_message(at(rank).sockets[0], most);
  if (!message) fail_gone(rank);
  return std::move(*message);
}

void Links::wake() noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.fd(), &one, sizeof one);
}

void Links::calm() noexcept {
  if (gone()) return;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t count_read = read(wake_.fd(), &count, sizeof count);
}

bool Links::gone() {
  const std::lock_guard lock(mutex_);
  return !end_.empty();
}

void Links::fail_gone(int rank) {
  if (rank_ != 0) hear_reason();
  lose(rank, "has ended");
  const std::lock_guard lock(mutex_);
  fail(Exit::Failed, end_);
}

// The end of another connection may come before the message in which the first rank says why.
void Links::hear_reason() {
  const Socket& control = at(0).sockets[0];
  control.limit_waits(1);
  try {
    while (const auto message = receive_message(control)) {
      if (message->kind != Kind::End) continue;
      const std::string reason = Reader(message->body).take_text();
      const std::lock_guard lock(mutex_);
      if (end_.empty()) end_ = printable(reason, 2000);
      return;
    }
  } catch (const Error&) {  // the connection has ended in the middle of a message
  }
}

void Links::lose(int rank, const std::string& why) noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      if (!end_.empty()) return;
      end_ = concat(name(rank), " is lost: it ", why);
    }
    say_end(end_);
  } catch (...) {  // no memory for a text; the sockets still end below
  }
  for (const auto& peer : peers_) {
    peer->sockets[0].shut();
    peer->sockets[1].shut();
  }
  wake();
}

void Links::say_end(const std::string& reason) {
  if (rank_ != 0) return;
  for (const auto& peer : peers_) {
    // A thread that sends to a rank which does not listen may hold the lock for longer.
    const std::unique_lock lock(peer->sending, std::chrono::seconds(1));
    if (!lock || !peer->sockets[0]) continue;
    peer->sockets[0].limit_waits(1);
    send_message(peer->sockets[0], Kind::End, Writer().add_text(reason));
  }
}

}  // namespace skald::nodes
