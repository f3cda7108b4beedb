#include "engine/cpu/executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>

#include "engine/base/buffer.h"
#include "engine/base/error.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/plan.h"
#include "engine/cpu/product_observer.h"
#include "engine/cpu/row_deltas.h"
#include "engine/cpu/row_ops.h"
#include "engine/cpu/simd.h"
#include "engine/program/page_layout.h"
#include "engine/program/shard.h"
#include "engine/step/exchange.h"
#include "engine/step/group.h"
#include "engine/step/rank.h"

namespace skald::cpu {
namespace {

MemoryPlan checked_plan(const Model& model, const Program& program, const RunOptions& options) {
  check(options.rows > 0 && options.sequences > 0, "an executor has rows and sequences");
  MemoryPlan plan = plan_memory(model, program, options);
  check_fits(plan, "this machine");
  return plan;
}

// The name of the page format. Keys and values also depend on the activations' type, so unusual
// pairs of cache and activation types name both.
std::string format_of_pages(KernelSet set, const RunOptions& options) {
  const CacheTypes types = cache_types(options);
  const bool f16 = types == cache_types_of(DType::F16), f32 = types == cache_types_of(DType::F32);
  const bool usual = options.exact ? f32 : f16;
  return concat("cpu ", set == KernelSet::Fast ? find_simd().chosen : "reference", " ",
                f16   ? "f16"
                : f32 ? "f32"
                      : to_text(types),
                usual           ? ""
                : options.exact ? ", exact"
                                : ", not exact");
}

class CpuExecutor final : public RankExecutor {
 public:
  // exchange: with the other ranks of the model's group; nullptr: there are none.
  // products: their observer; nullptr: there is none.
  CpuExecutor(const Model& model, const RunOptions& options, KernelSet set,
              std::shared_ptr<HostExchange> exchange, ProductObserver* products = nullptr)
      : weights_(model.weights),
        shard_(model.shard),
        exchange_(std::move(exchange)),
        products_(products),
        program_(model.program()),
        logits_op_(program_.logits()),
        logit_borders_(logit_borders(program_.vocab(), shard_.of)),
        plan_(checked_plan(model, program_, options)),
        max_rows_(options.rows),
        cache_types_(cpu::cache_types(options)),
        layout_(program_, cache_types_),
        kernels_(set == KernelSet::Fast ? fast_kernels(kernel_options(program_, options))
                                        : reference_kernels(kernel_options(program_, options))),
        page_format_(format_of_pages(set, options)),
        pool_(cache_pages(plan_.context, options.sequences, options.cache_tokens),
              state_slots(program_, options)),
        step_({max_rows_, plan_.context, program_.tokens(), program_.given_cols()}),
        row_ops_(program_, *kernels_, max_rows_, products),
        row_deltas_(program_, *kernels_, row_ops_, max_rows_) {
    program_.bind_context(plan_.context);
    cache_ = Buffer(layout_.bytes * pool_.size(), "the key-value cache");
    for (const StateSpec& state : program_.states) {
      state_offsets_.push_back(state_floats_);
      state_floats_ += state.floats;
    }
    states_ = Buffer(pool_.states().size() * state_bytes(), "the recurrent states");
    wanted_ = Buffer(max_rows_ * hidden_cols() * int64_t{sizeof(float)}, "activations");
    logits_ = Buffer(kLogitRows * program_.vocab() * int64_t{sizeof(float)}, "logits");
    if (logits_op_.is_part()) {
      logits_part_ = Buffer(kLogitRows * head().rows * int64_t{sizeof(float)}, "logits");
    }
    rows_.reserve(static_cast<size_t>(max_rows_));
    slots_.reserve(rows_.capacity());
    adapters_.reserve(rows_.capacity());
    state_rows_.reserve(rows_.capacity());
  }

  const Program& program() const override { return program_; }
  int64_t max_rows() const override { return max_rows_; }
  int64_t context() const override { return plan_.context; }
  PagePool& pages() override { return pool_; }
  const MemoryPlan& plan() const override { return plan_; }
  void observe(Observer observer) override { observer_ = std::move(observer); }
  std::string description() const override { return "cpu (" + kernels_->description() + ")"; }

  int64_t logit_rows() const override { return kLogitRows; }
  int64_t cache_bytes_per_token() const override { return layout_.bytes / kPageTokens; }
  CacheTypes cache_types() const override { return cache_types_; }

