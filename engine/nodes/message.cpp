#include "engine/nodes/message.h"

#include <algorithm>

namespace skald::nodes {
namespace {

constexpr uint32_t kMessageMagic = 0x314d4b53;  // "SKM1"

struct MessageHead {
  uint32_t magic, kind;
  uint64_t bytes;
};

}  // namespace

bool send_message(const Socket& socket, Kind kind, const Writer& body) {
  const MessageHead head = {kMessageMagic, static_cast<uint32_t>(kind), body.bytes().size()};
  return socket.send(std::as_bytes(std::span(&head, 1))) && socket.send(body.bytes());
}

std::optional<Message> receive_message(const Socket& socket, uint64_t most) {
  MessageHead head = {};
  if (!socket.receive(std::as_writable_bytes(std::span(&head, 1)))) return {};
  if (head.magic != kMessageMagic || head.kind > static_cast<uint32_t>(Kind::Failed) ||
      head.bytes > most) {
    throw Garbled();
  }
  Message message{static_cast<Kind>(head.kind), {}};
  // Memory is taken as bytes arrive: a length alone does not cost any.
  constexpr uint64_t kAtOnce = 1 << 20;
  while (message.body.size() < head.bytes) {
    const size_t have = message.body.size();
    message.body.resize(have + static_cast<size_t>(std::min(kAtOnce, head.bytes - have)));
    if (!socket.receive(std::span(message.body).subspan(have))) return {};
  }
  return message;
}

}  // namespace skald::nodes
