// Which models CUDA can run: those that fuse_program() accepts. Some settings of ops are beyond
// what the kernels support. This file lists and refuses them, so that none is ignored silently.
#include "cuda/cuda.h"
#include "cuda/kernels/experts/experts.h"
#include "cuda/plan/fused_program.h"
#include "engine/base/error.h"

namespace skald::cuda {
namespace {

// What the kernels do not support in the op, as the end of a message that begins "op 3, add, ".
// Empty: they support the op.
std::string_view missing(const Program& program, size_t at) {
  const std::vector<Op>& ops = program.ops;
  constexpr std::string_view kNoActivation = "without an activation";
  const Op& op = ops[at];
  // Ops of a short convolution, `at` past the ends included.
  const auto gates = [&](size_t i) {
    const auto* gate = i < ops.size() ? std::get_if<GatedAct>(&ops[i]) : nullptr;
    return gate && gate->activation == Activation::Identity;
  };
  const auto convolves = [&](size_t i) {
    return i < ops.size() && std::holds_alternative<CausalConv>(ops[i]);
  };
  if (std::holds_alternative<Delta>(op)) return "of an adapter (--lora)";
  const auto* conv = std::get_if<CausalConv>(&op);
  if (conv && conv->activation == Activation::Identity) {
    return gates(at - 1) && gates(at + 1) ? "" : "without an activation or gates around it";
  }
  if (const auto* o = std::get_if<HeadNorm>(&op)) {
    const bool of_space = at >= 2 && std::holds_alternative<StateSpace>(ops[at - 2]);
    const bool own =
        !of_space && o->weight != WeightId::None &&
        program.weight(o->weight).view.cols * program.weight(o->weight).view.rows != o->head_dim;
    return own ? "with weights of each head" : "";
  }
  if (gates(at)) return convolves(at - 1) || convolves(at + 1) ? "" : kNoActivation;
  if (const auto* o = std::get_if<Activate>(&op)) {
    return o->activation == Activation::Identity ? kNoActivation : "";
  }
  if (const auto* o = std::get_if<Experts>(&op)) {
    constexpr int kMostGroups = 32;  // a lane of a warp for each
    if (o->spec.groups > kMostGroups) return "with more than 32 groups of experts";
    if (o->spec.used_groups < o->spec.groups && o->spec.gating == Gating::Softmax) {
      return "with groups chosen by softmax";
    }
    if (o->spec.count > kMostExperts) return "with more than 1024 experts";
    static_assert(kMostExperts == 1024);
    if (o->gate == WeightId::None && o->spec.activation != Activation::SquaredRelu) {
      return "without gates";
    }
    return o->spec.activation == Activation::Identity ? kNoActivation : "";
  }
  if (const auto* o = std::get_if<Add>(&op)) {
    const auto* norm = at > 0 ? std::get_if<Norm>(&ops[at - 1]) : nullptr;
    const auto* heads = at > 0 ? std::get_if<HeadNorm>(&ops[at - 1]) : nullptr;
    const bool normed = (norm && norm->out == o->y) || (heads && heads->x == o->y);
    return o->keep == 1 || normed ? "" : "that scales both terms, the second one not normed";
  }
  return "";
}

}  // namespace

void refuse_ops_without_kernels(const Program& program) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    std::string_view what = missing(program, i);
    if (what.empty()) continue;
    fail(Exit::Failed, "CUDA has no kernel for op ", i, ", ", op_name(program.ops[i]), " ", what,
         "; use --device cpu");
  }
}

std::string model_problem(const Model& model) {
  try {
    fuse_program(model.program());
    return "";
  } catch (const Error& error) {
    std::string text = error.what();
    constexpr std::string_view kAdvice = "; use --device cpu";  // for the caller to decide
    if (text.ends_with(kAdvice)) text.resize(text.size() - kAdvice.size());
    return text;
  }
}

}  // namespace skald::cuda
