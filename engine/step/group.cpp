#include "engine/step/group.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/error.h"

namespace skald {
namespace {

// One thread for each rank; the caller's is rank 0's. Between jobs the others spin for a while,
// because the next step usually follows at once, and then sleep.
class RankThreads {
 public:
  RankThreads(int ranks, std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {
    try {
      for (int rank = 1; rank < ranks; ++rank) {
        threads_.emplace_back([this, rank] { work(rank); });
      }
    } catch (...) {
      stop();
      throw;
    }
  }
  ~RankThreads() { stop(); }

  // Calls job(rank) on every rank's thread and returns when all are done. If one throws, the
  // others' exchanges end, and the first exception is thrown here.
  template <class Job>
  void run(const Job& job) {
    first_error_ = nullptr;
    job_ = [this, &job](int rank) {
      try {
        job(rank);
      } catch (...) {
        keep(std::current_exception());
      }
    };
    unfinished_.store(threads_.size(), std::memory_order_relaxed);
    jobs_.fetch_add(1, std::memory_order_release);
    jobs_.notify_all();
    job_(0);
    for (size_t left; (left = unfinished_.load(std::memory_order_acquire)) > 0;) {
      unfinished_.wait(left, std::memory_order_acquire);
    }
    if (!first_error_) return;
    exchange_->reset();
    std::rethrow_exception(std::exchange(first_error_, nullptr));
  }

 private:
  void keep(std::exception_ptr error) {
    {
      const std::lock_guard lock(mutex_);
      if (!first_error_) first_error_ = std::move(error);
    }
    exchange_->abort();
  }

  void work(int rank) {
    for (uint32_t done = 0;; ++done) {
      await_job(done);
      if (stop_) return;
      job_(rank);
      if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
    }
  }

  void await_job(uint32_t done) const {
    // Longer than the host's work between two steps, which is picking and printing.
    constexpr std::chrono::milliseconds kSpin{2};
    const auto end = std::chrono::steady_clock::now() + kSpin;
    while (jobs_.load(std::memory_order_acquire) == done) {
      if (std::chrono::steady_clock::now() < end) continue;
      jobs_.wait(done, std::memory_order_acquire);
    }
  }

  void stop() {
    stop_ = true;
    jobs_.fetch_add(1, std::memory_order_release);
    jobs_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  std::shared_ptr<Exchange> exchange_;
  std::function<void(int)> job_;
  bool stop_ = false;
  std::atomic<uint32_t> jobs_{0};      // jobs begun so far
  std::atomic<size_t> unfinished_{0};  // threads that still run the job
  std::mutex mutex_;
  std::exception_ptr first_error_;
  std::vector<std::thread> threads_;
};

Model whole(Model model) {
  model.shard = {};
  return model;
}

// For each op of a shard whose output is the whole program's: the op of that program. An AllReduce
// stands behind the op whose parts it adds up.
std::vector<std::optional<size_t>> find_whole_ops(const Program& shard, const Program& whole) {
  const auto adds_up = [&](size_t op) { return std::holds_alternative<AllReduce>(shard.ops[op]); };
  std::vector<std::optional<size_t>> found(shard.ops.size());
  size_t op = 0;  // of the whole program
  for (size_t own = 0; own + 1 < shard.ops.size(); ++own) {
    const ActId out = *op_output(shard.ops[own]), whole_out = *op_output(whole.ops[op]);
    if (!adds_up(own + 1) && shard.act(out).cols == whole.act(whole_out).cols) found[own] = op;
    if (!adds_up(own + 1)) ++op;
  }
  found.back() = op;  // the logits, which the ranks have joined
  return found;
}

class GroupExecutor final : public Executor {
 public:
  GroupExecutor(const Model& model, int ranks, std::shared_ptr<Exchange> exchange,
                const std::function<std::unique_ptr<RankExecutor>(const Model&)>& make)
      : program_(whole(model).program()),
        exchange_(std::move(exchange)),
        threads_(ranks, exchange_) {
    ranks_.resize(static_cast<size_t>(ranks));
    threads_.run([&](int rank) {
      Model shard = model;
      shard.shard = {rank, ranks};
      ranks_[static_cast<size_t>(rank)] = make(shard);
    });
    RankExecutor& first = *ranks_.front();
    for (const auto& rank : ranks_) {
      if (rank->pages().size() == first.pages().size() && rank->context() == first.context() &&
          rank->pages().states().size() == first.pages().states().size() &&
          rank->max_rows() == first.max_rows()) {
        continue;
      }
      fail(Exit::Failed, "the ranks of the model have room for different numbers of tokens; ",
           "give them the same flags, and a context with -c");
    }
    pool_.emplace(first.pages().size(), first.pages().states().size());
    program_.bind_context(first.context());
    whole_ops_ = find_whole_ops(first.program(), program_);
  }

  const Program& program() const override { return program_; }
  int64_t max_rows() const override { return first().max_rows(); }
  int64_t context() const override { return first().context(); }
  PagePool& pages() override { return *pool_; }

  int64_t run(Step step) override {
    first().check_step(step);
    const Extension extension = extend(step);
    try {
      // A step that has changed recurrent states cannot be repeated from where they are.
      return on_all([&](RankExecutor& rank) { return rank.run_extended(step, extension); },
                    program_.states.empty());
    } catch (...) {
      take_back(step);
      throw;
    }
  }

  Picks pick_and_run(std::span<const PickRequest> requests,
                     std::span<Sequence* const> sequences) override {
    std::atomic<bool> all = true;
    threads_.run([&](int rank) {
      if (!of(rank).can_run_ahead(requests, sequences)) all = false;
    });
    if (!all) return {pick(requests), 0};
    const std::vector<SeqRows> next = next_step(sequences);
    const Extension extension = extend(next);
    std::vector<Picks> picks(ranks_.size());
    try {
      threads_.run([&](int rank) {
        picks[static_cast<size_t>(rank)] = of(rank).run_ahead(requests, next, extension);
      });
      check_agree(picks);
    } catch (...) {
      take_back(next);
      drop_logits();
      throw;
    }
    return std::move(picks.front());
  }
  int64_t last_step() const override { return first().last_step(); }

  // Every rank has the same residual stream, but only a part of the head.
  std::span<const float> hidden(int64_t row) override { return first().hidden(row); }
  std::span<const float> features(Features kind, int64_t row, int64_t count) override {
    return first().features(kind, row, count);
  }
  std::span<const float> logits(int64_t row) override {
    return on_all([&](RankExecutor& rank) { return rank.logits(row); });
  }
  std::vector<Picked> pick(std::span<const PickRequest> requests) override {
    return on_all([&](RankExecutor& rank) { return rank.pick(requests); });
  }
  int64_t logit_rows() const override { return first().logit_rows(); }
  std::vector<TokenScore> score(std::span<const int32_t> targets) override {
    return on_all([&](RankExecutor& rank) { return rank.score(targets); });
  }
  std::vector<RowComparison> compare(Executor& base, std::span<const int32_t> targets) override {
    auto* group = dynamic_cast<GroupExecutor*>(&base);
    if (!group || group->ranks_.size() != ranks_.size()) return Executor::compare(base, targets);
    std::vector<RowComparison> result;
    try {
      threads_.run([&](int rank) {
        try {
          auto own = of(rank).compare(group->of(rank), targets);
          if (rank == 0) result = std::move(own);
        } catch (...) {
          group->exchange_->abort();
          throw;
        }
      });
    } catch (...) {
      group->exchange_->reset();
      group->drop_logits();
      drop_logits();
      throw;
    }
    return result;
  }

  bool observable() const override {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const auto& rank) { return rank->observable(); });
  }
  // The observer sees what the first rank has whole, by the ops of the whole program.
  void observe(Observer observer) override {
    const bool observed = observer != nullptr;
    Observer own;
    if (observed) {
      own = [this, observer = std::move(observer)](const OpOutput& output) {
        const std::optional<size_t>& op = whole_ops_[output.op];
        if (op) observer({*op, output.name, output.values, output.cols});
      };
    }
    first().observe(std::move(own));
    // An executor that is observed may compute its ops in another way; ranks do the same.
    for (size_t rank = 1; rank < ranks_.size(); ++rank) {
      ranks_[rank]->observe(observed ? [](const OpOutput&) {} : Observer());
    }
  }
  const MemoryPlan& plan() const override { return first().plan(); }
  int64_t bytes_allocated() const override {
    return sum([](const RankExecutor& rank) { return rank.bytes_allocated(); });
  }
  int64_t cache_bytes_per_token() const override {
    return sum([](const RankExecutor& rank) { return rank.cache_bytes_per_token(); });
  }
  CacheTypes cache_types() const override { return first().cache_types(); }
  double device_seconds() override { return first().device_seconds(); }
  ExpertUse expert_use() override { return first().expert_use(); }
  std::string description() const override {
    return concat(ranks_.size(), " ranks, the first: ", first().description());
  }