  std::string page_format() const override { return page_format_; }
  int64_t page_bytes() const override { return layout_.bytes; }

  int64_t state_bytes() const override { return state_floats_ * int64_t{sizeof(float)}; }

  void read_cache(std::span<const CacheRead> parts) override {
    for (const CacheRead& part : parts) {
      check_part(part);
      std::memcpy(part.bytes.data(), address(part.kind, part.number), part.bytes.size());
    }
  }

  void write_cache(std::span<const CacheWrite> parts) override {
    for (const CacheWrite& part : parts) {
      check_part(part);
      std::memcpy(address(part.kind, part.number), part.bytes.data(), part.bytes.size());
    }
  }

  int64_t bytes_allocated() const override {
    return cache_.bytes() + states_.bytes() + wanted_.bytes() + logits_.bytes() +
           logits_part_.bytes() + row_ops_.bytes() + row_deltas_.bytes();
  }

  void check_step(Step step) const override {
    step_.check_step(step);
    for (const SeqRows& part : step) {
      const int adapter = part.sequence->adapter();
      check(adapter >= 0 && adapter < std::max(program_.adapters, 1),
            "a sequence's adapter exists");
    }
  }

  int64_t run_extended(Step step, const Extension& extension) override {
    begin(step, extension);
    for (size_t i = 0; i + 1 < program_.ops.size(); ++i) {
      std::visit([this](const auto& op) { apply(op); }, program_.ops[i]);
      if (observer_) {
        const ActSpec& act = program_.act(*op_output(program_.ops[i]));
        const float* values = data(*op_output(program_.ops[i]));
        observer_({i, act.name, {values, static_cast<size_t>(rows() * act.cols)}, act.cols});
      }
    }
    if (products_) {
      products_->see(program_.weight(logits_op_.weight), data(logits_op_.in), rows());
    }
    collect_wanted();
    return wanted_rows();
  }

  std::span<const float> hidden(int64_t row) override {
    check(row >= 0 && row < wanted_rows(), "a wanted row's hidden numbers are asked for");
    return {wanted_.as<float>() + row * hidden_cols(), static_cast<size_t>(hidden_cols())};
  }

  std::span<const float> features(Features kind, int64_t first, int64_t count) override {
    check(first >= 0 && count >= 0 && first + count <= rows(), "features of the step's rows");
    const ActId act = program_.features(kind);
    const int64_t cols = program_.act(act).cols;
    return {data(act) + first * cols, static_cast<size_t>(count * cols)};
  }

  void drop_logits() override { logit_rows_ = 0; }

  std::span<const float> logits(int64_t row) override {
    check(row >= 0 && row < wanted_rows(), "a wanted row's logits are asked for");
    if (row < first_logit_row_ || row >= first_logit_row_ + logit_rows_) compute_logits(row);
    const int64_t vocab = program_.vocab();
    return {logits_.as<float>() + (row - first_logit_row_) * vocab, static_cast<size_t>(vocab)};
  }

 private:
  int64_t rows() const { return step_.count(); }
  int64_t wanted_rows() const { return static_cast<int64_t>(step_.wanted.size()); }
  int64_t hidden_cols() const { return program_.act(logits_op_.in).cols; }
  float* data(ActId id) { return row_ops_.data(id); }
  const float* vector(WeightId id) const { return row_ops_.vector(id); }

  void begin(Step step, const Extension& extension) {
    for (const Sequence::Copies& copies : extension) {
      if (copies.page) {
        std::memcpy(page(copies.page->to), page(copies.page->from),
                    static_cast<size_t>(layout_.bytes));
      }
      if (copies.state) {
        std::memcpy(state(copies.state->to), state(copies.state->from),
                    static_cast<size_t>(state_bytes()));
      }
    }
    step_.list(step);
    rows_.clear();
    slots_.clear();
    adapters_.clear();
    for (int64_t r = 0; r < rows(); ++r) {
      const size_t row = static_cast<size_t>(r);
      const Sequence& sequence = *step[static_cast<size_t>(step_.sequences[row])].sequence;
      rows_.push_back({sequence.pages(), step_.positions[row]});
      slots_.push_back(sequence.state());
      adapters_.push_back(sequence.adapter());
    }
  }

