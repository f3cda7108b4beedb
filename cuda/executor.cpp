// Walks the fused ops of a Program on one GPU. Steps with one row of each sequence run as a
// captured graph, one for each number of rows; all others are launched op by op.
#include <algorithm>
#include <optional>
#include <utility>

#include "cuda/check.h"
#include "cuda/cuda.h"
#include "cuda/fused_program.h"
#include "cuda/graphs.h"
#include "cuda/handles.h"
#include "cuda/kernels/attention.h"
#include "cuda/kernels/built_for.h"
#include "cuda/kernels/expand_q.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/pointwise.h"
#include "cuda/kernels/tiles.h"
#include "cuda/kernels/tiles/layout.h"
#include "cuda/linear_steps.h"
#include "cuda/loaded_model.h"
#include "cuda/memory.h"
#include "cuda/plan.h"
#include "cuda/sampler.h"
#include "cuda/step_table.h"
#include "engine/overloaded.h"
#include "engine/step.h"

namespace skald::cuda {
namespace {

// Makes the device the current one before a class's other members are made.
DeviceInfo use_device(int device) {
  SKALD_CUDA(cudaSetDevice(device));
  return describe_device(device);
}

MemoryPlan checked(MemoryPlan plan, int device) {
  check_fits(plan, concat("cuda:", device));
  return plan;
}

SizeOptions planned_size(SizeOptions options, const MemoryPlan& plan, AttentionCode code) {
  options.context = plan.context;
  options.copies = has_copies(plan);
  options.attention = code;
  return options;
}

const FusedProgram& bound(FusedProgram& fused, int64_t context) {
  fused.program.bind_context(context);
  return fused;
}

class CudaExecutor final : public Executor {
 public:
  CudaExecutor(const Model& model, const RunOptions& options, int device, const Switches& switches)
      : weight_file_(model.weights),
        switches_(switches),
        device_(use_device(device)),
        gpu_{used_capability(device_, options), device_.multiprocessors},
        fused_(fuse_program(model.program())),
        attention_code_(std::min(attention_code(fused_.type),
                                 attention_code_of(fused_.type, gpu_.compute_capability))),
        dependent_(switches.dependent_launches && kHasSm90a && gpu_.compute_capability == 90),
        max_rows_(options.rows),
        plan_(checked(plan_memory(fused_, options, model.config, device_), device)),
        sizes_(fused_,
               planned_size(size_options(fused_, options, device_), plan_, attention_code_)),
        loaded_(bound(fused_, plan_.context), sizes_, stream_, options.loading),
        pool_(sizes_.pages),
        cache_(sizes_.cache(), "the key-value cache"),
        expanded_(sizes_.expanded, "16-bit rows of weights"),
        pairs_(sizes_.pairs, "activations"),
        attention_floats_(sizes_.attention, "attention"),
        tickets_(sizes_.tickets, "attention"),
        product_tickets_(sizes_.product_tickets, "the step's table"),
        rows_(StepLimits{max_rows_, plan_.context, fused_.program.vocab()}),
        step_(sizes_.step),
        wanted_x_(sizes_.wanted, "activations"),
        logits_(sizes_.logits, "logits"),
        host_logits_(fused_.program.vocab() * 4, "logits"),
        sampler_(fused_.program.vocab(), sizes_.logit_rows, sample_gpu(gpu_.compute_capability)) {
    for (int64_t bytes : sizes_.acts) acts_.emplace_back(bytes, "activations");
    for (const DeviceMemory* zeros : {&tickets_, &product_tickets_}) {
      SKALD_CUDA(
          cudaMemsetAsync(zeros->as<void>(), 0, static_cast<size_t>(zeros->bytes()), stream_));
    }
  }

  ~CudaExecutor() override { cudaStreamSynchronize(stream_); }

  const Program& program() const override { return fused_.program; }
  int64_t max_rows() const override { return max_rows_; }
  int64_t context() const override { return plan_.context; }
  PagePool& pages() override { return pool_; }
  const MemoryPlan& plan() const override { return plan_; }
  void observe(Observer observer) override { observer_ = std::move(observer); }
  int64_t bytes_allocated() const override { return plan_.needed() - sizes_.weights; }
  int64_t logit_rows() const override { return sizes_.logit_rows; }
  int64_t cache_bytes_per_token() const override { return sizes_.page / kPageTokens; }
  DType cache_type() const override { return fused_.type; }

  std::string description() const override {
    return concat("cuda:", device_.index, " (", device_.name, ", ", name(fused_.type), ")");
  }

  std::string page_format() const override {
    return concat("cuda ", gpu_.compute_capability, " ", name(fused_.type));
  }
  int64_t page_bytes() const override { return sizes_.page; }

