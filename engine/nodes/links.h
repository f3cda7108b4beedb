// The connections of one process of a group: the first rank has some to every other rank, and each
// of these to the first. When one process is lost, all calls end with an Error that names it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/nodes/handshake.h"
#include "engine/nodes/message.h"
#include "engine/nodes/watch.h"

namespace skald::nodes {

// What must be equal on all ranks: "version" and "0.2.0", in one order.
using Facts = std::vector<std::pair<std::string, std::string>>;

struct Party {
  int rank = 0, of = 1;
  Address address;            // where the first rank listens
  std::string secret;         // which all ranks know
  double timeout = 20;        // seconds of silence after which a rank is lost
  double join_timeout = 120;  // seconds that the first rank waits for the others, and they for it
  Facts facts;
};

class Links {
 public:
  // The first rank waits for all others, which connect to it. Throws Error if one does not come in
  // time, or if its facts differ.
  explicit Links(const Party& party);
  // Tells the others that the group ends, with an error if one is being thrown.
  ~Links();

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int wake_fd() const { return wake_.fd(); }  // readable after wake(), until calm() or for ever

  // Everything below: `rank` is the other side.
  const Socket& control(int rank) const { return at(rank).sockets[0]; }
  const Socket& data(int rank) const { return at(rank).sockets[1]; }
  std::string name(int rank) const;  // "rank 1 (10.0.0.2)"

  // Any thread may send. Both throw Error if the connection has ended.
  void send(int rank, Kind kind, const Writer& body);
  Message receive(int rank, uint64_t most = kMostBody);
  // True if the first rank has sent a message that is not received yet, or its connection has
  // ended.
  bool pending() const;
  // To the first rank. If the connection has ended, the next receive() says so.
  void answer(Kind kind, const Writer& body);

  // For a rank that fails while others may wait for its numbers. Any thread may call it.
  void wake() noexcept;
  void calm() noexcept;

  // Throws the Error for a connection that has ended: why the group has ended, if that is known.
  [[noreturn]] void fail_gone(int rank);
  bool gone();

 private:
  struct Peer {
    int rank = 0;
    std::string host;
    Socket sockets[kChannels];
    std::timed_mutex sending;
  };

  Peer& at(int rank) const { return *peers_[static_cast<size_t>(rank_ == 0 ? rank - 1 : 0)]; }
  void gather(const Party& party);
  bool take(Socket socket, const Party& party);
  void check_facts(const Party& party);
  void join(const Party& party);
  void lose(int rank, const std::string& why) noexcept;
  void hear_reason();  // of the first rank
  void say_end(const std::string& reason);

  int rank_, ranks_;
  Socket wake_;  // an eventfd
  std::vector<std::unique_ptr<Peer>> peers_;
  std::mutex mutex_;
  std::string end_;  // why the group has ended; empty: it has not
  std::unique_ptr<Watch> watch_;
};

}  // namespace skald::nodes
