#include "app/batch/run.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "app/batch/bounded_queue.h"
#include "app/files/signals.h"

namespace skald {
namespace {

constexpr auto kLook = std::chrono::milliseconds(50);  // between looks at progress and signals
constexpr auto kRest = std::chrono::milliseconds(2);   // a pause while the writer is behind

// What the other threads send to the one that writes results. A job comes before its events, or
// alone if there is nothing to compute.
struct BatchNews {
  std::unique_ptr<BatchJob> job;
  std::vector<GenerationEvent> events;
};

// Puts together what the model gives, and writes results. Owns the jobs that are being computed.
// Used by one thread.
class BatchFinisher {
 public:
  explicit BatchFinisher(const BatchRun& run) : run_(run) {}

  void take(BatchNews news);

 private:
  void take_event(GenerationEvent& event);
  void end_sample(BatchPrompt& prompt, GenerationEvent& event);
  void finish(const BatchJob& job);

  const BatchRun& run_;
  std::unordered_map<const BatchJob*, std::unique_ptr<BatchJob>> jobs_;
  std::unique_ptr<BatchJob> taken_;  // where there is no memory for it in jobs_: it is computed
};

void cancel_all(BatchJob& job) {
  for (BatchPrompt& prompt : job.prompts) {
    for (int s = 0; s < prompt.samples(); ++s) prompt.cancelled[s] = true;
  }
}

void BatchFinisher::take(BatchNews news) {
  if (news.job && news.job->open == 0) {
    finish(*news.job);
  } else if (news.job) {
    taken_ = std::move(news.job);
    std::unique_ptr<BatchJob>& place = jobs_[taken_.get()];
    place = std::move(taken_);
  }
  for (GenerationEvent& event : news.events) take_event(event);
}

void BatchFinisher::take_event(GenerationEvent& event) {
  BatchPrompt& prompt = static_cast<BatchPrompt&>(*event.generation);
  switch (event.kind) {
    case GenerationEvent::Kind::PromptToken:
      prompt.scores.push_back(std::move(event.picked));
      break;
    case GenerationEvent::Kind::Token: {
      SampleText& text = prompt.texts[static_cast<size_t>(event.sample)];
      const auto most = static_cast<size_t>(prompt.job->request.top_logprobs);
      if (event.picked.top.size() > most) event.picked.top.resize(most);
      if (text.ended()) break;  // the model computed one token more than the stop text
      if (!text.feed(std::move(event.picked))) prompt.cancelled[event.sample] = true;
      ++run_.job.counts().tokens_out;
      break;
    }
    case GenerationEvent::Kind::Vector:
      prompt.vector = std::move(event.vector);
      break;
    case GenerationEvent::Kind::End:
      end_sample(prompt, event);
      break;
  }
}

void BatchFinisher::end_sample(BatchPrompt& prompt, GenerationEvent& event) {
  BatchJob& job = *prompt.job;
  prompt.texts[static_cast<size_t>(event.sample)].end(event.ending);
  if (event.ending == Ending::Failed && !job.problem) {
    job.problem = LineProblem{"failed", std::move(event.problem)};
    cancel_all(job);
  }
  if (--job.open > 0) return;
  finish(job);
  jobs_.erase(&job);
}

void BatchFinisher::finish(const BatchJob& job) {
  if (job.skipped) {
    run_.job.writer().pass(job.turn);
    ++run_.job.counts().skipped;
    return;
  }
  run_.job.writer().write(job.turn, batch_result(job, run_.result));
  if (job.problem) {
    run_.job.fail(job.line, *job.problem);
  } else {
    ++run_.job.counts().done;
    run_.job.add_latency(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - job.taken).count());
  }
  run_.job.counts().tokens_in += job.prompt_tokens();
}

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
    threads.reserve(1 + devices.size() + static_cast<size_t>(run_.prepare_threads));
    guard([&] {  // where a thread cannot be started, those before it end
      start([this] { finish(); });
      for (size_t i = 0; i < devices.size(); ++i) {
        start([this, executor = devices[i].get(),
               plan = run_.guesses.empty() ? GuessPlan{} : run_.guesses[i]] {
          compute(*executor, plan);
        });
      }
      for (int i = 0; i < run_.prepare_threads; ++i) start([this] { prepare(); });
    });
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

  // Threads end at their next look. Results that are finished are still written.
  void stop() {
    stopped_ = true;
    run_.job.input().stop();
    jobs_.abandon();
  }

  void watch() {
    while (!finished_) {
      std::this_thread::sleep_for(kLook);
      if (interrupted_by()) {
        stop();
        run_.job.writer().give_up();  // a long step must not keep results from the file
      }
      if (stopped_ && error()) return;
      run_.job.show_progress();
    }
  }

  bool error() {
    const std::lock_guard lock(mutex_);
    return error_ != nullptr;
  }

  void prepare() {
    while (!stopped_) {
      if (run_.job.writer().too_far_ahead(run_.job.input().lines())) {
        std::this_thread::sleep_for(kRest);
        continue;
      }
      std::optional<JobLine> line = run_.job.input().next();
      if (!line) break;
      std::unique_ptr<BatchJob> job = run_.preparer.prepare(std::move(*line));
      const bool compute = job->open > 0;
      if (compute ? !jobs_.push(std::move(job)) : !news_.push({std::move(job), {}})) break;
    }
    if (--preparing_ == 0) jobs_.close();
  }

  void compute(Executor& executor, const GuessPlan& guesses) {
    SchedulerLimits limits = run_.limits;
    limits.guesses = guesses;
    Scheduler scheduler(executor, std::move(limits));
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

  // The scheduler's queue holds at most as many jobs as may run. False: all jobs are done.
  bool take_jobs(Scheduler& scheduler) {
    while (scheduler.waiting() < scheduler.limits().sequences) {
      auto job = scheduler.idle() ? jobs_.pop() : jobs_.try_pop();
      if (!job) break;
      BatchJob& taken = **job;
      taken.taken = std::chrono::steady_clock::now();
      if (!news_.push({std::move(*job), {}}))
        return false;  // the finisher owns the job from now on
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
    counts_.swapped += counts.swapped;
    counts_.swapped_tokens += counts.swapped_tokens;
    counts_.lowered += counts.lowered;
    counts_.guesses.add(counts.guesses);
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
