// Walks the fused ops of a Program on one GPU. Steps with one row of each sequence run as a
// captured graph, one for each number of rows; all others are launched op by op.
#include <algorithm>
#include <cstring>
#include <map>

#include "cuda/check.h"
#include "cuda/cuda.h"
#include "cuda/fuse.h"
#include "cuda/handles.h"
#include "cuda/kernels/attention.h"
#include "cuda/kernels/built_for.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/pointwise.h"
#include "cuda/memory.h"
#include "cuda/sampler.h"
#include "cuda/select.h"
#include "cuda/weights.h"
#include "engine/quant/half.h"
#include "engine/step.h"

namespace skald::cuda {
namespace {

// Logits of a long prompt are computed this many rows at a time, as they are asked for.
constexpr int64_t kLogitRows = 64;
// A graph costs memory and a first slow run, so only steps of up to this many rows get one.
constexpr int64_t kMostGraphRows = 256;
// Left free for CUDA itself and for others on the GPU.
constexpr int64_t kReserveBytes = 512 << 20;

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

// What an op needs besides its buffers.
struct LoadedOp {
  FusedOp fused;
  Matrix matrix;                // Embed, FusedLinear
  const float* norm = nullptr;  // FusedLinear
  const float* bias = nullptr;
};

struct Graph {
  cudaGraphExec_t executable = nullptr;
  bool warm = false;  // ran once without a graph, so that nothing is set up during the capture

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    if (executable) cudaGraphExecDestroy(executable);
  }
};

// The one number format of a model's matrices; the kernels' activations have it too.
DType matrix_type(const Program& program) {
  DType type = program.weights.front().view.type;
  for (const Weight& weight : program.weights) {
    const bool matrix = weight.view.rows > 1;
    if (!matrix) continue;
    type = weight.view.type;
    if (type != DType::F16 && type != DType::BF16 && type != DType::F32) {
      fail(Exit::Failed, "CUDA has no kernel for products with ", name(type), " weights, as '",
           weight.name, "' has; use --device cpu");
    }
  }
  for (const Weight& weight : program.weights) {
    if (weight.view.rows > 1 && weight.view.type != type) {
      fail(Exit::Failed, "CUDA has no kernels for a model that mixes ", name(type), " and ",
           name(weight.view.type), " matrices, as '", weight.name, "' does; use --device cpu");
    }
  }
  return type;
}

// Makes a device the current one before a class's other members are made.
struct CurrentDevice {
  explicit CurrentDevice(int device) { SKALD_CUDA(cudaSetDevice(device)); }
};

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const Model& model, const RunOptions& options, int device)
      : weight_file_(model.weights),
        program_(model.program()),
        device_(device),
        type_(matrix_type(program_)),
        element_(type_ == DType::F32 ? 4 : 2),
        max_rows_(options.rows),
        qkv_(static_cast<ActId>(program_.acts.size())),
        current_(device) {
    cudaDeviceProp properties;
    SKALD_CUDA(cudaGetDeviceProperties(&properties, device));
    gpu_ = {properties.major * 10 + properties.minor, properties.multiProcessorCount};
    device_name_ = properties.name;
    attention_code_ = attention_code(type_);
    plan_ops();
    plan_memory(options, model.config.context);
    load_weights();
  }

  ~CudaExecutor() override { cudaStreamSynchronize(stream_); }

  const Program& program() const override { return program_; }
  int64_t max_rows() const override { return max_rows_; }
  int64_t context() const override { return context_; }
  PagePool& pages() override { return *pool_; }
  void observe(Observer observer) override { observer_ = std::move(observer); }
  int64_t bytes_allocated() const override { return cache_.bytes() + workspace_bytes_; }
  int64_t cache_bytes_per_token() const override { return page_bytes_ / kPageTokens; }

  std::string description() const override {
    return concat("cuda:", device_, " (", device_name_, ", ", name(type_), ")");
  }

  int64_t run(Step step) override {
    SKALD_CUDA(cudaSetDevice(device_));
    if (table_bytes(step) > host_table_.bytes()) {
      fail(Exit::Failed, "a step of ", step.size(), " sequences is more than was prepared for");
    }
    step_->admit(step, [this](Sequence::PageCopy copy) {
      SKALD_CUDA(cudaMemcpyAsync(page(copy.to), page(copy.from), static_cast<size_t>(page_bytes_),
                                 cudaMemcpyDeviceToDevice, stream_));
    });
    const int rows = static_cast<int>(step_->count());
    decode_ = step_->one_row_each && rows <= std::min(kMostGraphRows, logit_rows_);
    send_step(step);
    if (decode_ && !observer_) {
      run_graph(rows);
    } else {
      enqueue(rows);
    }
    if (!decode_ && !step_->wanted.empty()) {
      launch_gather(act<float>(hidden()), table(wanted_), wanted_x_.as<float>(),
                    static_cast<int>(step_->wanted.size()), act_cols(hidden()), stream_);
    }
    first_logit_row_ = 0;
    computed_logits_ = decode_ ? rows : 0;
    return static_cast<int64_t>(step_->wanted.size());
  }

  std::span<const float> logits(int64_t row) override {
    compute_logits(row);
    const int64_t vocab = program_.vocab();
    SKALD_CUDA(cudaMemcpyAsync(
        host_logits_.as<void>(), logits_.as<float>() + (row - first_logit_row_) * vocab,
        static_cast<size_t>(vocab) * sizeof(float), cudaMemcpyDeviceToHost, stream_));
    SKALD_CUDA(cudaStreamSynchronize(stream_));
    const std::span<const float> result(host_logits_.as<float>(), static_cast<size_t>(vocab));
    if (observer_) observer_({program_.ops.size() - 1, "logits", result, vocab});
    return result;
  }

  std::vector<Picked> pick(std::span<const PickRequest> requests) override {
    if (observer_) return Executor::pick(requests);  // which shows it the logits
    std::vector<Picked> picked;
    picked.reserve(requests.size());
    while (picked.size() < requests.size()) {
      const int64_t row = static_cast<int64_t>(picked.size());
      compute_logits(row);
      const int64_t ready = first_logit_row_ + computed_logits_ - row;
      const auto part = requests.subspan(picked.size());
      sampler_->pick(
          logits_.as<float>() + (row - first_logit_row_) * program_.vocab(),
          part.first(std::min(part.size(), static_cast<size_t>(ready))),
          [&](int64_t i) { return logits(row + i); }, stream_, picked);
    }
    return picked;
  }

 private:
  // ---- Setting up ----

  void plan_ops() {
    for (FusedOp& fused : fuse(program_, qkv_))
      ops_.push_back({std::move(fused), {}, nullptr, nullptr});
    check(std::holds_alternative<FusedLinear>(ops_.back().fused.op), "the last op makes logits");
    const auto& embed = std::get<Embed>(ops_.front().fused.op);
    hidden_ = embed.out;
    for (const LoadedOp& op : ops_) {
      const auto* attention = std::get_if<FusedAttention>(&op.fused.op);
      if (attention) attention_ = attention->spec;
    }
    for (const ActSpec& spec : program_.acts) widest_ = std::max(widest_, spec.cols);
  }

  int64_t matrix_bytes(const std::vector<WeightId>& parts) const {
    int64_t bytes = 0;
    for (WeightId part : parts) bytes += program_.weight(part).view.bytes();
    return Weights::padded(bytes);
  }

  int64_t weight_bytes() const {
    constexpr int64_t kVectorBytes = 1 << 20;  // more than any norm or bias, rope frequencies too
    int64_t bytes = kVectorBytes;
    for (const LoadedOp& op : ops_) {
      std::visit(Overloaded{[&](const Embed& o) { bytes += matrix_bytes({o.weight}); },
                            [&](const FusedLinear& o) {
                              const int64_t outs = outs_of(o);
                              const int64_t ins = program_.weight(o.parts[0]).view.cols;
                              bytes += shares_embedding(o) ? 0 : matrix_bytes(o.parts);
                              bytes += Weights::padded(outs * 4) + Weights::padded(ins * 4);
                            },
                            [](const FusedAttention&) {}},
                 op.fused.op);
    }
    return bytes;
  }

  int64_t outs_of(const FusedLinear& op) const {
    int64_t outs = 0;
    for (WeightId part : op.parts) outs += program_.weight(part).view.rows;
    return outs;
  }

  bool shares_embedding(const FusedLinear& op) const {
    return op.parts.size() == 1 && op.parts[0] == std::get<Embed>(ops_.front().fused.op).weight;
  }

  int64_t act_cols(ActId id) const {
    if (id != qkv_) return program_.act(id).cols;
    return int64_t{attention_.heads + 2 * attention_.kv_heads} * attention_.head_dim;
  }

  // Everything is allocated here; what does not fit is said before anything is loaded.
  void plan_memory(const RunOptions& options, int64_t model_context) {
    size_t free = 0, total = 0;
    SKALD_CUDA(cudaMemGetInfo(&free, &total));
    for (const KvLayer& layer : program_.kv) {
      kv_offsets_.push_back(page_bytes_);
      page_bytes_ += 2 * int64_t{layer.kv_heads} * kPageTokens * layer.head_dim * element_;
    }
    logit_rows_ = std::max<int64_t>(kLogitRows, options.sequences);
    context_ = options.context > 0 ? options.context : model_context;
    const int64_t weights = weight_bytes();
    const int64_t buffers = buffer_bytes();
    const int64_t left = static_cast<int64_t>(free) - kReserveBytes - weights - buffers;
    const int64_t per_context_page = page_bytes_ * options.sequences;
    const int64_t most_context = std::max<int64_t>(0, left) / per_context_page * kPageTokens;
    if (options.context == 0) context_ = std::min(context_, most_context);
    if (context_ == 0 || context_ > most_context) {
      fail(Exit::Memory, "the GPU has ", free >> 20, " MiB free; weights take ", weights >> 20,
           ", buffers ", buffers >> 20, ", and the cache ",
           (pages_for(context_) * per_context_page) >> 20, " for a context of ", context_,
           "; the largest context that fits is ", most_context);
    }
    weights_.emplace(weights);
    pool_.emplace(pages_for(context_) * options.sequences);
    cache_ = DeviceMemory(page_bytes_ * pool_->size(), "the key-value cache");
    step_.emplace(StepLimits{max_rows_, context_, program_.vocab()});
    allocate_buffers(options);
  }

  int64_t act_bytes(ActId id) const {
    return max_rows_ * act_cols(id) * (id == hidden_ ? 4 : element_);
  }

  int64_t buffer_bytes() const {
    int64_t bytes = 0;
    for (size_t i = 0; i <= program_.acts.size(); ++i) bytes += act_bytes(static_cast<ActId>(i));
    return bytes + max_rows_ * (2 * widest_ * element_ + act_cols(hidden_) * 4) +
           logit_rows_ * program_.vocab() * 4 + DeviceSampler::bytes_for(logit_rows_);
  }

  void allocate_buffers(const RunOptions& options) {
    for (size_t i = 0; i <= program_.acts.size(); ++i) {
      acts_.emplace_back(act_bytes(static_cast<ActId>(i)), "activations");
    }
    pairs_ = DeviceMemory(max_rows_ * 2 * widest_ * element_, "activations");
    wanted_x_ = DeviceMemory(max_rows_ * act_cols(hidden_) * 4, "activations");
    logits_ = DeviceMemory(logit_rows_ * program_.vocab() * 4, "logits");
    host_logits_ = PinnedMemory(program_.vocab() * 4, "logits");
    sampler_.emplace(program_.vocab(), logit_rows_, sample_shape_here(program_.vocab()));
    const int rows = static_cast<int>(std::min({kMostGraphRows, max_rows_, logit_rows_}));
    const int64_t floats = attention_workspace_floats(rows, attention_, static_cast<int>(context_),
                                                      gpu_.multiprocessors);
    attention_floats_ = DeviceMemory(floats * 4, "attention");
    const int64_t ticket_bytes = attention_tickets(rows, attention_) * 4;
    tickets_ = DeviceMemory(ticket_bytes, "attention");
    SKALD_CUDA(cudaMemsetAsync(tickets_.as<void>(), 0, static_cast<size_t>(ticket_bytes), stream_));

    // The step's table: all lists have room for max_rows, the page table comes last.
    const int64_t most_sequences = std::max<int64_t>(options.sequences, 64);
    most_tiles_ = attention_tiles_bound(static_cast<int>(max_rows_), static_cast<int>(max_rows_),
                                        attention_, attention_code_);
    int64_t bytes = 0;
    for (int64_t* offset : {&tokens_, &positions_, &sequences_, &wanted_}) {
      *offset = bytes;
      bytes += Weights::padded(max_rows_ * 4);
    }
    tiles_ = bytes;
    bytes += Weights::padded(most_tiles_ * int64_t{sizeof(AttentionTile)});
    page_table_ = bytes;
    bytes += Weights::padded(std::min(most_sequences, max_rows_) * pages_for(context_) * 4);
    device_table_ = DeviceMemory(bytes, "the step's table");
    host_table_ = PinnedMemory(bytes, "the step's table");
    workspace_bytes_ = buffer_bytes() + attention_floats_.bytes() + device_table_.bytes();
  }

  void load_weights() {
    weight_by_embed_ = {};
    for (LoadedOp& op : ops_) {
      std::visit(Overloaded{[&](const Embed& o) {
                              op.matrix = weights_->upload(views({o.weight}), false, stream_);
                              weight_by_embed_ = op.matrix;
                            },
                            [&](const FusedLinear& o) { load_linear(op, o); },
                            [](const FusedAttention&) {}},
                 op.fused.op);
    }
    for (const RopeSpec& rope : program_.ropes) {
      TensorView view;
      view.data = reinterpret_cast<const std::byte*>(rope.inv_freq.data());
      view.rows = 1;
      view.cols = static_cast<int64_t>(rope.inv_freq.size());
      ropes_.push_back(weights_->upload_floats({&view, 1}, false, stream_));
    }
    SKALD_CUDA(cudaStreamSynchronize(stream_));
  }

  void load_linear(LoadedOp& op, const FusedLinear& linear) {
    const bool alternate = linear.epilogue == Epilogue::Gated;
    op.matrix = shares_embedding(linear)
                    ? weight_by_embed_
                    : weights_->upload(views(linear.parts), alternate, stream_);
    if (linear.norm) {
      op.norm = weights_->upload_floats(views({linear.norm->weight}), false, stream_);
    }
    std::vector<TensorView> biases;
    bool any = false;
    for (size_t i = 0; i < linear.parts.size(); ++i) {
      TensorView none;
      none.cols = program_.weight(linear.parts[i]).view.rows;
      const bool has = linear.biases[i] != WeightId::None;
      biases.push_back(has ? program_.weight(linear.biases[i]).view : none);
      any = any || has;
    }
    if (any) op.bias = weights_->upload_floats(biases, alternate, stream_);
  }

  std::vector<TensorView> views(const std::vector<WeightId>& ids) const {
    std::vector<TensorView> all;
    for (WeightId id : ids) all.push_back(program_.weight(id).view);
    return all;
  }

  // ---- Running ----

  ActId hidden() const { return hidden_; }
  std::byte* page(int32_t index) const { return cache_.as<std::byte>() + index * page_bytes_; }

  template <class T>
  T* act(ActId id) const {
    return acts_[static_cast<size_t>(id)].as<T>();
  }

  const int32_t* table(int64_t offset) const {
    return reinterpret_cast<const int32_t*>(device_table_.as<std::byte>() + offset);
  }

  int64_t table_bytes(Step step) const {
    return page_table_ + static_cast<int64_t>(step.size()) * pages_for(context_) * 4;
  }

  // The step's lists to the GPU, in one copy.
  void send_step(Step step) {
    SKALD_CUDA(cudaEventSynchronize(step_sent_));  // the buffer's last copy has left
    std::byte* host = host_table_.as<std::byte>();
    auto copy = [&](int64_t offset, const std::vector<int32_t>& list) {
      std::memcpy(host + offset, list.data(), list.size() * sizeof(int32_t));
    };
    const std::vector<int32_t> positions(step_->positions.begin(), step_->positions.end());
    copy(tokens_, step_->tokens);
    copy(positions_, positions);
    copy(sequences_, step_->sequences);
    copy(wanted_, step_->wanted);
    tile_count_ = 0;
    if (attention_code_ != AttentionCode::Plain && !decode_) {
      tile_count_ = build_attention_tiles(
          positions.data(), step_->sequences.data(), static_cast<int>(step_->count()), attention_,
          attention_code_, reinterpret_cast<AttentionTile*>(host + tiles_));
    }
    const int64_t pages = pages_for(context_);
    const int64_t bytes = table_bytes(step);
    for (size_t s = 0; s < step.size(); ++s) {
      const std::span<const int32_t> list = step[s].sequence->pages();
      std::memcpy(host + page_table_ + static_cast<int64_t>(s) * pages * 4, list.data(),
                  list.size_bytes());
    }
    SKALD_CUDA(cudaMemcpyAsync(device_table_.as<void>(), host, static_cast<size_t>(bytes),
                               cudaMemcpyHostToDevice, stream_));
    SKALD_CUDA(cudaEventRecord(step_sent_, stream_));
  }

  void run_graph(int rows) {
    Graph& graph = graphs_[rows];
    if (!graph.warm) {
      enqueue(rows);
      graph.warm = true;
      return;
    }
    if (!graph.executable) {
      cudaGraph_t captured = nullptr;
      SKALD_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
      try {
        enqueue(rows);
      } catch (...) {
        cudaStreamEndCapture(stream_, &captured);
        if (captured) cudaGraphDestroy(captured);
        cudaGetLastError();
        throw;
      }
      SKALD_CUDA(cudaStreamEndCapture(stream_, &captured));
      const cudaError_t status = cudaGraphInstantiate(&graph.executable, captured, 0);
      cudaGraphDestroy(captured);
      SKALD_CUDA(status);
    }
    SKALD_CUDA(cudaGraphLaunch(graph.executable, stream_));
  }

  void enqueue(int rows) {
    for (const LoadedOp& op : ops_) {
      std::visit(Overloaded{[&](const Embed& o) {
                              launch_embed({type_, op.matrix.data, table(tokens_),
                                            act<float>(o.out), rows, op.matrix.ins},
                                           stream_);
                            },
                            [&](const FusedLinear& o) {
                              if (o.epilogue == Epilogue::Logits && !decode_) return;
                              run_linear(op, o, act<void>(o.in), rows);
                            },
                            [&](const FusedAttention& o) { run_attention(o, rows); }},
                 op.fused.op);
      if (observer_) observe_op(op.fused, rows);
    }
  }

  // Into logits_, with those of the wanted rows after it, unless they are there.
  void compute_logits(int64_t row) {
    check(row >= 0 && row < static_cast<int64_t>(step_->wanted.size()),
          "a wanted row's logits are asked for");
    SKALD_CUDA(cudaSetDevice(device_));
    if (row >= first_logit_row_ && row < first_logit_row_ + computed_logits_) return;
    first_logit_row_ = row;
    computed_logits_ = std::min(logit_rows_, static_cast<int64_t>(step_->wanted.size()) - row);
    const LoadedOp& head = ops_.back();
    run_linear(head, std::get<FusedLinear>(head.fused.op),
               wanted_x_.as<float>() + row * act_cols(hidden()),
               static_cast<int>(computed_logits_));
  }

  void run_linear(const LoadedOp& op, const FusedLinear& linear, const void* in, int rows) {
    LinearLaunch launch;
    launch.type = type_;
    launch.weight = op.matrix.data;
    launch.outs = op.matrix.outs;
    launch.ins = op.matrix.ins;
    launch.rows = rows;
    launch.in = in;
    launch.norm_weight = op.norm;
    launch.norm_eps = linear.norm ? linear.norm->eps : 0;
    launch.bias = op.bias;
    launch.out = linear.epilogue == Epilogue::Logits ? logits_.as<void>() : act<void>(linear.out);
    launch.epilogue = linear.epilogue;
    launch.activation = linear.activation;
    launch.dependent = decode_ && kHasSm90a && gpu_.compute_capability == 90;
    const LinearKernel kernel = select_linear(launch, gpu_);
    if (kernel == LinearKernel::GemvSm90)
      return launch_gemv_sm90(launch, gpu_.multiprocessors, stream_);

    if (linear.norm) {
      void* normed = act<void>(linear.norm->out);
      launch_rms_norm({type_, static_cast<const float*>(in), op.norm, normed, rows, launch.ins,
                       launch.norm_eps},
                      stream_);
      launch.in = normed;
      launch.norm_weight = nullptr;
    }
    if (kernel == LinearKernel::GemvPlain) return launch_gemv_plain(launch, stream_);

    const float* bias = std::exchange(launch.bias, nullptr);
    if (linear.epilogue == Epilogue::Gated) {
      void* out = std::exchange(launch.out, pairs_.as<void>());
      launch.epilogue = Epilogue::Store;
      gemm_.launch(launch, stream_);
      launch_gate({type_, pairs_.as<void>(), bias, out, rows, launch.outs / 2, linear.activation},
                  stream_);
      return;
    }
    gemm_.launch(launch, stream_);
    if (bias) {
      const DType out_type = linear.epilogue == Epilogue::Store ? type_ : DType::F32;
      launch_add_bias(out_type, launch.out, bias, rows, launch.outs, stream_);
    }
  }

  void run_attention(const FusedAttention& op, int rows) {
    AttentionLaunch launch = {};
    launch.type = type_;
    launch.qkv = act<void>(op.qkv);
    launch.out = act<void>(op.out);
    launch.rows = rows;
    launch.step = {table(tokens_), table(positions_), table(sequences_), table(page_table_),
                   static_cast<int>(pages_for(context_))};
    launch.cache = {cache_.as<std::byte>() + kv_offsets_[static_cast<size_t>(op.layer)],
                    page_bytes_};
    launch.spec = op.spec;
    if (op.rope) {
      const RopeSpec& rope = program_.ropes[static_cast<size_t>(*op.rope)];
      launch.inv_freq = ropes_[static_cast<size_t>(*op.rope)];
      launch.rope_pairs = static_cast<int>(rope.inv_freq.size());
      launch.rope_interleaved = rope.interleaved;
    }
    launch.code = attention_code_;
    launch.dependent = decode_ && kHasSm90a && gpu_.compute_capability == 90;
    launch.max_context = static_cast<int>(context_);
    launch.multiprocessors = gpu_.multiprocessors;
    launch.workspace = attention_floats_.as<float>();
    launch.tickets = tickets_.as<int>();
    launch.tiles = reinterpret_cast<const AttentionTile*>(table(tiles_));
    launch.tile_count = tile_count_;
    check_attention(launch);
    if (decode_) return launch_attention_decode(launch, stream_);
    launch_rope_append(launch, stream_);
    if (tile_count_ > 0) return launch_attention_prefill(launch, stream_);
    launch_attention_plain(launch, stream_);
  }

  void observe_op(const FusedOp& op, int rows) {
    const ActId out = std::visit(Overloaded{[](const auto& o) { return o.out; }}, op.op);
    const auto* linear = std::get_if<FusedLinear>(&op.op);
    if (out == qkv_ || (linear && linear->epilogue == Epilogue::Logits)) return;
    const size_t count = static_cast<size_t>(rows * act_cols(out));
    const size_t element = out == hidden_ ? 4 : static_cast<size_t>(element_);
    std::vector<std::byte> raw(count * element);
    SKALD_CUDA(
        cudaMemcpyAsync(raw.data(), act<void>(out), raw.size(), cudaMemcpyDeviceToHost, stream_));
    SKALD_CUDA(cudaStreamSynchronize(stream_));
    std::vector<float> values(count);
    info(out == hidden_ ? DType::F32 : type_)
        .decode_row(raw.data(), values.data(), static_cast<int64_t>(count));
    observer_({op.last, program_.act(out).name, values, act_cols(out)});
  }

  std::shared_ptr<const WeightFile> weight_file_;
  Program program_;
  int device_;
  DType type_;
  int64_t element_;  // bytes of an activation
  int64_t max_rows_;
  int64_t context_ = 0;
  ActId qkv_;               // a buffer beside the program's own
  CurrentDevice current_;   // before the members that allocate
  ActId hidden_ = ActId{};  // the residual stream, float32
  AttentionSpec attention_;
  int64_t widest_ = 0;
  Gpu gpu_;
  std::string device_name_;
  AttentionCode attention_code_ = AttentionCode::Plain;
  StreamOwner stream_;

  std::vector<LoadedOp> ops_;
  std::optional<Weights> weights_;
  Matrix weight_by_embed_;
  std::vector<const float*> ropes_;  // one a RopeSpec
  GemmCublas gemm_;

  std::optional<PagePool> pool_;
  DeviceMemory cache_;  // pool_->size() pages of page_bytes_, all layers in a page
  int64_t page_bytes_ = 0;
  std::vector<int64_t> kv_offsets_;  // of each layer in a page

  std::vector<DeviceMemory> acts_;  // one an ActSpec and qkv_, [max_rows, cols]
  DeviceMemory pairs_;              // [max_rows, 2 * widest_], gate and up before the activation
  DeviceMemory attention_floats_, tickets_;
  int64_t workspace_bytes_ = 0;

  // The step: lists on both sides, and their offsets in bytes.
  std::optional<StepRows> step_;
  PinnedMemory host_table_;
  DeviceMemory device_table_;
  int64_t tokens_ = 0, positions_ = 0, sequences_ = 0, wanted_ = 0, tiles_ = 0, page_table_ = 0;
  int64_t most_tiles_ = 0;
  int tile_count_ = 0;
  EventOwner step_sent_;
  bool decode_ = false;
  std::map<int, Graph> graphs_;  // by rows

  DeviceMemory wanted_x_;  // [wanted, dim], float
  DeviceMemory logits_;    // [logit_rows_, vocab]
  PinnedMemory host_logits_;
  int64_t logit_rows_ = 0;
  int64_t first_logit_row_ = 0, computed_logits_ = 0;
  std::optional<DeviceSampler> sampler_;

  Observer observer_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options, int device) {
  model.weights->check_whole();
  return std::make_unique<CudaExecutor>(model, options, device);
}

}  // namespace skald::cuda