  void read_page(int32_t index, std::span<std::byte> bytes) override {
    check(std::ssize(bytes) == sizes_.page, "a whole page is read");
    SKALD_CUDA(cudaSetDevice(device_.index));
    SKALD_CUDA(
        cudaMemcpyAsync(bytes.data(), page(index), bytes.size(), cudaMemcpyDeviceToHost, stream_));
    SKALD_CUDA(cudaStreamSynchronize(stream_));
  }

  void write_page(int32_t index, std::span<const std::byte> bytes) override {
    check(std::ssize(bytes) == sizes_.page, "a whole page is written");
    SKALD_CUDA(cudaSetDevice(device_.index));
    SKALD_CUDA(
        cudaMemcpyAsync(page(index), bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream_));
    SKALD_CUDA(cudaStreamSynchronize(stream_));  // the caller's bytes may go
  }

  int64_t run(Step step) override {
    SKALD_CUDA(cudaSetDevice(device_.index));
    step_.check_fits(step);
    rows_.admit(step, [this](Sequence::PageCopy copy) {
      SKALD_CUDA(cudaMemcpyAsync(page(copy.to), page(copy.from), static_cast<size_t>(sizes_.page),
                                 cudaMemcpyDeviceToDevice, stream_));
    });
    try {
      compute(step);
    } catch (...) {  // no memory for a graph, say
      for (const SeqRows& rows : step) {
        const int64_t added = static_cast<int64_t>(rows.tokens.size());
        rows.sequence->truncate(rows.sequence->length() - added);
      }
      throw;
    }
    return static_cast<int64_t>(rows_.wanted.size());
  }

  std::span<const float> logits(int64_t row) override {
    compute_logits(row);
    const int64_t vocab = fused_.program.vocab();
    SKALD_CUDA(cudaMemcpyAsync(
        host_logits_.as<void>(), logits_.as<float>() + (row - first_logit_row_) * vocab,
        static_cast<size_t>(vocab) * sizeof(float), cudaMemcpyDeviceToHost, stream_));
    SKALD_CUDA(cudaStreamSynchronize(stream_));
    const std::span<const float> result(host_logits_.as<float>(), static_cast<size_t>(vocab));
    if (observer_) observer_({fused_.program.ops.size() - 1, "logits", result, vocab});
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
      sampler_.pick(
          logits_.as<float>() + (row - first_logit_row_) * fused_.program.vocab(),
          part.first(std::min(part.size(), static_cast<size_t>(ready))),
          [&](int64_t i) { return logits(row + i); }, stream_, picked);
    }
    return picked;
  }

 private:
  std::byte* page(int32_t index) const { return cache_.as<std::byte>() + index * sizes_.page; }

  template <class T>
  T* act(ActId id) const {
    return acts_[static_cast<size_t>(id)].as<T>();
  }

  // Of the step that rows_ has admitted.
  void compute(Step step) {
    const int rows = static_cast<int>(rows_.count());
    computed_logits_ = 0;
    decode_ = rows_.one_row_each && rows <= sizes_.graph_rows;
    if (decode_ || attention_code_ == AttentionCode::Plain) {
      step_.send(step, rows_, stream_);
    } else {
      step_.send_with_tiles(step, rows_, fused_.specs, attention_code_, stream_);
    }
    if (decode_ && !observer_ && switches_.graphs) {
      graphs_.run(rows, stream_, [&] { enqueue(rows); });
    } else {
      enqueue(rows);
    }
    if (!decode_ && !rows_.wanted.empty()) {
      launch_gather(act<float>(fused_.hidden), step_.wanted(), wanted_x_.as<float>(),
                    static_cast<int>(rows_.wanted.size()), fused_.cols(fused_.hidden), stream_);
    }
    first_logit_row_ = 0;
    computed_logits_ = decode_ ? rows : 0;
  }

  void enqueue(int rows) {
    for (const LoadedOp& op : loaded_.ops()) {
      std::visit(Overloaded{[&](const Embed& o) {
                              const Matrix& table = op.pieces.front();
                              const EmbedLaunch launch = {
                                  table.format,      table.data, step_.table().tokens,
                                  act<float>(o.out), rows,       table.ins};
                              (table.format == fused_.type ? launch_embed : launch_embed_q)(
                                  launch, stream_);
                            },
                            [&](const FusedLinear& o) {
                              if (o.epilogue == Epilogue::Logits && !decode_) return;
                              run_linear(op, o, act<void>(o.in), rows);
                            },
                            [&](const FusedAttention& o) { run_attention(o, rows); }},
                 op.fused->op);
      if (observer_) observe_op(*op.fused, rows);
    }
  }

