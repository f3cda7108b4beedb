// Runs the fused ops of a Program on one GPU. A decode step (one row of each sequence) runs as a
// captured graph; there is one graph for each number of rows and class of depth. All other steps
// are launched op by op.
#include <algorithm>
#include <utility>

#include "cuda/cuda.h"
#include "cuda/gpu/check.h"
#include "cuda/gpu/graphs.h"
#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "cuda/gpu/spare_memory.h"
#include "cuda/gpu/step_clock.h"
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/pointwise/pointwise.h"
#include "cuda/load/loaded_model.h"
#include "cuda/plan/fused_program.h"
#include "cuda/plan/plan.h"
#include "cuda/run/host_ops.h"
#include "cuda/run/host_rows.h"
#include "cuda/run/page_copies.h"
#include "cuda/run/rank.h"
#include "cuda/run/sampler.h"
#include "cuda/run/scorer.h"
#include "cuda/run/step_ops.h"

namespace skald::cuda {
namespace {

// Makes the device current. It runs first in the constructor: later members allocate on the device.
DeviceInfo use_device(int device) {
  SKALD_CUDA(cudaSetDevice(device));
  return describe_device(device);
}

MemoryPlan checked(MemoryPlan plan, int device) {
  check_fits(plan, concat("cuda:", device));
  return plan;
}

SizeOptions planned_size(SizeOptions options, const MemoryPlan& plan, PlaceRequest place,
                         AttentionCode code) {
  options.context = plan.context;
  options.copies = has_copies(plan);
  options.place = place;
  options.attention = code;
  return options;
}

std::vector<DeviceMemory> allocate(const std::vector<int64_t>& sizes) {
  std::vector<DeviceMemory> buffers;
  for (int64_t bytes : sizes) buffers.emplace_back(bytes, "activations");
  return buffers;
}

const FusedProgram& bound(FusedProgram& fused, int64_t context) {
  fused.program.bind_context(context);
  return fused;
}

class CudaExecutor final : public RankExecutor {
 public:
  // exchange: with the other ranks of the model's group; nullptr: there are none.
  CudaExecutor(const Model& model, const RunOptions& options, int device, const Switches& switches,
               std::shared_ptr<PeerExchange> exchange)
      : weight_file_(model.weights),
        switches_(switches),
        device_(use_device(device)),
        exchange_(std::move(exchange)),
        gpu_{used_capability(device_, options), device_.multiprocessors, device_.mps},
        fused_(fuse_program(model.program())),
        attention_code_(std::min(attention_code(fused_.type),
                                 attention_code_of(fused_.type, gpu_.compute_capability))),
        reproducible_(options.reproducible),
        max_rows_(options.rows),
        plan_(checked(plan_memory(fused_, options, model.config, device_), device)),
        sizes_(fused_,
               planned_size(size_options(fused_, options, device_), plan_,
                            planned_place(fused_, plan_, options, model.config), attention_code_)),
        loaded_(bound(fused_, plan_.context), sizes_, stream_, options.loading),
        caches_(fused_, sizes_.placement, loaded_, stream_),
        copies_(sizes_.placement, loaded_, caches_, stream_),
        pool_(sizes_.pages, sizes_.slots),
        cache_(sizes_.cache(), "the key-value cache"),
        states_(sizes_.states(), "the recurrent states"),
        page_copies_({cache_.as<std::byte>(), sizes_.page, states_.as<std::byte>(), state_bytes()},
                     stream_),
        acts_(allocate(sizes_.acts)),
        rows_({max_rows_, plan_.context, fused_.program.tokens(), fused_.program.given_cols()}),
        step_(sizes_.step, options.reproducible),
        logits_(sizes_.logits, "logits"),
        host_(make_host_ops(host_parts(), options, stream_)),
        ops_({fused_, sizes_, loaded_, copies_, caches_, host_.get(), step_, acts_, cache_, states_,
              logits_, observer_, exchange_.get()},
             {gpu_, attention_code_, switches.dependent_launches && has_dependent_launches(gpu_),
              switches.clusters, options.reproducible,
              measure_host(host_parts(), host_.get(), copies_, plan_, switches.cpu_part)},
             stream_),
        wanted_x_(sizes_.wanted, "activations"),
        host_logits_(fused_.program.vocab() * 4, "logits"),
        sampler_(fused_.program.vocab(), sizes_.logit_rows, sample_gpu(gpu_.compute_capability)),
        scored_x_(sizes_.scored, "scoring"),
        scorer_(fused_.program.vocab(), max_rows_),
        host_rows_(ops_, scored_x_, sizes_.logit_rows, stream_),
        spare_(kSpareBytes) {
    plan_.unlocked = loaded_.unlocked_bytes();
    if (!exchange_) return;
    exchange_->join(model.shard.rank);
    plan_.exchange_on_host = exchange_->through_host();
  }

