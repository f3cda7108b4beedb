#include "cuda/run/host_ops.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "cuda/gpu/check.h"
#include "engine/cpu/machine.h"
#include "engine/cpu/plan.h"

namespace skald::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// Weights that a measurement reads: more than the CPU's caches hold.
constexpr double kMeasuredBytes = 0x1p31;

// One core stays for the thread that CUDA itself has.
cpu::KernelOptions kernel_options(const Program& program, int threads) {
  RunOptions options;
  options.rows = kMostSharedRows;
  options.threads = threads > 0 ? threads : std::max(1, cpu::available_threads() - 1);
  cpu::KernelOptions kernels = cpu::kernel_options(program, options);
  kernels.patient = true;
  return kernels;
}

}  // namespace

HostOps::HostOps(const Parts& parts, int threads, Stream stream)
    : p_(parts),
      stream_(stream),
      program_(parts.fused.program),
      ops_(parts.fused.ops.size()),
      file_bytes_left_(cpu::lockable_memory()) {
  int64_t in_bytes = 0, out_bytes = 0, used = 0;
  // Ops that the user gives to the CPU take their part of the file's pages first.
  std::vector<size_t> ops = p_.placement.hosted();
  const auto rule = [&](size_t op) { return p_.placement.ops[op].rule; };
  std::erase_if(ops, [&](size_t op) { return rule(op) == WeightPlace::Stream; });
  std::stable_partition(ops.begin(), ops.end(),
                        [&](size_t op) { return rule(op) == WeightPlace::Cpu; });
  for (size_t op : ops) {
    std::optional<HostOp> host = host_op(p_.fused, op);
    const auto* linear = std::get_if<FusedLinear>(&p_.fused.ops[op].op);
    const auto* experts = std::get_if<FusedExperts>(&p_.fused.ops[op].op);
    if (!host || !take(linear ? find(op, *linear) : find(op, *experts))) continue;
    int64_t in = 0, out = 0;
    for (ActId id : host->in) in += row_bytes(id);
    for (const HostOp::Out& each : host->out) out += row_bytes(each.device);
    in_bytes = std::max(in_bytes, in);
    out_bytes = std::max(out_bytes, out);
    if (experts) used = std::max<int64_t>(used, experts->spec.used);
    ops_[op] = std::move(host);
    any_ = true;
  }
  if (!any_) return;
  kernels_ = cpu::fast_kernels(kernel_options(program_, threads));
  row_ops_ = std::make_unique<cpu::RowOps>(program_, *kernels_, kMostSharedRows);
  in_ = PinnedMemory(kMostSharedRows * in_bytes, "rows that the CPU computes");
  out_ = PinnedMemory(kMostSharedRows * out_bytes, "rows that the CPU computes");
  chosen_ = PinnedMemory(kMostSharedRows * used * 4, "experts' choices");
  weights_ = PinnedMemory(kMostSharedRows * used * 4, "experts' choices");
  turns_ = PinnedMemory((2 * std::ssize(ops_) + 1) * 4, "requests to the CPU");
  std::fill_n(turns_.as<uint32_t>(), 2 * ops_.size() + 1, 0u);
}

// Matrices of 16 bits are read where they wait to be copied. Tiles of a block format are for the
// GPU alone, so the CPU reads the model's file, if it has the format and memory keeps its pages.
bool HostOps::take(const std::vector<Found>& weights) {
  int64_t file_bytes = 0;
  for (const Found& found : weights) {
    if (info(found.format).block_elems == 1) continue;
    const Weight& weight = program_.weight(found.id);
    if (!weight.view.data || weight.source.exists() || weight.view.type != found.format) {
      return false;
    }
    file_bytes += weight.view.bytes();
  }
  if (file_bytes > file_bytes_left_) return false;
  file_bytes_left_ -= file_bytes;
  for (const Found& found : weights) {
    if (info(found.format).block_elems > 1) continue;
    TensorView& view = program_.weights[static_cast<size_t>(found.id)].view;
    view.data = found.rows;
    view.type = found.format;
    view.row_bytes = found.stride;
    view.reader = nullptr;
  }
  return true;
}

