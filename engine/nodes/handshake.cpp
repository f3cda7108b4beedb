#include "engine/nodes/handshake.h"

#include <sys/random.h>

#include <array>

#include "engine/base/error.h"
#include "engine/base/sha256.h"

namespace skald::nodes {
namespace {

constexpr uint64_t kHelloMagic = 0x31444f4e4c414b53;  // "SKALNOD1"
constexpr double kPatience = 5;                       // seconds

using Nonce = std::array<uint8_t, 32>;

struct Hello {
  uint64_t magic;
  uint32_t channel, rank, of, zero;
  Nonce nonce;
};
struct Answer {
  uint64_t magic;
  Nonce nonce;
  Sha256::Digest proof;
};

Nonce draw() {
  Nonce nonce = {};
  for (size_t have = 0; have < nonce.size();) {
    const ssize_t count = getrandom(nonce.data() + have, nonce.size() - have, 0);
    if (count > 0) have += static_cast<size_t>(count);
  }
  return nonce;
}

// HMAC-SHA256 (RFC 2104) of what both sides have said.
Sha256::Digest prove(const std::string& secret, std::string_view side, const Hello& hello,
                     const Nonce& other) {
  std::array<uint8_t, 64> key = {};
  const Sha256::Digest hashed = Sha256().add(secret).digest();
  std::copy(hashed.begin(), hashed.end(), key.begin());
  const auto add_key = [&](Sha256& hash, uint8_t pad) {
    std::array<uint8_t, 64> block = key;
    for (uint8_t& byte : block) byte ^= pad;
    hash.add(std::as_bytes(std::span(block)));
  };
  Sha256 inner, outer;
  add_key(inner, 0x36);
  inner.add_field(side).add(std::as_bytes(std::span(&hello, 1)));
  const Sha256::Digest first = inner.add(std::as_bytes(std::span(other))).digest();
  add_key(outer, 0x5c);
  return outer.add(std::as_bytes(std::span(first))).digest();
}

// In a time that does not depend on where they differ.
bool equal(const Sha256::Digest& a, const Sha256::Digest& b) {
  uint8_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) different |= static_cast<uint8_t>(a[i] ^ b[i]);
  return different == 0;
}

template <class T>
bool send_struct(const Socket& socket, const T& value) {
  return socket.send(std::as_bytes(std::span(&value, 1)));
}
template <class T>
bool receive_struct(const Socket& socket, T& value) {
  return socket.receive(std::as_writable_bytes(std::span(&value, 1)));
}

}  // namespace

std::optional<Introduction> meet(const Socket& socket, const std::string& secret) {
  socket.limit_waits(kPatience);
  Hello hello = {};
  if (!receive_struct(socket, hello) || hello.magic != kHelloMagic ||
      hello.channel >= static_cast<uint32_t>(kChannels)) {
    return {};
  }
  Answer answer = {kHelloMagic, draw(), {}};
  answer.proof = prove(secret, "first rank", hello, answer.nonce);
  Sha256::Digest proof = {};
  if (!send_struct(socket, answer) || !receive_struct(socket, proof)) return {};
  const uint8_t welcome = equal(proof, prove(secret, "rank", hello, answer.nonce)) ? 1 : 0;
  if (!send_struct(socket, welcome) || welcome == 0) return {};
  socket.limit_waits(0);
  return Introduction{static_cast<Channel>(hello.channel), static_cast<int>(hello.rank),
                      static_cast<int>(hello.of)};
}

std::string introduce(const Socket& socket, const Introduction& self, const std::string& secret) {
  constexpr const char* kSilent = "does not answer as skald does";
  constexpr const char* kOther = "has another secret (SKALD_SECRET, or the job's id)";
  socket.limit_waits(kPatience);
  const Hello hello = {kHelloMagic,
                       static_cast<uint32_t>(self.channel),
                       static_cast<uint32_t>(self.rank),
                       static_cast<uint32_t>(self.of),
                       0,
                       draw()};
  Answer answer = {};
  if (!send_struct(socket, hello) || !receive_struct(socket, answer)) return kSilent;
  if (answer.magic != kHelloMagic) return kSilent;
  if (!equal(answer.proof, prove(secret, "first rank", hello, answer.nonce))) return kOther;
  uint8_t welcome = 0;
  if (!send_struct(socket, prove(secret, "rank", hello, answer.nonce)) ||
      !receive_struct(socket, welcome)) {
    return kSilent;
  }
  if (welcome != 1) return kOther;
  socket.limit_waits(0);
  return "";
}

}  // namespace skald::nodes