  std::byte* page(int32_t index) const { return cache_.data() + index * layout_.bytes; }
  float* state(int32_t slot) { return states_.as<float>() + slot * state_floats_; }
  void* address(CacheKind kind, int32_t number) {
    return kind == CacheKind::Page ? static_cast<void*>(page(number)) : state(number);
  }

  // Returns where the step's rows find the state of one op.
  const StateRow* state_rows(int index) {
    state_rows_.clear();
    for (size_t r = 0; r < rows_.size(); ++r) {
      float* const at = state(slots_[r]) + state_offsets_[static_cast<size_t>(index)];
      state_rows_.push_back({at, rows_[r].position});
    }
    return state_rows_.data();
  }

  template <class RowOp>
  requires kIsRowOp<RowOp>
  void apply(const RowOp& op) { row_ops_.run(op, rows()); }

  void apply(const Embed& op) {
    kernels_->embed(
        {program_.weight(op.weight).view, step_.tokens.data(), data(op.out), rows(), op.scale});
  }

  void apply(const Given& op) {
    const int64_t cols = program_.act(op.out).cols, all = program_.given_cols();
    const float* const from = step_.given.data() + op.first;
    for (int64_t row = 0; row < rows(); ++row) {
      std::copy_n(from + row * all, cols, data(op.out) + row * cols);
    }
  }

  void apply(const Delta& op) { row_deltas_.run(op, adapters_); }

  void apply(const Rope& op) {
    const RopeSpec* spec = &program_.ropes[static_cast<size_t>(op.spec)];
    kernels_->rope({data(op.x), step_.positions.data(), spec, rows(), op.heads, op.head_dim});
  }

  void apply(const Attention& op) {
    AttentionArgs args;
    args.q = data(op.q);
    args.k = op.appends ? data(op.k) : nullptr;
    args.v = op.appends ? data(op.v) : nullptr;
    args.out = data(op.out);
    args.at = rows_.data();
    args.rows = rows();
    args.cache = {cache_.data() + layout_.offsets[static_cast<size_t>(op.layer)], layout_.bytes,
                  cache_types_};
    args.spec = op.spec;
    args.sinks = vector(op.sinks);
    kernels_->attention(args);
  }

  void apply(const CausalConv& op) {
    kernels_->causal_conv({data(op.in), vector(op.weight), data(op.out), state_rows(op.state),
                           rows(), program_.act(op.in).cols, op.taps, op.activation,
                           vector(op.bias)});
  }

  void apply(const StateSpace& op) {
    kernels_->state_space({data(op.in), data(op.step), vector(op.rate), vector(op.bias),
                           vector(op.skip), data(op.out), state_rows(op.state), rows(), op.spec});
  }

  void apply(const DeltaNet& op) {
    kernels_->delta_net({data(op.in), data(op.decay), data(op.beta), vector(op.rate),
                         vector(op.bias), data(op.out), state_rows(op.state), rows(), op.spec});
  }

  void apply(const AllReduce& op) {
    const auto numbers = static_cast<size_t>(rows() * program_.act(op.x).cols);
    exchange_->all_reduce(shard_.rank, {data(op.x), numbers});
  }

  void apply(const Logits&) {}  // compute_logits() computes them on request

  const TensorView& head() const { return program_.weight(logits_op_.weight).view; }

  void compute_logits(int64_t row) {
    first_logit_row_ = row;
    logit_rows_ = std::min(kLogitRows, wanted_rows() - row);
    const float* in = wanted_.as<float>() + row * hidden_cols();
    const int64_t vocab = program_.vocab(), own = head().rows;
    float* const out = (logits_op_.is_part() ? logits_part_ : logits_).as<float>();
    kernels_->linear({head(), nullptr, in, out, logit_rows_});
    if (logits_op_.scale != 1 || logits_op_.softcap != 0) {
      kernels_->cap({out, logit_rows_ * own, logits_op_.scale, logits_op_.softcap});
    }
    if (logits_op_.is_part()) {
      exchange_->all_gather(shard_.rank, {out, static_cast<size_t>(logit_rows_ * own)},
                            logit_borders_,
                            {logits_.as<float>(), static_cast<size_t>(logit_rows_ * vocab)});
    }
    if (observer_) {
      observer_({program_.ops.size() - 1,
                 "logits",
                 {logits_.as<float>(), static_cast<size_t>(logit_rows_ * vocab)},
                 vocab});
    }
  }

