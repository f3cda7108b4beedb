#include "app/batch/run.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "app/batch/bounded_queue.h"
#include "app/batch/finish.h"
#include "app/files/signals.h"

namespace skald {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);  // at progress and signals
constexpr auto kRest = std::chrono::milliseconds(2);   // where the writer is behind

class Pipeline {
 public:
  Pipeline(const BatchRun& run, size_t devices)
      : run_(run),
        finisher_(run),
        jobs_(4 * static_cast<size_t>(run.limits.sequences) * devices),
        news_(64 * devices),
        preparing_(run.prepare_threads),
        computing_(static_cast<int>(devices)) {}

  SchedulerCounts execute(std::span<const std::unique_ptr<Executor>> devices) {
    std::vector<std::thread> threads;
    const auto start = [&](const auto& work) {
      threads.emplace_back([this, work] { guard(work); });
    };
    start([this] { finish(); });
    for (const auto& device : devices) {
      start([this, executor = device.get()] { compute(*executor); });
    }
    for (int i = 0; i < run_.prepare_threads; ++i) start([this] { prepare(); });
    watch();
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    return counts_;
  }

 private:
  void guard(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stop();
      news_.abandon();
    }
  }

  // Threads end where they are; what is finished is still written.
  void stop() {
    stopped_ = true;
    run_.reader.stop();
    jobs_.abandon();
  }

  void watch() {
    while (!finished_) {
      std::this_thread::sleep_for(kLook);
      if (interrupted_by()) stop();
      if (stopped_ && error()) return;
      run_.counts.earlier = run_.input.done_before();
      run_.progress.show();
    }
  }

  bool error() {
    const std::lock_guard lock(mutex_);
    return error_ != nullptr;
  }

  void prepare() {
    while (!stopped_) {
      if (run_.writer.too_far_ahead(run_.input.lines())) {
        std::this_thread::sleep_for(kRest);
        continue;
      }
      std::unique_ptr<BatchJob> job = run_.input.next();
      if (!job) break;
      run_.preparer.prepare(*job);
      const bool compute = job->open > 0;
      if (compute ? !jobs_.push(std::move(job)) : !news_.push({std::move(job), {}})) break;
    }
    if (--preparing_ == 0) jobs_.close();
  }

  void compute(Executor& executor) {
    Scheduler scheduler(executor, run_.limits);
    while (!stopped_ && take_jobs(scheduler)) {
      const std::span<GenerationEvent> events = scheduler.step();
      if (events.empty()) continue;
      BatchNews news;
      news.events.assign(std::make_move_iterator(events.begin()),
                         std::make_move_iterator(events.end()));
      if (!news_.push(std::move(news))) break;
    }
    SchedulerCounts counts = scheduler.counts();
    counts.device_seconds = executor.device_seconds();
    add_counts(counts);
    if (--computing_ == 0) news_.close();
  }

  // As many as may run wait in the scheduler's line at most. False: all is done.
  bool take_jobs(Scheduler& scheduler) {
    while (scheduler.waiting() < scheduler.limits().sequences) {
      auto job = scheduler.idle() ? jobs_.pop() : jobs_.try_pop();
      if (!job) break;
      BatchJob& taken = **job;
      if (!news_.push({std::move(*job), {}})) return false;  // it is the finisher's from now on
      for (BatchPrompt& prompt : taken.prompts) scheduler.add(prompt);
    }
    return !scheduler.idle();
  }

  void add_counts(const SchedulerCounts& counts) {
    const std::lock_guard lock(mutex_);
    counts_.steps += counts.steps;
    counts_.computed_tokens += counts.computed_tokens;
    counts_.shared_tokens += counts.shared_tokens;
    counts_.new_tokens += counts.new_tokens;
    counts_.preemptions += counts.preemptions;
    counts_.lowered += counts.lowered;
    counts_.busy_seconds += counts.busy_seconds;
    counts_.device_seconds += counts.device_seconds;
  }

  void finish() {
    while (auto news = news_.pop()) finisher_.take(std::move(*news));
    finished_ = true;
  }

  const BatchRun& run_;
  BatchFinisher finisher_;  // owns the jobs, so it outlives the threads that look at them
  BoundedQueue<std::unique_ptr<BatchJob>> jobs_;
  BoundedQueue<BatchNews> news_;
  std::atomic<int> preparing_, computing_;
  std::atomic<bool> stopped_ = false, finished_ = false;

  std::mutex mutex_;
  std::exception_ptr error_;
  SchedulerCounts counts_;
};

}  // namespace

SchedulerCounts run_batch(const BatchRun& run, std::span<const std::unique_ptr<Executor>> devices) {
  return Pipeline(run, devices.size()).execute(devices);
}

}  // namespace skald