  // A page of the group consists of the ranks' pages, one after the other; so does a state.
  std::string page_format() const override {
    return concat("ranks ", ranks_.size(), " ", first().page_format());
  }
  int64_t page_bytes() const override {
    return sum([](const RankExecutor& rank) { return rank.page_bytes(); });
  }
  int64_t state_bytes() const override {
    return sum([](const RankExecutor& rank) { return rank.state_bytes(); });
  }
  void read_cache(std::span<const CacheRead> parts) override {
    on_parts(parts, [](RankExecutor& rank, auto own) { rank.read_cache(own); });
  }
  void write_cache(std::span<const CacheWrite> parts) override {
    on_parts(parts, [](RankExecutor& rank, auto own) { rank.write_cache(own); });
  }
  std::shared_ptr<std::byte> host_memory(int64_t bytes) override {
    return first().host_memory(bytes);
  }

 private:
  RankExecutor& of(int rank) const { return *ranks_[static_cast<size_t>(rank)]; }
  RankExecutor& first() const { return *ranks_.front(); }

  // Runs job(executor) on all ranks, and returns the first rank's result. repeats: if a rank had no
  // memory, all ranks run the job again, at most once for each rank. A rank without memory may have
  // freed its reserve, of which it has one.
  template <class Job>
  std::invoke_result_t<Job, RankExecutor&> on_all(const Job& job, bool repeats = true) {
    std::invoke_result_t<Job, RankExecutor&> result{};
    for (size_t left = repeats ? ranks_.size() : 0;; --left) {
      try {
        threads_.run([&](int rank) {
          auto own = job(of(rank));
          if (rank == 0) result = std::move(own);
        });
        return result;
      } catch (const Error& error) {
        drop_logits();
        if (error.code() != Exit::Memory || left == 0) throw;
      } catch (...) {
        drop_logits();
        throw;
      }
    }
  }