  void collect_wanted() {
    const int64_t cols = hidden_cols();
    logit_rows_ = 0;
    for (int64_t i = 0; i < wanted_rows(); ++i) {
      const int32_t row = step_.wanted[static_cast<size_t>(i)];
      std::memcpy(wanted_.as<float>() + i * cols, data(logits_op_.in) + row * cols,
                  static_cast<size_t>(cols) * sizeof(float));
    }
  }

  std::shared_ptr<const WeightFile> weights_;
  const Shard shard_;
  const std::shared_ptr<HostExchange> exchange_;
  ProductObserver* const products_;
  Program program_;
  Logits logits_op_;
  std::vector<int64_t> logit_borders_;  // of the ranks' parts
  MemoryPlan plan_;
  int64_t max_rows_;
  CacheTypes cache_types_;
  PageLayout layout_;
  std::unique_ptr<Kernels> kernels_;
  std::string page_format_;
  PagePool pool_;

  Buffer cache_;  // pool_.size() pages of layout_.bytes, all layers in a page

  Buffer states_;  // one state_floats_ for each slot of the pool
  int64_t state_floats_ = 0;
  std::vector<int64_t> state_offsets_;  // [Program::states], in floats

  StepRows step_;
  std::vector<AttentionRow> rows_;    // rows of the step
  std::vector<int32_t> slots_;        // the same rows' slots of states_
  std::vector<int32_t> adapters_;     // the same rows' adapters
  std::vector<StateRow> state_rows_;  // the same rows for one op
  RowOps row_ops_;                    // has the buffers of all ops
  RowDeltas row_deltas_;

  // The step's wanted rows, and the logits of those that were computed last.
  Buffer wanted_;       // [wanted_rows(), dim]
  Buffer logits_;       // [logit_rows_, vocab]
  Buffer logits_part_;  // [logit_rows_, own rows of the head], if the rank has a part of it
  int64_t first_logit_row_ = 0, logit_rows_ = 0;

  Observer observer_;
};

void check_weights(const Model& model) {
  model.weights->check_whole();
  for (const Tensor& tensor : model.weights->tensors()) {
    check(!tensor.source.exists() && !tensor.view.reader,
          "the CPU computes with weights that are there");
  }
}

}  // namespace

std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options,
                                        KernelSet kernels) {
  return make_rank(model, options, kernels, nullptr);
}

std::unique_ptr<Executor> make_observed_executor(const Model& model, const RunOptions& options,
                                                 ProductObserver& observer, KernelSet kernels) {
  check_weights(model);
  check(model.shard.of == 1, "an observer sees whole products");
  return std::make_unique<CpuExecutor>(model, options, kernels, nullptr, &observer);
}

std::unique_ptr<RankExecutor> make_rank(const Model& model, const RunOptions& options,
                                        KernelSet kernels, std::shared_ptr<HostExchange> exchange) {
  check_weights(model);
  check(exchange || model.shard.of == 1, "a rank of several exchanges with the others");
  return std::make_unique<CpuExecutor>(model, options, kernels, std::move(exchange));
}

std::unique_ptr<Executor> make_group(const Model& model, const RunOptions& options, int ranks,
                                     KernelSet kernels) {
  const auto exchange = std::make_shared<ThreadExchange>(ranks);
  RunOptions own = options;
  const int threads = options.threads > 0 ? options.threads : available_threads();
  own.threads = std::max(1, threads / ranks);
  for (int rank = 0; rank < ranks; ++rank) {  // the context that every rank has memory for
    Model shard = model;
    shard.shard = {rank, ranks};
    const int64_t context = plan_memory(shard, own).context;
    own.context = rank == 0 ? context : std::min(context, own.context);
  }
  return make_group(model, ranks, exchange,
                    [&](const Model& shard) { return make_rank(shard, own, kernels, exchange); });
}

double measure_read_bandwidth(int threads) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  constexpr int kPasses = 5;
  Buffer memory(kBytes, "the bandwidth measurement");
  std::memset(memory.data(), 1, static_cast<size_t>(kBytes));
  const auto kernels = fast_kernels({.threads = threads});
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    const uint64_t sum = kernels->read_all({memory.data(), static_cast<size_t>(kBytes)});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    check(sum != 0, "reading memory sums its bytes");
    best = std::max(best, static_cast<double>(kBytes) / seconds.count());
  }
  return best;
}

}  // namespace skald::cpu
