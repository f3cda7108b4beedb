// How a process proves that it belongs to a group, on each of its connections to the first rank.
// Both sides know a secret. Each proves it by a hash over the secret and two numbers that were
// drawn for this connection, so the secret itself is never sent, and a recording is of no use
// later. Nothing else is encrypted or signed.
#pragma once

#include <optional>
#include <string>

#include "engine/nodes/socket.h"

namespace skald::nodes {

// The connections of a rank: messages, numbers of the exchange, and signs of life.
enum class Channel : uint32_t { Control, Data, Watch };
inline constexpr int kChannels = 3;

struct Introduction {
  Channel channel = Channel::Control;
  int rank = 0, of = 0;
};

// The first rank's side. Nothing if the other side does not prove the secret within a few seconds,
// or is no skald.
std::optional<Introduction> meet(const Socket& socket, const std::string& secret);
// The other side's. Returns what is wrong; empty: nothing.
std::string introduce(const Socket& socket, const Introduction& self, const std::string& secret);

}  // namespace skald::nodes
