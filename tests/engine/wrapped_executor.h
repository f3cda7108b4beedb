// Forwards calls to another executor of the same interface. Test executors override some of them.
#pragma once

#include <memory>
#include <utility>

#include "engine/step/backend.h"

namespace skald::test {

// All calls but those that run a step.
template <class Interface>
class Wrapped : public Interface {
 public:
  explicit Wrapped(std::unique_ptr<Interface> inner) : inner_(std::move(inner)) {}

  const Program& program() const override { return inner_->program(); }
  int64_t max_rows() const override { return inner_->max_rows(); }
  int64_t context() const override { return inner_->context(); }
  PagePool& pages() override { return inner_->pages(); }
  std::span<const float> logits(int64_t row) override { return inner_->logits(row); }
  std::span<const float> hidden(int64_t row) override { return inner_->hidden(row); }
  std::span<const float> features(Features kind, int64_t first, int64_t count) override {
    return inner_->features(kind, first, count);
  }
  int64_t logit_rows() const override { return inner_->logit_rows(); }
  void observe(Observer observer) override { inner_->observe(std::move(observer)); }
  const MemoryPlan& plan() const override { return inner_->plan(); }
  int64_t bytes_allocated() const override { return inner_->bytes_allocated(); }
  int64_t cache_bytes_per_token() const override { return inner_->cache_bytes_per_token(); }
  CacheTypes cache_types() const override { return inner_->cache_types(); }
  std::string description() const override { return inner_->description(); }
  std::string page_format() const override { return inner_->page_format(); }
  int64_t page_bytes() const override { return inner_->page_bytes(); }
  int64_t state_bytes() const override { return inner_->state_bytes(); }
  void read_cache(std::span<const CacheRead> parts) override { inner_->read_cache(parts); }
  void write_cache(std::span<const CacheWrite> parts) override { inner_->write_cache(parts); }
  std::shared_ptr<std::byte> host_memory(int64_t bytes) override {
    return inner_->host_memory(bytes);
  }

 protected:
  std::unique_ptr<Interface> inner_;
};

class WrappedExecutor : public Wrapped<Executor> {
 public:
  using Wrapped::Wrapped;

  int64_t run(Step step) override { return inner_->run(step); }
};

}  // namespace skald::test