  ~CudaExecutor() override { cudaStreamSynchronize(stream_); }

  const Program& program() const override { return fused_.program; }
  int64_t max_rows() const override { return max_rows_; }
  int64_t context() const override { return plan_.context; }
  PagePool& pages() override { return pool_; }
  const MemoryPlan& plan() const override { return plan_; }
  void observe(Observer observer) override {
    observer_ = std::move(observer);
    ++steps_;  // an early step that the observer has not seen is dropped
  }
  int64_t bytes_allocated() const override { return plan_.needed() - weight_room(plan_); }
  double device_seconds() override {
    SKALD_CUDA(cudaSetDevice(device_.index));
    return clock_.seconds();
  }
  ExpertUse expert_use() override {
    SKALD_CUDA(cudaSetDevice(device_.index));
    return caches_.use();
  }
  int64_t logit_rows() const override { return sizes_.logit_rows; }
  int64_t cache_bytes_per_token() const override { return sizes_.page / kPageTokens; }
  CacheTypes cache_types() const override { return sizes_.cache_types; }

  std::string description() const override {
    return concat("cuda:", device_.index, " (", device_.name, ", ", name(fused_.type), ")");
  }

  std::string page_format() const override {
    const bool usual = sizes_.cache_types == cache_types_of(fused_.type);
    return concat("cuda ", gpu_.compute_capability, " ", name(fused_.type),
                  usual ? "" : concat(", cache ", to_text(sizes_.cache_types)));
  }
  int64_t page_bytes() const override { return sizes_.page; }

  int64_t state_bytes() const override { return sizes_.slot_floats * 4; }

  void read_cache(std::span<const CacheRead> parts) override {
    for (const CacheRead& part : parts) check_part(part);
    SKALD_CUDA(cudaSetDevice(device_.index));
    page_copies_.read(parts);
  }

  void write_cache(std::span<const CacheWrite> parts) override {
    for (const CacheWrite& part : parts) check_part(part);
    SKALD_CUDA(cudaSetDevice(device_.index));
    page_copies_.write(parts);
  }

  std::shared_ptr<std::byte> host_memory(int64_t bytes) override {
    SKALD_CUDA(cudaSetDevice(device_.index));
    return memory_for_copies(bytes);
  }

  void check_step(Step step) const override {
    rows_.check_step(step);
    step_.check_fits(step);
  }

  int64_t run_extended(Step step, const Extension& extension) override {
    SKALD_CUDA(cudaSetDevice(device_.index));
    begin(step, extension);
    try {
      clock_.begin(stream_);
      use_spare([&] { compute(step); }, fused_.program.states.empty());  // states change once
      clock_.end(stream_);
      // Waits for the step: when a rank fails in the next step, no earlier step of the group still
      // runs, and steps of two groups never run at the same time.
      if (exchange_) SKALD_CUDA(cudaStreamSynchronize(stream_));
    } catch (...) {  // for example, no memory for a graph
      clock_.end(stream_);
      throw;
    }
    return std::ssize(rows_.wanted);
  }

  std::span<const float> logits(int64_t row) override {
    use_spare([&] { compute_logits(row); });
    const int64_t vocab = fused_.program.vocab();
    SKALD_CUDA(cudaMemcpyAsync(
        host_logits_.as<void>(), logits_.as<float>() + (row - first_logit_row_) * vocab,
        static_cast<size_t>(vocab) * sizeof(float), cudaMemcpyDeviceToHost, stream_));
    SKALD_CUDA(cudaStreamSynchronize(stream_));
    const std::span<const float> result(host_logits_.as<float>(), static_cast<size_t>(vocab));
    if (observer_) observer_({fused_.program.ops.size() - 1, "logits", result, vocab});
    return result;
  }

  std::span<const float> hidden(int64_t row) override {
    check(row >= 0 && row < std::ssize(rows_.wanted),
          "a wanted row's hidden numbers are asked for");
    const auto dim = static_cast<size_t>(fused_.cols(fused_.hidden));
    const auto at = [&] { return static_cast<size_t>(row - first_hidden_row_) * dim; };
    if (row < first_hidden_row_ || at() >= hidden_.size()) spare_.use([&] { fetch_hidden(row); });
    return hidden_.subspan(at(), dim);
  }