std::vector<HostOps::Found> HostOps::find(size_t op, const FusedLinear& linear) const {
  const std::vector<Piece> pieces = p_.fused.pieces(linear);
  const bool alternate = p_.fused.alternates(linear);
  std::vector<Found> weights;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const auto* rows =
        static_cast<const std::byte*>(p_.loaded.in_place(op, p_.loaded.ops()[op].pieces[i].data));
    const int64_t bytes = skald::row_bytes(piece.format, p_.fused.ins(linear));
    const auto parts = static_cast<int64_t>(piece.last - piece.first);
    for (size_t part = piece.first; part < piece.last; ++part) {
      const WeightId id = linear.parts[part];
      weights.push_back({id, piece.format, rows, alternate ? parts * bytes : bytes});
      rows += alternate ? bytes : bytes * program_.weight(id).view.rows;
    }
  }
  return weights;
}

std::vector<HostOps::Found> HostOps::find(size_t op, const FusedExperts& experts) const {
  const std::vector<ExpertStack> stacks = p_.fused.stacks(experts);
  std::vector<Found> weights;
  for (size_t s = 0; s < stacks.size(); ++s) {
    const ExpertStack& stack = stacks[s];
    const LoadedStack& at = p_.loaded.ops()[op].stacks[s];
    const int64_t bytes = skald::row_bytes(stack.format, stack.ins);
    const auto parts = std::ssize(stack.parts);
    for (int e = 0; e < experts.spec.count; ++e) {
      const auto* rows =
          static_cast<const std::byte*>(p_.loaded.in_place(op, at.first)) + e * at.stride;
      for (WeightId first : stack.parts) {
        const auto id = static_cast<WeightId>(static_cast<int32_t>(first) + e);
        weights.push_back({id, stack.format, rows, parts * bytes});
        rows += bytes;
      }
    }
  }
  return weights;
}

HostShare HostOps::measure(WeightCopies& copies) {
  HostShare share;
  std::vector<size_t> some;
  double bytes = 0;
  for (size_t op = 0; op < ops_.size(); ++op) {
    share.able.push_back(ops_[op].has_value());
    if (!ops_[op] || bytes >= kMeasuredBytes) continue;
    some.push_back(op);
    bytes += static_cast<double>(p_.placement.ops[op].row_bytes);
  }
  for (size_t op : some) compute(op, 1);     // also brings mapped pages into memory
  constexpr int64_t kCpuBytesPerCopied = 2;  // then both end at about the same time
  copies.start_measuring(static_cast<int64_t>(bytes) / kCpuBytesPerCopied);
  const auto start = Clock::now();
  for (size_t op : some) compute(op, 1);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  share.cpu = bytes / seconds.count();
  share.link = copies.measured();
  return share;
}

void HostOps::compute(size_t op, int rows) {
  for (size_t i = ops_[op]->first; i < ops_[op]->end; ++i) {
    std::visit(
        [&](const auto& each) {
          if constexpr (cpu::kIsRowOp<std::decay_t<decltype(each)>>) row_ops_->run(each, rows);
        },
        program_.ops[i]);
  }
}

CpuTurn HostOps::turn(size_t op) const {
  auto* const words = turns_.as<uint32_t>();
  return {reinterpret_cast<Request*>(words + 2 * op), words + 2 * op + 1, words + 2 * ops_.size()};
}

void HostOps::send(size_t op, int rows) {
  SendRowsLaunch launch = {};
  std::byte* at = in_.as<std::byte>();
  for (ActId id : ops_[op]->in) {
    const int64_t bytes = rows * row_bytes(id);
    launch.copies[launch.count++] = {act(id), at, bytes};
    at += bytes;
  }
  launch.turn = turn(op);
  launch_send_rows(launch, stream_);
}

void HostOps::receive(size_t op, int rows) {
  ReceiveRowsLaunch launch = {};
  const std::byte* at = out_.as<std::byte>();
  for (const HostOp::Out& out : ops_[op]->out) {
    const int64_t bytes = rows * row_bytes(out.device);
    launch.copies[launch.count++] = {at, act(out.device), bytes};
    at += bytes;
  }
  launch.turn = turn(op);
  launch_receive_rows(launch, stream_);
}

ChooseSlotsLaunch::ForCpu HostOps::choice(size_t op, int rows) const {
  const ActId in = std::get<FusedExperts>(p_.fused.ops[op].op).norm.out;
  return {
      act(in), rows * row_bytes(in), in_.as<void>(), chosen_.as<int32_t>(), weights_.as<float>(),
      turn(op)};
}

void HostOps::receive_sum(size_t op, int rows, const int32_t* asked) {
  const auto& experts = std::get<FusedExperts>(p_.fused.ops[op].op);
  launch_receive_sum({out_.as<float>(), static_cast<float*>(act(experts.out)), experts.scale,
                      rows * p_.fused.cols(experts.out), asked, turn(op)},
                     stream_);
}

