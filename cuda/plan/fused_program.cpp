#include "cuda/plan/fused_program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "cuda/kernels/attention/attention.h"
#include "cuda/plan/tile_pack.h"
#include "engine/base/error.h"
#include "engine/base/overloaded.h"
#include "engine/quant/cache_row.h"

namespace skald::cuda {
namespace {

bool is_quantized(DType type) { return info(type).block_elems > 1; }

// Quantized models compute in bf16, which has the range for any model's activations. Their matrices
// that are not quantized are rounded to bf16.
DType activation_type(const Program& program) {
  std::optional<DType> type;
  bool quantized = false;
  for (const Weight& weight : program.weights) {
    if (weight.view.rows > 1) quantized |= is_quantized(weight.view.type);
  }
  if (quantized) return DType::BF16;
  std::set<WeightId> floats;  // float32 on the GPU, whatever format the file has
  for (const Op& op : program.ops) {
    if (const auto* o = std::get_if<Experts>(&op)) {
      floats.insert({o->router, o->gate_bias, o->up_bias, o->down_bias});
    } else if (const auto* o = std::get_if<CausalConv>(&op)) {
      floats.insert(o->weight);
    } else if (const auto* o = std::get_if<StateSpace>(&op)) {
      floats.insert({o->rate, o->skip});
    } else if (const auto* o = std::get_if<HeadNorm>(&op)) {
      floats.insert(o->weight);
    }
  }
  for (size_t i = 0; i < program.weights.size(); ++i) {
    const Weight& weight = program.weights[i];
    if (weight.view.rows == 1 || floats.contains(static_cast<WeightId>(i))) continue;
    if (type.value_or(weight.view.type) != weight.view.type) {
      if (program.given_cols() > 0) return DType::BF16;  // a head with its model's embedding
      fail(Exit::Failed, "CUDA has no kernels for a model that mixes ", name(*type), " and ",
           name(weight.view.type), " matrices, as '", weight.name, "' does; use --device cpu");
    }
    type = weight.view.type;
  }
  return type.value_or(DType::F32);
}

// All weights of an op, in a fixed order.
std::vector<WeightId> weights_of(const FusedOp& op) {
  using Ids = std::vector<WeightId>;
  const auto norm_ids = [](const std::optional<Norm>& norm) {
    return norm ? Ids{norm->weight, norm->bias} : Ids{};
  };
  return std::visit(
      Overloaded{[](const Embed& o) { return Ids{o.weight}; }, [](const Given&) { return Ids(); },
                 [](const Norm& o) {
                   return Ids{o.weight, o.bias};
                 },
                 [&](const FusedLinear& o) {
                   Ids ids = norm_ids(o.norm);
                   ids.insert(ids.end(), o.parts.begin(), o.parts.end());
                   ids.insert(ids.end(), o.biases.begin(), o.biases.end());
                   const Ids post = norm_ids(o.post_norm);
                   ids.insert(ids.end(), post.begin(), post.end());
                   return ids;
                 },
                 [](const FusedAttention& o) {
                   Ids ids = {o.sinks};
                   if (o.norm) ids.insert(ids.end(), {o.norm->q, o.norm->k});
                   return ids;
                 },
                 [](const FusedExperts& o) {
                   return Ids{o.norm.weight, o.router,       o.gate,
                              o.up,          o.down,         o.router_bias,
                              o.choice_bias, o.gate_bias,    o.up_bias,
                              o.down_bias,   o.expert_scale, o.route_norm.value_or(o.norm.weight)};
                 },
                 [](const FusedDelta& o) {
                   return Ids{o.conv, o.rate, o.bias, o.norm};
                 },
                 [](const FusedSpace& o) {
                   return Ids{o.conv, o.conv_bias, o.rate, o.bias, o.skip, o.norm};
                 },
                 [](const FusedShortConv& o) { return Ids{o.conv}; },
                 [](const RowGate& o) { return Ids{o.weight}; },
                 [](const SumOfNorms& o) {
                   return Ids{o.norm, o.a_norm, o.b_norm};
                 },
                 [](const GatedAct&) { return Ids(); }, [](const GatedPart&) { return Ids(); },
                 [](const FusedPart&) { return Ids(); },
                 [](const BufferNorm& o) { return Ids{o.weight}; },
                 [](const HeadProducts& o) { return Ids{o.weight}; },
                 [&](const FusedExchange& o) { return norm_ids(o.norm); }},
      op.op);
}

// See FusedProgram::first_with_weights. Ops with the same weights share them on the GPU if they are
// of the same kind and have the same epilogue, which decides about the layout.
std::vector<size_t> first_with_weights(const std::vector<FusedOp>& ops) {
  using Key = std::tuple<size_t, Epilogue, std::vector<WeightId>>;
  std::map<Key, size_t> first;
  std::vector<size_t> result;
  for (size_t i = 0; i < ops.size(); ++i) {
    const auto* linear = std::get_if<FusedLinear>(&ops[i].op);
    Key key = {ops[i].op.index(), linear ? linear->epilogue : Epilogue::Store, weights_of(ops[i])};
    result.push_back(first.emplace(std::move(key), i).first->second);
  }
  return result;
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
  int64_t most = 0;
  if (id == delta) {
    for (const FusedOp& op : ops) {
      const auto* linear = std::get_if<FusedLinear>(&op.op);
      if (linear && linear->out == delta) most = std::max(most, outs(*linear));
    }
    return most;
  }
  if (id != qkv) return program.act(id).cols;
  for (const AttentionSpec& spec : specs) {
    most = std::max(most, int64_t{qkv_heads(spec)} * spec.head_dim);
  }
  return most;
}

DType FusedProgram::type_of(ActId id) const {
  const bool is_float = std::find(floats.begin(), floats.end(), id) != floats.end();
  return id == hidden || is_float ? DType::F32 : type;
}

int64_t FusedProgram::row_bytes(ActId id) const {
  return cols(id) * (type_of(id) == DType::F32 ? 4 : element);
}

size_t FusedProgram::spec_index(const AttentionSpec& spec) const {
  return static_cast<size_t>(std::find(specs.begin(), specs.end(), spec) - specs.begin());
}

DType FusedProgram::format(WeightId id) const {
  const DType own = program.weight(id).view.type;
  return is_quantized(own) ? own : type;
}

bool FusedProgram::quantized() const {
  return std::any_of(program.weights.begin(), program.weights.end(), [](const Weight& weight) {
    return weight.view.rows > 1 && is_quantized(weight.view.type);
  });
}

std::vector<Piece> FusedProgram::pieces(const FusedLinear& op) const {
  std::vector<Piece> pieces;
  int64_t outs = 0;
  for (size_t i = 0; i < op.parts.size(); ++i) {
    const DType part = format(op.parts[i]);
    const int64_t rows = program.weight(op.parts[i]).view.rows;
    if (pieces.empty() || pieces.back().format != part) pieces.push_back({part, i, i, outs, 0});
    pieces.back().last = i + 1;
    pieces.back().outs += rows;
    outs += rows;
  }
  return pieces;
}

bool FusedProgram::alternates(const FusedLinear& op) const {
  return op.epilogue == Epilogue::Gated && pieces(op).size() == 1;
}

std::vector<ExpertStack> FusedProgram::stacks(const FusedExperts& op) const {
  std::vector<ExpertStack> stacks;
  const auto add = [&](WeightId part, WeightId bias) {
    const TensorView& view = program.weight(part).view;
    if (part == op.up && !stacks.empty() && stacks.back().format == format(part)) {
      stacks.back().outs += view.rows;
      stacks.back().parts.push_back(part);
    } else {
      stacks.push_back({format(part), view.rows, view.cols, {part}, {}});
    }
    if (bias != WeightId::None) stacks.back().biases.push_back(bias);
  };
  if (op.gate != WeightId::None) add(op.gate, op.gate_bias);
  add(op.up, op.up_bias);
  add(op.down, op.down_bias);
  return stacks;
}

DeltaShape FusedProgram::shape(const FusedDelta& op) const {
  return {type, op.spec, op.columns, op.taps, cols(op.in)};
}

SpaceShape FusedProgram::shape(const FusedSpace& op) const {
  return {type, op.spec, op.columns, op.taps, cols(op.in)};
}

int64_t FusedProgram::state_floats(const FusedOp& op) const {
  if (const auto* net = std::get_if<FusedDelta>(&op.op)) return shape(*net).state_floats();
  if (const auto* space = std::get_if<FusedSpace>(&op.op)) return shape(*space).state_floats();
  const auto* conv = std::get_if<FusedShortConv>(&op.op);
  return conv ? conv->taps * cols(conv->out) : 0;
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

std::optional<ActId> FusedProgram::float_result(const FusedOp& op) const {
  if (const auto* o = std::get_if<Embed>(&op.op)) return o->out;
  if (const auto* o = std::get_if<SumOfNorms>(&op.op)) return o->out;
  if (const auto* o = std::get_if<FusedExchange>(&op.op)) return o->out;
  if (const auto* o = std::get_if<Norm>(&op.op)) {  // in place, between two runs of the layers
    return o->out == hidden ? std::optional(o->out) : std::nullopt;
  }
  if (const auto* o = std::get_if<Given>(&op.op)) {
    return o->out == hidden ? std::optional(o->out) : std::nullopt;
  }
  if (const auto* o = std::get_if<FusedPart>(&op.op)) {
    return o->from.buffer == hidden ? std::optional(o->out) : std::nullopt;
  }
  const auto* linear = std::get_if<FusedLinear>(&op.op);
  const auto* experts = std::get_if<FusedExperts>(&op.op);
  if (experts) return experts->out;
  if (!linear) return std::nullopt;
  const bool is_float = linear->epilogue == Epilogue::AddTo || linear->epilogue == Epilogue::Floats;
  return is_float ? std::optional(linear->out) : std::nullopt;
}

bool FusedProgram::bounded(const FusedLinear& op) const {
  const bool wanted = op.out == qkv || alternates(op);
  return wanted && op.norms_inside() && is_quantized(pieces(op).back().format);
}

std::optional<float> FusedProgram::own_bound(const FusedAttention& op) const {
  constexpr float kRounding = 1.01f;
  if (op.v_norm) return std::sqrt(static_cast<float>(op.spec.head_dim)) * kRounding;
  return op.appends ? std::nullopt : std::optional(0.0f);
}

bool FusedProgram::shares_embedding(const FusedLinear& op) const {
  return op.parts.size() == 1 && op.parts[0] == std::get<Embed>(ops.front().op).weight;
}

int64_t matrix_bytes(DType format, int64_t outs, int64_t ins) {
  return is_quantized(format) ? tile_bytes(format, outs, ins) : outs * row_bytes(format, ins);
}

FusedProgram fuse_program(Program program) {
  FusedProgram fused;
  fused.type = activation_type(program);
  fused.element = fused.type == DType::F32 ? 4 : 2;
  fused.qkv = static_cast<ActId>(program.acts.size());
  fused.delta = static_cast<ActId>(program.acts.size() + 1);
  fused.copy = static_cast<ActId>(program.acts.size() + 2);
  Fused ops = fuse(program, {fused.qkv, fused.delta, fused.copy});
  fused.ops = std::move(ops.ops);
  fused.readers = std::move(ops.readers);
  fused.program = std::move(program);
  check(std::holds_alternative<FusedLinear>(fused.ops.back().op), "the last op makes logits");
  fused.first_with_weights = first_with_weights(fused.ops);
  fused.hidden = std::get<Embed>(fused.ops.front().op).out;
  for (const FusedOp& op : fused.ops) {
    const auto* linear = std::get_if<FusedLinear>(&op.op);
    if (linear && linear->post_norm) fused.floats.push_back(fused.product(*linear));
    if (const std::optional<ActId> out = fused.float_result(op)) fused.floats.push_back(*out);
    const auto* attention = std::get_if<FusedAttention>(&op.op);
    if (!attention) continue;
    int pairs = 0;
    if (attention->rope) {
      const RopeSpec& rope = fused.program.ropes[static_cast<size_t>(*attention->rope)];
      pairs = static_cast<int>(rope.inv_freq.size());
      if (attention->norm && attention->norm->after_rope && rope.scale != 1) {
        fail(Exit::Model, "no CUDA attention whose queries rotate with a factor of ", rope.scale,
             " before their norm");
      }
    }
    check_attention(fused.type, attention->spec, pairs);
    check_growth(attention->spec, pairs);
    if (fused.spec_index(attention->spec) == fused.specs.size()) {
      fused.specs.push_back(attention->spec);
    }
  }
  for (const FusedOp& op : fused.ops) {
    const auto* part = std::get_if<FusedPart>(&op.op);
    if (part && fused.type_of(part->from.buffer) != fused.type_of(part->out) &&
        fused.type_of(part->out) == DType::F32) {
      fail(Exit::Failed, "CUDA has no kernel for op ", op.last,
           ", a part of 16-bit rows beside parts of float32 rows; use --device cpu");
    }
  }
  return fused;
}

}  // namespace skald::cuda
