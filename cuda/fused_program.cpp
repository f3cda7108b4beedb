#include "cuda/fused_program.h"

#include <algorithm>

#include "cuda/kernels/attention.h"
#include "engine/error.h"

namespace skald::cuda {
namespace {

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

int qkv_heads(const AttentionSpec& spec) { return spec.heads + 2 * spec.kv_heads; }

}  // namespace

int64_t FusedProgram::cols(ActId id) const {
  if (id == copy) {
    const bool used = std::any_of(ops.begin(), ops.end(), [this](const FusedOp& op) {
      const auto* linear = std::get_if<FusedLinear>(&op.op);
      return linear && linear->in == copy;
    });
    return used ? cols(hidden) : 0;
  }
  if (id != qkv) return program.act(id).cols;
  int64_t most = 0;
  for (const AttentionSpec& spec : specs) {
    most = std::max(most, int64_t{qkv_heads(spec)} * spec.head_dim);
  }
  return most;
}

int64_t FusedProgram::row_bytes(ActId id) const {
  const bool product = std::find(products.begin(), products.end(), id) != products.end();
  return cols(id) * (id == hidden || product ? 4 : element);
}

size_t FusedProgram::spec_index(const AttentionSpec& spec) const {
  return static_cast<size_t>(std::find(specs.begin(), specs.end(), spec) - specs.begin());
}

int64_t FusedProgram::outs(const FusedLinear& op) const {
  int64_t outs = 0;
  for (WeightId part : op.parts) outs += program.weight(part).view.rows;
  return outs;
}

int64_t FusedProgram::ins(const FusedLinear& op) const {
  return program.weight(op.parts.front()).view.cols;
}

bool FusedProgram::has_bias(const FusedLinear& op) const {
  return std::any_of(op.biases.begin(), op.biases.end(),
                     [](WeightId bias) { return bias != WeightId::None; });
}

bool FusedProgram::shares_embedding(const FusedLinear& op) const {
  return op.parts.size() == 1 && op.parts[0] == std::get<Embed>(ops.front().op).weight;
}

FusedProgram fuse_program(Program program) {
  FusedProgram fused;
  fused.type = matrix_type(program);
  fused.element = fused.type == DType::F32 ? 4 : 2;
  fused.qkv = static_cast<ActId>(program.acts.size());
  fused.copy = static_cast<ActId>(program.acts.size() + 1);
  fused.ops = fuse(program, {fused.qkv, fused.copy});
  fused.program = std::move(program);
  check(std::holds_alternative<FusedLinear>(fused.ops.back().op), "the last op makes logits");
  fused.hidden = std::get<Embed>(fused.ops.front().op).out;
  for (const FusedOp& op : fused.ops) {
    const auto* linear = std::get_if<FusedLinear>(&op.op);
    if (linear && linear->post_norm) fused.products.push_back(fused.product(*linear));
    const auto* attention = std::get_if<FusedAttention>(&op.op);
    if (!attention) continue;
    int pairs = 0;
    if (attention->rope) {
      const RopeSpec& rope = fused.program.ropes[static_cast<size_t>(*attention->rope)];
      pairs = static_cast<int>(rope.inv_freq.size());
    }
    check_attention(fused.type, attention->spec, pairs);
    if (fused.spec_index(attention->spec) == fused.specs.size()) {
      fused.specs.push_back(attention->spec);
    }
  }
  return fused;
}

}  // namespace skald::cuda
