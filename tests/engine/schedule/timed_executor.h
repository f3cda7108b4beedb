// An executor with a clock of its own: each row and each copied byte takes a given time. It counts
// copies and the host's memory that was asked for.
#pragma once

#include "engine/base/error.h"
#include "engine/schedule/swap_space.h"
#include "tests/engine/wrapped_executor.h"

namespace skald::test {

class TimedExecutor final : public WrappedExecutor {
 public:
  using WrappedExecutor::WrappedExecutor;

  double seconds_of_row = 1, seconds_of_byte = 0;
  int64_t host_bytes = 0;             // that were asked for
  int64_t most_host_bytes = 1 << 30;  // more is refused
  bool writes = true;                 // false: nothing can be copied back
  int64_t pages_out = 0, pages_back = 0, states_out = 0, states_back = 0;

  SecondsClock clock() {
    return [this] { return now_; };
  }

  int64_t run(Step step) override {
    for (const SeqRows& rows : step) {
      now_ += seconds_of_row * static_cast<double>(rows.tokens.size());
    }
    return inner_->run(step);
  }
  void read_cache(std::span<const CacheRead> parts) override {
    for (const CacheRead& part : parts) {
      ++(part.kind == CacheKind::Page ? pages_out : states_out);
      now_ += seconds_of_byte * static_cast<double>(part.bytes.size());
    }
    inner_->read_cache(parts);
  }
  void write_cache(std::span<const CacheWrite> parts) override {
    if (!writes) fail(Exit::Memory, "no memory for copies");
    for (const CacheWrite& part : parts) {
      ++(part.kind == CacheKind::Page ? pages_back : states_back);
      now_ += seconds_of_byte * static_cast<double>(part.bytes.size());
    }
    inner_->write_cache(parts);
  }
  std::shared_ptr<std::byte> host_memory(int64_t bytes) override {
    host_bytes += bytes;
    if (host_bytes > most_host_bytes) fail(Exit::Memory, "no memory of the host");
    return inner_->host_memory(bytes);
  }

 private:
  double now_ = 0;
};

}  // namespace skald::test