// A kernel that has failed sends no request, so the stream is asked now and then.
Request HostOps::wait_for_request(size_t op) const {
  constexpr int kSpins = 1 << 16;
  const std::atomic_ref<Request> request(*turn(op).request);
  for (;;) {
    for (int i = 0; i < kSpins; ++i) {
      const Request sent = request.load(std::memory_order_acquire);
      if (sent != Request::None) return sent;
      hwy::Pause();
    }
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status != cudaErrorNotReady) SKALD_CUDA(status);
    check(status != cudaSuccess || request.load() != Request::None, "a step sends its requests");
  }
}

void HostOps::serve(size_t op, int rows, bool chosen) {
  const Request sent = wait_for_request(op);
  *turn(op).request = Request::None;
  if (sent == Request::Nothing) return;
  if (chosen) {
    compute_chosen(op, rows);
  } else {
    compute_rows(op, rows);
  }
  std::atomic_ref(*turn(op).answer).store(1, std::memory_order_release);
}

void HostOps::compute_rows(size_t op, int rows) {
  const auto type = [&](ActId id) {
    return row_bytes(id) == 4 * p_.fused.cols(id) ? DType::F32 : p_.fused.type;
  };
  std::byte* at = in_.as<std::byte>();
  for (ActId id : ops_[op]->in) {
    info(type(id)).decode_row(at, row_ops_->data(id), rows * p_.fused.cols(id));
    at += rows * row_bytes(id);
  }
  compute(op, rows);
  at = out_.as<std::byte>();
  for (const HostOp::Out& out : ops_[op]->out) {
    const DTypeInfo& as = info(type(out.device));
    for (int row = 0; row < rows; ++row) {
      for (ActId part : out.parts) {
        const int64_t cols = program_.act(part).cols;
        as.encode_row(row_ops_->data(part) + row * cols, at, cols, nullptr);
        at += cols * as.block_bytes;
      }
    }
  }
}

void HostOps::compute_chosen(size_t op, int rows) {
  const Experts* experts = nullptr;
  for (size_t i = ops_[op]->first; !experts; ++i) {
    experts = std::get_if<Experts>(&program_.ops[i]);
  }
  info(p_.fused.type)
      .decode_row(in_.as<std::byte>(), row_ops_->data(experts->in),
                  rows * p_.fused.cols(experts->in));
  row_ops_->run(*experts, rows, {chosen_.as<int32_t>(), weights_.as<float>()});
  std::copy_n(row_ops_->data(experts->out), rows * p_.fused.cols(experts->out), out_.as<float>());
}

void HostOps::abort() {
  if (!any_) return;
  auto* const words = turns_.as<uint32_t>();
  std::atomic_ref(words[2 * ops_.size()]).store(1, std::memory_order_release);
  cudaStreamSynchronize(stream_);
  std::fill_n(words, 2 * ops_.size() + 1, 0u);
}

// Copies from ordinary memory let the host wait, so the CPU could not compute beside them.
std::unique_ptr<HostOps> make_host_ops(const HostOps::Parts& parts, const RunOptions& options,
                                       Stream stream) {
  const bool helps = !parts.placement.hosted().empty() && parts.loaded.unlocked_bytes() == 0;
  if (!helps || options.reproducible || options.gpu_alone) return nullptr;
  auto host = std::make_unique<HostOps>(parts, options.threads, stream);
  return host->any() ? std::move(host) : nullptr;
}

HostShare measure_host(const HostOps::Parts& parts, HostOps* host, WeightCopies& copies,
                       MemoryPlan& plan, CpuPart cpu_part) {
  const Placement& placement = parts.placement;
  if (placement.hosted().empty()) return {};
  constexpr int64_t kBytes = 512 << 20;
  copies.start_measuring(kBytes);
  plan.link = plan.copy_link = copies.measured();
  if (!host) return {};
  HostShare share = host->measure(copies);
  if (cpu_part == CpuPart::AsLink) share.link = share.cpu;
  if (cpu_part == CpuPart::All) share.link = 0;
  const HostPart part = host_part(parts.fused, placement, share);
  plan.cpu = part.bytes > 0 || !part.shared.empty() ? share.cpu : 0;
  plan.link = part.bytes < placement.streamed_bytes ? share.link : 0;
  if (placement.host_by_rule == 0 || !part.shared.empty()) return share;
  int64_t row_bytes = 0;
  for (size_t op : part.ops) row_bytes += placement.ops[op].row_bytes;
  plan.cpu_share = static_cast<double>(row_bytes) / static_cast<double>(placement.row_bytes);
  return share;
}

}  // namespace skald::cuda