  void drop_logits() const {
    for (const auto& rank : ranks_) rank->drop_logits();
  }

  template <class Number>
  int64_t sum(const Number& number) const {
    int64_t all = 0;
    for (const auto& rank : ranks_) all += number(*rank);
    return all;
  }

  template <class Part, class Copy>
  void on_parts(std::span<const Part> parts, const Copy& copy) {
    for (const Part& part : parts) check_part(part);
    int64_t page = 0, state = 0;  // where the rank's bytes begin
    std::vector<Part> own;
    for (const auto& rank : ranks_) {
      own.clear();
      for (const Part& part : parts) {
        const bool is_page = part.kind == CacheKind::Page;
        own.push_back({part.kind, part.number,
                       part.bytes.subspan(static_cast<size_t>(is_page ? page : state),
                                          static_cast<size_t>(is_page ? rank->page_bytes()
                                                                      : rank->state_bytes()))});
      }
      copy(*rank, std::span<const Part>(own));
      page += rank->page_bytes();
      state += rank->state_bytes();
    }
  }

  // Each rank picks by itself, from the same logits. Ranks that picked different tokens would have
  // different caches from then on.
  static void check_agree(const std::vector<Picks>& picks) {
    for (const Picks& own : picks) {
      for (size_t i = 0; i < own.picked.size(); ++i) {
        if (own.picked[i].token == picks.front().picked[i].token) continue;
        fail(Exit::Failed,
             "the ranks of the model computed different numbers for the same token; "
             "use devices of one kind");
      }
    }
  }

  Program program_;                               // the whole model
  std::vector<std::optional<size_t>> whole_ops_;  // of the first rank's ops
  std::vector<std::unique_ptr<RankExecutor>> ranks_;
  std::optional<PagePool> pool_;
  std::shared_ptr<Exchange> exchange_;
  RankThreads threads_;  // ends before the ranks do
};

}  // namespace

std::unique_ptr<Executor> make_group(
    const Model& model, int ranks, std::shared_ptr<Exchange> exchange,
    const std::function<std::unique_ptr<RankExecutor>(const Model& shard)>& make) {
  check(ranks > 1 && ranks <= kMostRanks, "a group has ranks");
  return std::make_unique<GroupExecutor>(model, ranks, std::move(exchange), make);
}

}  // namespace skald
