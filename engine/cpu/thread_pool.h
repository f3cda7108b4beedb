// A fixed set of threads that run one function together. The caller is thread 0; the others spin
// for some microseconds after a job, since the next one usually follows at once, and then sleep.
// One caller at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace skald::cpu {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // fn(thread, threads) on every thread at once; returns when all are done. fn must not throw.
  template <class Fn>
  void run(const Fn& fn) {
    start({&call<Fn>, &fn});
  }

  // Inside fn only: returns when all threads have called it. What they wrote before is then
  // visible.
  void barrier();

 private:
  struct Job {
    void (*call)(const void* fn, int thread, int threads);
    const void* fn;
  };
  template <class Fn>
  static void call(const void* fn, int thread, int threads) {
    (*static_cast<const Fn*>(fn))(thread, threads);
  }

  void start(Job job);
  void stop();  // ends and joins the workers that there are
  void work(int thread);

  const int threads_;
  Job job_{};
  bool stop_ = false;
  // Counters that threads wait on, each on a cache line of its own.
  alignas(64) std::atomic<uint32_t> started_{0};     // jobs so far
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // threads still in the job
  alignas(64) std::atomic<uint32_t> arrived_{0};     // threads at the barrier
  alignas(64) std::atomic<uint32_t> barriers_{0};    // barriers passed so far
  std::vector<std::thread> workers_;
};

}  // namespace skald::cpu