  std::span<const float> features(Features kind, int64_t first, int64_t count) override {
    check(first >= 0 && count >= 0 && first + count <= rows_.count(),
          "features of the step's rows");
    SKALD_CUDA(cudaSetDevice(device_.index));
    const ActId act = kind == Features::Taps ? fused_.program.features(kind) : fused_.hidden;
    const int64_t cols = fused_.cols(act);
    const float* rows = acts_[static_cast<size_t>(act)].as<float>() + first * cols;
    hidden_ = {};
    return spare_.use([&] {
      return host_rows_.bring(rows, {count, cols}, kind == Features::Normed);
    });
  }

  void drop_logits() override {
    if (!decode_) computed_logits_ = 0;  // a decode step computes its logits itself
  }

  std::vector<Picked> pick(std::span<const PickRequest> requests) override {
    if (observer_) return Executor::pick(requests);  // shows the observer the logits
    return use_spare([&] { return pick_on_device(requests); });
  }

  Picks run_ahead(std::span<const PickRequest> requests, Step next,
                  const Extension& extension) override {
    use_spare([&] { compute_logits(0); });
    begin(next, extension);
    spare_.use([&] { run_picked(requests, next); });  // a graph is launched whole or not at all
    Picks picks;
    sampler_.wait(std::ssize(requests), stream_, picks.picked);
    picks.step = steps_;
    return picks;
  }
  int64_t last_step() const override { return steps_; }

  std::vector<TokenScore> score(std::span<const int32_t> targets) override {
    if (observer_) return Executor::score(targets);
    use_spare([&] {
      begin_scoring(targets);
      for (int done = 0; done < scorer_.count();) done += score_part(done, sizes_.logit_rows).count;
    });
    clock_.end(stream_);
    return scorer_.scores(stream_);
  }

  std::vector<RowComparison> compare(Executor& of_base, std::span<const int32_t> targets) override {
    auto* base = dynamic_cast<CudaExecutor*>(&of_base);
    const bool together = base && base != this && base->device_.index == device_.index &&
                          base->decode_ == decode_ && !observer_ && !base->observer_;
    if (!together) return Executor::compare(of_base, targets);
    begin_scoring(targets);
    base->begin_scoring(targets);
    const int64_t most = std::min(sizes_.logit_rows, base->sizes_.logit_rows);
    for (int done = 0; done < scorer_.count();) {
      const DeviceScorer::Part part = score_part(done, most);
      base->follow(*this);  // two groups' exchanges beside one another might not fit on the GPU
      base->score_part(done, most);
      follow(*base);
      scorer_.compare(part, base->scorer_, base->logits_.as<float>(), stream_);
      base->follow(*this);
      done += part.count;
    }
    return scorer_.comparisons(base->scorer_, stream_);
  }

 private:
  // In a group, the group repeats on all ranks a job for which one rank had no memory.
  template <class Job>
  std::invoke_result_t<Job> use_spare(const Job& job, bool repeats = true) {
    return spare_.use(job, repeats && !exchange_);
  }

  void begin(Step step, const Extension& extension) {
    ++steps_;
    hidden_ = {};
    for (const Sequence::Copies& copies : extension) page_copies_.enqueue(copies);
    rows_.list(step);
  }

  HostOps::Parts host_parts() const { return {fused_, sizes_.placement, loaded_, acts_}; }

  // True if the next step can be enqueued before the host knows its tokens: a graph for its size
  // exists, each sequence has room, and no pick needs the host.
  bool can_run_ahead(std::span<const PickRequest> requests,
                     std::span<Sequence* const> sequences) override {
    const int rows = static_cast<int>(requests.size());
    check(std::ssize(rows_.wanted) == rows && rows_.sequences.back() + 1 == rows &&
              std::ssize(sequences) == rows,
          "each sequence of the last step has a wanted row");
    int64_t deepest = 0;
    for (const Sequence* sequence : sequences) deepest = std::max(deepest, sequence->length() + 1);
    const GraphKey kind{rows, decode_depth(deepest)};
    if (observer_ || fused_.program.given_cols() > 0 || !graphs_.captured(kind) ||
        rows > logit_rows() || !sampler_.picks_at_once(requests) ||
        !have_room(sequences, context()) || ops_.needs_host({rows, true, kind.depth})) {
      return false;
    }
    const bool greedy = sampler_.all_greedy(requests);
    const GraphKey picking{rows, kind.depth, greedy};
    if (pick_graphs_.captured(picking)) return true;
    SKALD_CUDA(cudaSetDevice(device_.index));
    try {
      pick_graphs_.capture(picking, stream_, [&] {
        sampler_.launch({logits_.as<float>(), rows, greedy}, step_.next(), stream_);
        ops_.run({rows, true, kind.depth, true, rows});
        sampler_.end_launch(stream_);
      });
    } catch (const Error& error) {
      if (error.code() == Exit::Memory) return false;
      throw;
    }
    return true;
  }

