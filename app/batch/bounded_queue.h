// A queue between threads with a limit: a writer waits while the queue is full. After close() the
// readers still get the rest; abandon() keeps the rest from them and wakes all threads. Other
// threads may still use what lies in an abandoned queue: it is destroyed with the queue.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace skald {

template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t most) : most_(most) {}

  bool push(T item) {  // false: the queue is closed
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || items_.size() < most_; });
    if (closed_) return false;
    items_.push_back(std::move(item));
    changed_.notify_all();
    return true;
  }

  std::optional<T> pop() {  // nothing: closed and empty
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return take();
  }

  std::optional<T> try_pop() {  // nothing: empty now
    const std::lock_guard lock(mutex_);
    return take();
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  void abandon() {
    const std::lock_guard lock(mutex_);
    closed_ = abandoned_ = true;
    changed_.notify_all();
  }

 private:
  std::optional<T> take() {
    if (items_.empty() || abandoned_) return {};
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    changed_.notify_all();
    return item;
  }

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;
  bool closed_ = false, abandoned_ = false;
};

}  // namespace skald
