#include "cuda/plan/host_op.h"

#include <algorithm>
#include <cmath>

#include "engine/base/overloaded.h"

namespace skald::cuda {
namespace {

bool contains(const std::vector<ActId>& acts, ActId act) {
  return std::find(acts.begin(), acts.end(), act) != acts.end();
}

// Ops that work on each row by itself and have their weights to themselves.
bool runs_on_host(const Op& op) {
  return std::visit(
      Overloaded{[](const Norm&) { return true; }, [](const Linear& o) { return o.heads == 1; },
                 [](const GatedAct&) { return true; }, [](const Activate&) { return true; },
                 [](const Experts&) { return true; }, [](const Add&) { return true; },
                 [](const auto&) { return false; }},
      op);
}

// The buffers of a product's parts, in their order.
std::vector<ActId> part_outs(const FusedProgram& fused, const HostOp& host,
                             const std::vector<WeightId>& parts) {
  std::vector<ActId> outs;
  for (WeightId part : parts) {
    for (size_t i = host.first; i < host.end; ++i) {
      const auto* linear = std::get_if<Linear>(&fused.program.ops[i]);
      if (linear && linear->weight == part) outs.push_back(linear->out);
    }
  }
  return outs;
}

}  // namespace

std::optional<HostOp> host_op(const FusedProgram& fused, size_t index) {
  const FusedOp& op = fused.ops[index];
  const auto* linear = std::get_if<FusedLinear>(&op.op);
  const auto* experts = std::get_if<FusedExperts>(&op.op);
  if ((!linear || linear->epilogue == Epilogue::Logits) && !experts) return std::nullopt;
  HostOp host;
  host.first = index == 0 ? 0 : fused.ops[index - 1].last + 1;
  host.end = op.last + 1;
  std::vector<ActId> written;
  for (size_t i = host.first; i < host.end; ++i) {
    const Op& each = fused.program.ops[i];
    if (!runs_on_host(each)) return std::nullopt;
    for (ActId in : op_inputs(each)) {
      if (!contains(written, in) && !contains(host.in, in)) host.in.push_back(in);
    }
    written.push_back(*op_output(each));
  }
  const ActId out = linear ? linear->out : experts->out;
  const ActId in = linear ? linear->in : experts->norm.in;
  for (ActId read : host.in) {
    if (read != in && read != out && read != fused.hidden) return std::nullopt;
  }
  if (static_cast<size_t>(out) < fused.program.acts.size()) {
    if (!contains(written, out)) return std::nullopt;
    host.out.push_back({out, {out}});
  } else {
    host.out.push_back({out, part_outs(fused, host, linear->parts)});
    if (host.out.back().parts.size() != linear->parts.size()) return std::nullopt;
  }
  // A shared expert may read the result of the norm.
  if (experts) host.out.push_back({experts->norm.out, {experts->norm.out}});
  return host;
}

HostPart host_part(const FusedProgram& fused, const Placement& placement, const HostShare& share) {
  HostPart part;
  if (share.able.empty() || share.cpu <= 0) return part;
  const double ratio = share.link / share.cpu;
  // The ratio is rounded to the nearest kUsual * 2^n. Ratios from 0.54 to 0.77 were measured on
  // servers.
  constexpr double kUsual = 0.6;
  const double rounded = kUsual * std::exp2(std::round(std::log2(ratio / kUsual)));
  // A kernel that reads over the link reaches less of its speed than copies do.
  constexpr double kReachedInPlace = 0.8;
  constexpr double kMostCopied = 0.9;  // with more, the CPU is not worth waiting for
  part.copied = rounded / (1 + rounded);
  const bool mapped = placement.kind == HostMemoryKind::Mapped;
  double owed = 0;
  for (size_t op : placement.hosted()) {
    const std::optional<WeightPlace> rule = placement.ops[op].rule;
    if (!share.able[op] || rule == WeightPlace::Stream) continue;
    const bool all = rule == WeightPlace::Cpu;  // whatever the speeds are
    const bool experts = std::holds_alternative<FusedExperts>(fused.ops[op].op);
    if (experts && !all && !mapped) {
      if (part.copied <= kMostCopied) part.shared.push_back(op);
      continue;
    }
    const int64_t bytes = placement.ops[op].bytes;
    if (!all && mapped) {
      if (kReachedInPlace * ratio >= 1) continue;
    } else if (!all) {
      owed += static_cast<double>(bytes) / (1 + rounded);
      if (owed < static_cast<double>(bytes) / 2) continue;
      owed -= static_cast<double>(bytes);
    }
    part.ops.push_back(op);
    part.bytes += bytes;
  }
  return part;
}

}  // namespace skald::cuda
