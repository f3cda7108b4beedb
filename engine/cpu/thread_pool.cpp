#include "engine/cpu/thread_pool.h"

#include <hwy/cache_control.h>

#include <system_error>

#include "engine/base/error.h"

namespace skald::cpu {
namespace {

// Long enough to bridge the gaps between the ops of a step, short enough not to keep a core from
// other programs. A pause takes 10 to 140 cycles, depending on the CPU.
constexpr int kSpins = 500;
// Bridges some milliseconds in which a GPU computes.
constexpr int kPatientSpins = 100'000;

// Returns once `counter` is no longer `old`.
void wait_while(const std::atomic<uint32_t>& counter, uint32_t old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (counter.load(std::memory_order_acquire) != old) return;
    hwy::Pause();
  }
  while (counter.load(std::memory_order_acquire) == old) {
    counter.wait(old, std::memory_order_acquire);
  }
}

}  // namespace

ThreadPool::ThreadPool(int threads, bool patient)
    : threads_(threads < 1 ? 1 : threads), spins_(patient ? kPatientSpins : kSpins) {
  workers_.reserve(static_cast<size_t>(threads_ - 1));
  try {
    for (int t = 1; t < threads_; ++t) workers_.emplace_back([this, t] { work(t); });
  } catch (const std::system_error& problem) {
    stop();
    fail(Exit::Failed, "cannot start ", threads_, " threads: ", problem.code().message(),
         "; ask for fewer with -t");
  } catch (...) {  // std::bad_alloc
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_ = true;
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::start(Job job) {
  if (threads_ == 1) return job.call(job.fn, 0, 1);
  job_ = job;
  unfinished_.store(static_cast<uint32_t>(threads_ - 1), std::memory_order_relaxed);
  started_.fetch_add(1, std::memory_order_release);
  started_.notify_all();
  job.call(job.fn, 0, threads_);
  for (uint32_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;) {
    wait_while(unfinished_, left, spins_);
  }
}

void ThreadPool::work(int thread) {
  for (uint32_t seen = 0;; ++seen) {
    wait_while(started_, seen, spins_);
    if (stop_) return;
    job_.call(job_.fn, thread, threads_);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

void ThreadPool::barrier() {
  const uint32_t passed = barriers_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == static_cast<uint32_t>(threads_ - 1)) {
    arrived_.store(0, std::memory_order_relaxed);
    barriers_.fetch_add(1, std::memory_order_release);
    barriers_.notify_all();
  } else {
    wait_while(barriers_, passed, spins_);
  }
}

}  // namespace skald::cpu
