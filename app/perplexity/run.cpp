#include "app/perplexity/run.h"

#include <atomic>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "app/perplexity/group.h"
#include "engine/base/error.h"

namespace skald {
namespace {

using Group = std::unique_ptr<PplGroup>;

class Runner {
 public:
  explicit Runner(const PplRun& run)
      : run_(run), next_(run.first), delivered_(run.first), base_row_(run.base_row) {}

  bool run() {
    const bool alone = run_.devices.size() == 1;
    check(alone || (!run_.base_file && !run_.save), "only a single device uses base files");
    if (alone) {
      work(run_.devices.front());
    } else {
      std::vector<std::thread> threads;
      threads.reserve(run_.devices.size());
      guard([&] {  // where a thread cannot be started, those before it end
        for (const PplDevice& device : run_.devices) {
          threads.emplace_back([this, &device] { guard([&] { work(device); }); });
        }
      });
      for (std::thread& thread : threads) thread.join();
      if (error_) std::rethrow_exception(error_);
    }
    return delivered_ == run_.last;
  }

 private:
  void guard(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(results_mutex_);
      if (!error_) error_ = std::current_exception();
      stopped_ = true;
    }
  }

  void work(const PplDevice& device) {
    Group group = take(device);
    while (group && !stopped_) {
      auto ahead = std::async(std::launch::async, [&] { return take(device); });
      if (!group->compute()) {
        stopped_ = true;
        return;
      }
      deliver(std::move(group));
      if (run_.keep_going && !run_.keep_going()) stopped_ = true;
      group = ahead.get();
    }
  }

  // The next chunks, as many as fit in a group; nullptr if there are no more.
  Group take(const PplDevice& device) {
    const std::lock_guard lock(source_mutex_);
    if (next_ == run_.last) return nullptr;
    auto group = std::make_unique<PplGroup>(run_, device, base_row_);
    while (next_ < run_.last && group->take(next_)) ++next_;
    return group;
  }

  // Delivers groups in the order of the text: a group waits until all groups before it are
  // computed.
  void deliver(Group group) {
    const std::lock_guard lock(results_mutex_);
    const int64_t first = group->first();
    computed_.emplace(first, std::move(group));
    while (!computed_.empty() && computed_.begin()->first == delivered_) {
      const Group next = std::move(computed_.begin()->second);
      computed_.erase(computed_.begin());
      next->deliver();
      delivered_ = next->last();
    }
  }

  const PplRun& run_;
  std::atomic<bool> stopped_ = false;

  std::mutex source_mutex_;
  int64_t next_;

  std::mutex results_mutex_;
  std::map<int64_t, Group> computed_;  // by first chunk
  int64_t delivered_;                  // the next chunk to deliver
  std::exception_ptr error_;

  int64_t base_row_;  // the next row of the base file
};

}  // namespace

bool run_perplexity(const PplRun& run) { return Runner(run).run(); }

}  // namespace skald
