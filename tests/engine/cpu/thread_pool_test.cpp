#include "engine/cpu/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/hostile.h"

using skald::cpu::ThreadPool;

TEST_CASE("every thread of a pool runs the function once") {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    REQUIRE(pool.threads() == threads);
    // Each entry is written by its own thread.
    std::vector<int> calls(static_cast<size_t>(threads));
    std::vector<int> counts(static_cast<size_t>(threads));
    constexpr int kJobs = 2000;
    for (int job = 0; job < kJobs; ++job) {
      pool.run([&](int thread, int count) {
        ++calls[static_cast<size_t>(thread)];
        counts[static_cast<size_t>(thread)] = count;
      });
    }
    CHECK(calls == std::vector<int>(static_cast<size_t>(threads), kJobs));
    CHECK(counts == std::vector<int>(static_cast<size_t>(threads), threads));
  }
}

TEST_CASE("a pool works after its threads have slept") {
  ThreadPool pool(4);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> calls{0};
    pool.run([&](int, int) { ++calls; });
    CHECK(calls == 4);
  }
}

TEST_CASE("after a barrier every thread sees what the others wrote before it") {
  for (int threads : {1, 2, 8}) {
    ThreadPool pool(threads);
    std::vector<int> written(static_cast<size_t>(threads));
    std::vector<int> sums(static_cast<size_t>(threads));
    for (int job = 1; job <= 200; ++job) {
      pool.run([&](int thread, int) {
        for (int phase = 0; phase < 3; ++phase) {
          written[static_cast<size_t>(thread)] = job + phase;
          pool.barrier();
          int sum = 0;
          for (int value : written) sum += value;
          sums[static_cast<size_t>(thread)] = sum;
          pool.barrier();
        }
      });
      REQUIRE(sums == std::vector<int>(static_cast<size_t>(threads), threads * (job + 2)));
    }
  }
}

TEST_CASE("a thread that cannot be started is an Error") {
  if (skald::test::sanitized()) return;
  const pid_t child = fork();
  if (child == 0) {
    constexpr uint64_t kBytes = 256 << 20;  // far too little for 900 stacks of 8 MiB
    skald::test::limit_memory_growth(kBytes);
    try {
      ThreadPool pool(900);
      _exit(1);
    } catch (const skald::Error& error) {
      _exit(error.code() == skald::Exit::Failed ? 0 : 2);
    }
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("pools are independent and can be destroyed while idle") {
  for (int i = 0; i < 20; ++i) {
    ThreadPool a(3), b(2);
    std::atomic<int> calls{0};
    a.run([&](int, int) { ++calls; });
    b.run([&](int, int) { ++calls; });
    CHECK(calls == 5);
  }
}