  // Into logits_, with those of the wanted rows after it, unless they are there.
  void compute_logits(int64_t row) {
    check(row >= 0 && row < static_cast<int64_t>(rows_.wanted.size()),
          "a wanted row's logits are asked for");
    SKALD_CUDA(cudaSetDevice(device_.index));
    if (row >= first_logit_row_ && row < first_logit_row_ + computed_logits_) return;
    computed_logits_ = 0;
    const int64_t count =
        std::min(sizes_.logit_rows, static_cast<int64_t>(rows_.wanted.size()) - row);
    run_linear(loaded_.head(), fused_.head(),
               wanted_x_.as<float>() + row * fused_.cols(fused_.hidden), static_cast<int>(count));
    first_logit_row_ = row;
    computed_logits_ = count;
  }

  // A product's pieces have the same kernels before and after them, so that these run once.
  void run_linear(const LoadedOp& op, const FusedLinear& linear, const void* in, int rows) {
    const std::vector<Piece> pieces = fused_.pieces(linear);
    const bool apart = linear.epilogue == Epilogue::Gated && pieces.size() > 1;
    std::vector<LinearLaunch> launches;
    std::vector<LinearKernel> kernels;
    LinearSteps steps = {.gate_after = apart};
    for (size_t i = 0; i < pieces.size(); ++i) {
      LinearLaunch& launch =
          launches.emplace_back(linear_launch(fused_, linear, pieces[i], rows, {op.norm, op.bias}));
      launch.weight = op.pieces[i].data;
      launch.in = in;
      launch.ticket = product_tickets_.as<unsigned>() + op.first_ticket + i;
      launch.dependent = decode_ && dependent_;
      const LinearSteps own = linear_steps(launch, gpu_);
      kernels.push_back(own.kernel);
      steps.norm_before |= own.norm_before;
      steps.gate_after |= own.gate_after;
      steps.bias_after |= own.bias_after;
    }

    if (steps.norm_before) {
      void* normed = act<void>(linear.norm->out);
      launch_rms_norm({fused_.type, static_cast<const float*>(in), op.norm, normed, rows,
                       fused_.ins(linear), linear.norm->eps},
                      stream_);
      for (LinearLaunch& launch : launches) {
        launch.in = normed;
        launch.norm_weight = nullptr;
      }
    }
    const bool floats = linear.epilogue == Epilogue::AddTo || linear.epilogue == Epilogue::Logits;
    const DType out_type = floats ? DType::F32 : fused_.type;
    std::byte* const out = linear.epilogue == Epilogue::Logits ? logits_.as<std::byte>()
                           : steps.gate_after                  ? pairs_.as<std::byte>()
                                                               : act<std::byte>(linear.out);
    for (size_t i = 0; i < pieces.size(); ++i) {
      LinearLaunch& launch = launches[i];
      launch.out = out + row_bytes(out_type, pieces[i].first_out);
      if (steps.gate_after && !apart) {
        launch.epilogue = Epilogue::Store;
        launch.out_stride = launch.outs;
      }
      if (steps.gate_after || steps.bias_after) launch.bias = nullptr;
      multiply(launch, kernels[i], op.pieces[i]);
    }
    if (steps.gate_after) {
      launch_gate({fused_.type, pairs_.as<void>(), !apart, op.bias, act<void>(linear.out), rows,
                   fused_.outs(linear) / 2, linear.activation},
                  stream_);
    } else if (steps.bias_after) {
      launch_add_bias(out_type, out, op.bias, rows, fused_.outs(linear), stream_);
    }
  }

  void multiply(const LinearLaunch& launch, LinearKernel kernel, const Matrix& matrix) {
    switch (kernel) {
      case LinearKernel::GemvSm90:
        return launch_gemv_sm90(launch, gpu_.multiprocessors, stream_);
      case LinearKernel::GemvQSm90:
        return launch_gemv_q_sm90(launch, gpu_.multiprocessors, stream_);
      case LinearKernel::GemmExpanded:
        return multiply_expanded(launch, matrix);
      case LinearKernel::GemmCublas:
        return gemm_.launch(launch, stream_);
      case LinearKernel::GemvPlain:
        return launch_gemv_plain(launch, stream_);
    }
  }

  // By the matrix's 16-bit copy, or by parts of one that are made now.
  void multiply_expanded(LinearLaunch launch, const Matrix& matrix) {
    launch.format = launch.type;
    if (matrix.copy) {
      launch.weight = matrix.copy;
      return gemm_.launch(launch, stream_);
    }
    const int64_t group = tiles::kRows * matrix.ins * fused_.element;
    const int64_t at_once = sizes_.expanded / group * tiles::kRows;
    const DType out_type = launch.epilogue == Epilogue::Store ? launch.type : DType::F32;
    std::byte* const out = static_cast<std::byte*>(launch.out);
    launch.weight = expanded_.as<void>();
    for (int64_t first = 0; first < matrix.outs; first += at_once) {
      launch.outs = std::min(at_once, matrix.outs - first);
      launch.out = out + row_bytes(out_type, first);
      launch_expand_q({matrix.format, matrix.data, matrix.ins, first, launch.outs, launch.type,
                       expanded_.as<void>()},
                      stream_);
      gemm_.launch(launch, stream_);
    }
  }