  // decode_depth() of the deepest row in the admitted step.
  int admitted_depth() const {
    const auto deepest = std::max_element(rows_.positions.begin(), rows_.positions.end());
    return decode_depth(deepest == rows_.positions.end() ? 0 : *deepest + 1);
  }

  // Runs the admitted step. Its tokens are picked on the device from the last step's logits.
  void run_picked(std::span<const PickRequest> requests, Step next) {
    const int rows = static_cast<int>(requests.size());
    sampler_.set(requests, step_.next_rows(next, rows_), stream_);
    decode_ = true;
    clock_.begin(stream_);
    caches_.will_change();
    pick_graphs_.launch({rows, admitted_depth(), sampler_.all_greedy(requests)}, stream_);
    clock_.end(stream_);
    first_logit_row_ = 0;
    computed_logits_ = rows;
  }

  void compute(Step step) {  // the admitted step
    const int rows = static_cast<int>(rows_.count());
    computed_logits_ = 0;
    const bool several = !rows_.one_row_each;
    // The launches of recurrent layers depend on the number of sequences.
    const bool few = rows_.few_rows_each && (step.size() == 1 || fused_.program.states.empty());
    decode_ = (!several || few) && rows <= sizes_.graph_rows && !reproducible_;
    if (decode_ || attention_code_ == AttentionCode::Plain) {
      step_.send(step, rows_, stream_);
    } else {
      step_.send_with_tiles(step, rows_, fused_.specs, attention_code_, stream_);
    }
    const auto sequences = static_cast<int>(step.size());
    const StepOps::Rows all = {rows, decode_, admitted_depth(), false, sequences, several};
    if (decode_ && !observer_ && switches_.graphs && ops_.can_be_graph(all)) {
      caches_.will_change();
      const bool launched =
          graphs_.run({rows, all.depth, false, several}, stream_, [&] { ops_.run(all); });
      if (launched && ops_.needs_host(all)) ops_.serve(all);
    } else {
      ops_.run(all);
    }
    if (!decode_ && !rows_.wanted.empty()) {
      launch_gather({acts_[static_cast<size_t>(fused_.hidden)].as<float>(), step_.wanted(),
                     wanted_x_.as<float>(), static_cast<int>(rows_.wanted.size()),
                     fused_.cols(fused_.hidden)},
                    stream_);
    }
    first_logit_row_ = 0;
    computed_logits_ = decode_ ? rows : 0;
  }

  // Computes the logits of wanted row `row` and of those after it, if logits_ does not have them.
  void compute_logits(int64_t row) {
    check(row >= 0 && row < static_cast<int64_t>(rows_.wanted.size()),
          "a wanted row's logits are asked for");
    SKALD_CUDA(cudaSetDevice(device_.index));
    if (row >= first_logit_row_ && row < first_logit_row_ + computed_logits_) return;
    computed_logits_ = 0;
    const int64_t count =
        std::min(sizes_.logit_rows, static_cast<int64_t>(rows_.wanted.size()) - row);
    ops_.run_head(wanted_x_.as<float>() + row * fused_.cols(fused_.hidden), static_cast<int>(count),
                  decode_);
    first_logit_row_ = row;
    computed_logits_ = count;
  }

  // The wanted rows from `row` on. In a decode step every row is wanted, and acts_ still has the
  // rows.
  void fetch_hidden(int64_t row) {
    SKALD_CUDA(cudaSetDevice(device_.index));
    const int64_t dim = fused_.cols(fused_.hidden);
    const auto count = std::min<int64_t>(sizes_.logit_rows, std::ssize(rows_.wanted) - row);
    const DeviceMemory& rows = decode_ ? acts_[static_cast<size_t>(fused_.hidden)] : wanted_x_;
    hidden_ = {};
    hidden_ = host_rows_.bring(rows.as<float>() + row * dim, {count, dim}, true);
    first_hidden_row_ = row;
  }

