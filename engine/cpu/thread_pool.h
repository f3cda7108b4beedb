// A fixed set of threads that run one function together. The caller is thread 0. After a job the
// other threads spin for some microseconds, because the next job usually follows at once, and then
// sleep. Only one thread may call run() at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace skald::cpu {

class ThreadPool {
 public:
  // patient: the other threads spin for milliseconds before they sleep, because waking them takes a
  // good part of a short job.
  explicit ThreadPool(int threads, bool patient = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls fn(thread, threads) on every thread and returns when all are done. fn must not throw.
  template <class Fn>
  void run(const Fn& fn) {
    start({&call<Fn>, &fn});
  }

  // Callable inside fn only. Returns when all threads have called it; their earlier writes are then
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
  void stop();  // ends and joins the workers
  void work(int thread);

  const int threads_, spins_;
  Job job_{};
  bool stop_ = false;
  // Atomic counters that threads wait on, each on its own cache line.
  alignas(64) std::atomic<uint32_t> started_{0};     // jobs so far
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // threads still in the job
  alignas(64) std::atomic<uint32_t> arrived_{0};     // threads at the barrier
  alignas(64) std::atomic<uint32_t> barriers_{0};    // barriers passed so far
  std::vector<std::thread> workers_;
};

}  // namespace skald::cpu