  void run_attention(const FusedAttention& op, int rows) {
    AttentionLaunch launch = {};
    launch.type = fused_.type;
    launch.qkv = act<void>(op.qkv);
    launch.out = act<void>(op.out);
    launch.rows = rows;
    launch.step = step_.table();
    launch.cache = {cache_.as<std::byte>() + sizes_.kv_offsets[static_cast<size_t>(op.layer)],
                    sizes_.page};
    launch.spec = op.spec;
    if (op.rope) {
      const RopeSpec& rope = fused_.program.ropes[static_cast<size_t>(*op.rope)];
      launch.inv_freq = loaded_.inv_freq(*op.rope);
      launch.rope_pairs = static_cast<int>(rope.inv_freq.size());
      launch.rope_interleaved = rope.interleaved;
    }
    launch.code = attention_code_;
    if (decode_ && !switches_.clusters) launch.code = std::min(launch.code, AttentionCode::Mma);
    launch.dependent = decode_ && dependent_;
    launch.max_context = static_cast<int>(plan_.context);
    launch.multiprocessors = gpu_.multiprocessors;
    launch.workspace = attention_floats_.as<float>();
    launch.tickets = tickets_.as<int>();
    const size_t spec = fused_.spec_index(op.spec);
    launch.tiles = step_.tiles(spec);
    launch.tile_count = step_.tile_count(spec);
    check_attention(launch);
    if (decode_) return launch_attention_decode(launch, stream_);
    launch_rope_append(launch, stream_);
    if (launch.tile_count > 0) return launch_attention_prefill(launch, stream_);
    launch_attention_plain(launch, stream_);
  }

  void observe_op(const FusedOp& op, int rows) {
    const ActId out = std::visit(Overloaded{[](const auto& o) { return o.out; }}, op.op);
    const auto* linear = std::get_if<FusedLinear>(&op.op);
    if (out == fused_.qkv || (linear && linear->epilogue == Epilogue::Logits)) return;
    const size_t count = static_cast<size_t>(rows * fused_.cols(out));
    const size_t element = out == fused_.hidden ? 4 : static_cast<size_t>(fused_.element);
    std::vector<std::byte> raw(count * element);
    SKALD_CUDA(
        cudaMemcpyAsync(raw.data(), act<void>(out), raw.size(), cudaMemcpyDeviceToHost, stream_));
    SKALD_CUDA(cudaStreamSynchronize(stream_));
    std::vector<float> values(count);
    info(out == fused_.hidden ? DType::F32 : fused_.type)
        .decode_row(raw.data(), values.data(), static_cast<int64_t>(count));
    observer_({op.last, fused_.program.act(out).name, values, fused_.cols(out)});
  }

  std::shared_ptr<const WeightFile> weight_file_;  // the program's views lie in it
  Switches switches_;
  DeviceInfo device_;
  Gpu gpu_;  // what kernels are chosen for
  FusedProgram fused_;
  AttentionCode attention_code_;
  bool dependent_;  // decode kernels start while the one ahead still runs
  int64_t max_rows_;
  MemoryPlan plan_;
  Sizes sizes_;

  StreamOwner stream_;
  LoadedModel loaded_;
  GemmCublas gemm_;

  PagePool pool_;
  DeviceMemory cache_;  // pool_.size() pages of sizes_.page bytes, all layers in a page

  std::vector<DeviceMemory> acts_;  // one a buffer of the program and qkv, [max_rows, cols]
  DeviceMemory expanded_;           // rows of a quantized matrix in 16 bits
  DeviceMemory pairs_;              // gate and up before the activation
  DeviceMemory attention_floats_, tickets_;
  DeviceMemory product_tickets_;  // of each op: which rows of its product are still to be computed

  StepRows rows_;
  StepBuffer step_;
  bool decode_ = false;
  Graphs graphs_;

  DeviceMemory wanted_x_;  // [wanted, dim], float
  DeviceMemory logits_;    // [logit_rows, vocab]
  PinnedMemory host_logits_;
  int64_t first_logit_row_ = 0, computed_logits_ = 0;
  DeviceSampler sampler_;

  Observer observer_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options, int device,
                                        const Switches& switches) {
  model.weights->check_whole();
  return std::make_unique<CudaExecutor>(model, options, device, switches);
}

}  // namespace skald::cuda
