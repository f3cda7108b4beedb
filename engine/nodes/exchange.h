// The exchange of ranks in several processes, over TCP: the first rank receives all parts, adds
// them up in the order of ranks, and sends the sum to all. So the numbers are the same to the last
// bit as those of ThreadExchange, whatever the network does.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "engine/nodes/links.h"
#include "engine/step/exchange.h"

namespace skald::nodes {

// Numbers over one connection, in frames. A rank that fails may leave the others in the middle of a
// frame. Each frame has the number of its epoch, which reset() begins; what is left of earlier
// epochs is completed with zeros by the sender, and skipped by the receiver.
class Frames {
 public:
  enum class Result { Done, Woken, Ended };

  // wake_fd: while it is readable, calls return Woken.
  Frames(const Socket& socket, int wake_fd) : socket_(socket), wake_fd_(wake_fd) {}

  Result send(uint64_t epoch, std::span<const float> numbers);
  Result receive(uint64_t epoch, std::span<float> numbers);  // throws Garbled

 private:
  struct Head {
    uint64_t magic, epoch, bytes;
  };

  Result send_bytes(std::span<const std::byte> bytes, uint64_t& sent);
  Result receive_bytes(std::span<std::byte> bytes, uint64_t& received);
  Result complete();  // the frame that an earlier call has begun to send
  Result skip();      // what is left of the frame that an earlier call has begun to receive
  Result await(short event) const;

  const Socket& socket_;
  const int wake_fd_;
  Head out_ = {}, in_ = {};
  // Bytes of the frame, head included, that went out or came in; and its length, 0: no frame.
  uint64_t sent_ = 0, out_bytes_ = 0, received_ = 0, in_bytes_ = 0;
};

class NodeExchange final : public HostExchange {
 public:
  explicit NodeExchange(std::shared_ptr<Links> links);

  void all_reduce(int rank, std::span<float> x) override;
  void all_gather(int rank, std::span<float> columns, std::span<const int64_t> borders,
                  std::span<float> out) override;

  // abort() and reset() are called in the first rank's process. The epoch travels to the others
  // with each job.
  void abort() noexcept override;
  void reset() override;
  uint64_t epoch() const { return epoch_; }
  // In the others' processes: begins a job. Throws Error if its epoch has ended, since the message
  // of a failure may come before that of the job.
  void begin(uint64_t epoch);
  void end(uint64_t epoch) { ended_ = epoch + 1; }

 private:
  Frames& with(int rank) {
    return frames_[static_cast<size_t>(links_->rank() == 0 ? rank - 1 : 0)];
  }
  void send(int rank, std::span<const float> numbers);
  void receive(int rank, std::span<float> numbers);
  [[noreturn]] void fail_with(int rank, Frames::Result result);

  std::shared_ptr<Links> links_;
  std::vector<Frames> frames_;
  std::vector<float> part_;  // that has come from another rank
  std::atomic<uint64_t> epoch_{0};
  uint64_t ended_ = 0;  // earlier epochs have ended
};

}  // namespace skald::nodes