  std::vector<Picked> pick_on_device(std::span<const PickRequest> requests) {
    std::vector<Picked> picked;
    picked.reserve(requests.size());
    while (picked.size() < requests.size()) {
      const int64_t row = static_cast<int64_t>(picked.size());
      compute_logits(row);
      const int64_t ready = first_logit_row_ + computed_logits_ - row;
      const auto part = requests.subspan(picked.size());
      sampler_.pick(
          logits_.as<float>() + (row - first_logit_row_) * fused_.program.vocab(),
          part.first(std::min(part.size(), static_cast<size_t>(ready))),
          [&](int64_t i) { return logits(row + i); }, stream_, picked);
    }
    clock_.end(stream_);
    return picked;
  }

  void begin_scoring(std::span<const int32_t> targets) {
    check(targets.size() <= rows_.wanted.size(), "rows that are scored are wanted");
    SKALD_CUDA(cudaSetDevice(device_.index));
    scorer_.begin(targets, stream_);
  }

  // Scores at most `most` rows of the scorer's list, beginning with entry `first`. A decode step
  // has computed its logits already; other logits are computed here, over those in logits_.
  DeviceScorer::Part score_part(int first, int64_t most) {
    const auto rows = static_cast<int>(std::min<int64_t>(most, scorer_.count() - first));
    if (!decode_) {
      computed_logits_ = 0;
      launch_gather({wanted_x_.as<float>(), scorer_.rows(first), scored_x_.as<float>(), rows,
                     fused_.cols(fused_.hidden)},
                    stream_);
      ops_.run_head(scored_x_.as<void>(), rows, false);
    }
    const DeviceScorer::Part part = {logits_.as<float>(), !decode_, first, rows};
    scorer_.score(part, stream_);
    return part;
  }

  // Work that is enqueued after this call waits for everything that `other` has enqueued.
  void follow(CudaExecutor& other) {
    SKALD_CUDA(cudaEventRecord(other.enqueued_, other.stream_));
    SKALD_CUDA(cudaStreamWaitEvent(stream_, other.enqueued_, 0));
  }

  std::shared_ptr<const WeightFile> weight_file_;  // owns the memory of the program's weights
  Observer observer_;
  Switches switches_;
  DeviceInfo device_;
  std::shared_ptr<PeerExchange> exchange_;
  Gpu gpu_;  // the GPU that kernels are chosen for
  FusedProgram fused_;
  AttentionCode attention_code_;
  bool reproducible_;  // no kernel or split depends on the number of rows
  int64_t max_rows_;
  MemoryPlan plan_;
  Sizes sizes_;

  StreamOwner stream_;
  EventOwner enqueued_;
  StepClock clock_;
  LoadedModel loaded_;
  ExpertCaches caches_;
  WeightCopies copies_;

  PagePool pool_;
  DeviceMemory cache_;   // pool_.size() pages of sizes_.page bytes, all layers in a page
  DeviceMemory states_;  // sizes_.slots slots of state_bytes()
  PageCopies page_copies_;

  std::vector<DeviceMemory> acts_;  // one per buffer of the program, and qkv: [max_rows, cols]
  StepRows rows_;
  StepBuffer step_;
  DeviceMemory logits_;            // [logit_rows, vocab]
  std::unique_ptr<HostOps> host_;  // nullptr: the CPU computes nothing
  StepOps ops_;
  bool decode_ = false;
  int64_t steps_ = 0;  // steps begun so far
  Graphs graphs_;
  Graphs pick_graphs_;  // graphs of steps that first pick their tokens

  DeviceMemory wanted_x_;  // [wanted, dim], float
  PinnedMemory host_logits_;
  int64_t first_logit_row_ = 0, computed_logits_ = 0, first_hidden_row_ = 0;
  std::span<const float> hidden_;  // the wanted rows from first_hidden_row_ on, in host_rows_
  DeviceSampler sampler_;
  DeviceMemory scored_x_;  // [logit_rows, dim], float: rows to score, or hidden rows
  DeviceScorer scorer_;
  HostRows host_rows_;
  SpareMemory spare_;
};

}  // namespace

std::unique_ptr<RankExecutor> make_rank(const Model& model, const RunOptions& options, int device,
                                        const Switches& switches,
                                        std::shared_ptr<PeerExchange> exchange) {
  return std::make_unique<CudaExecutor>(model, options, device, switches, std::move(exchange));
}

}  // namespace skald::cuda
