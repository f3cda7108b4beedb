// Prints step plans: which kernels a model gets for each number of rows, and the edges between
// them. plan_step() makes all decisions.
#include <algorithm>
#include <map>

#include "cuda/cuda.h"
#include "cuda/plan/plan.h"
#include "cuda/plan/plan_text.h"
#include "engine/base/error.h"
#include "engine/base/overloaded.h"

namespace skald::cuda {
namespace {

// "blk.7.attn_q.weight" becomes "attn_q". The suffix "[0]" of a stack's first expert is dropped.
std::string short_name(std::string name) {
  if (name.ends_with("[0]")) name.resize(name.size() - 3);
  if (name.starts_with("blk.")) name.erase(0, name.find('.', 4) + 1);
  if (name.ends_with(".weight")) name.resize(name.size() - 7);
  return name;
}

class Lister {
 public:
  Lister(const Model& model, const RunOptions& options, const DeviceInfo& gpu,
         std::span<const int> rows)
      : fused_(fuse_program(model.program())), rows_(rows) {
    const MemoryPlan memory = plan_memory(fused_, options, model.config, gpu);
    const PlannedStep planned = planned_step(fused_, options, model.config, memory, gpu);
    graph_rows_ = planned.sizes.graph_rows;
    const auto logit_rows = static_cast<int>(planned.sizes.logit_rows);
    for (int row_count : rows) {
      StepKind prompt, decode, head;
      prompt.rows = decode.rows = row_count;
      decode.decode = head.head = true;
      prompt.few_each = row_count < kFewestChunkRows;
      decode.depth = decode_depth(memory.context);
      head.rows = std::min(row_count, logit_rows);  // logits computed at once
      prompts_.push_back(plan_step(fused_, planned.setting, prompt));
      decodes_.push_back(plan_step(fused_, planned.setting, decode));
      heads_.push_back(plan_step(fused_, planned.setting, head));
    }
  }

  std::vector<KernelUse> uses() {
    size_t first = 0;
    for (at_ = 0; at_ < fused_.ops.size(); ++at_) {
      ops_ = ops_text(first, fused_.ops[at_].last);
      first = fused_.ops[at_].last + 1;
      std::visit([this](const auto& o) { list(o); }, fused_.ops[at_].op);
    }
    return std::move(uses_);
  }

  std::vector<EdgeUse> edges() const {
    std::vector<EdgeUse> uses;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i] > graph_rows_) continue;
      for (const StepEntry& entry : decodes_[i].entries) {
        for (const Edge& edge : entry.leaves) count(uses, i, entry, edge);
      }
    }
    return uses;
  }

 private:
  // "rms_norm + 3 linear"
  std::string ops_text(size_t first, size_t last) const {
    std::string text;
    for (size_t i = first, end; i <= last; i = end) {
      const std::string_view name = op_name(fused_.program.ops[i]);
      for (end = i + 1; end <= last && op_name(fused_.program.ops[end]) == name;) ++end;
      text += concat(text.empty() ? "" : " + ", end - i > 1 ? concat(end - i, " ") : "", name);
    }
    return text;
  }

  std::string weights_text(const std::vector<WeightId>& parts) const {
    std::string text;
    for (WeightId part : parts) {
      if (part == WeightId::None) continue;
      text += (text.empty() ? "" : " ") + short_name(fused_.program.weight(part).name);
    }
    return text;
  }

  void add(const std::string& weights, const std::string& shape, const std::vector<StepPlan>& plans,
           int most_rows) {
    KernelUse use{ops_, weights, shape, 1, {}};
    for (size_t i = 0; i < rows_.size(); ++i) {
      // A launch of another op may do this op's work.
      const std::string launches = launches_text(fused_, plans[i], at_);
      use.kernels.push_back(rows_[i] > most_rows || launches.empty() ? "-" : launches);
    }
    const auto same = std::find_if(uses_.begin(), uses_.end(), [&](const KernelUse& other) {
      return other.ops == use.ops && other.weights == use.weights && other.shape == use.shape &&
             other.kernels == use.kernels;
    });
    if (same != uses_.end()) {
      ++same->times;
    } else {
      uses_.push_back(std::move(use));
    }
  }

  void list(const Embed& op) {
    const TensorView& view = fused_.program.weight(op.weight).view;
    add(weights_text({op.weight}), concat("[", view.rows, ", ", view.cols, "]"), prompts_,
        kAnyRows);
  }

  void list(const Given& op) { add("", concat("[", fused_.cols(op.out), "]"), prompts_, kAnyRows); }

  void list(const Norm& op) {
    add(weights_text({op.weight}), concat("[", fused_.cols(op.in), "]"), prompts_, kAnyRows);
  }

  void list(const RowGate& op) {
    add(weights_text({op.weight}), concat("[", fused_.cols(op.in), "]"), prompts_, kAnyRows);
  }

  void list(const GatedAct& op) {
    add("", concat("[", fused_.cols(op.out), "]"), prompts_, kAnyRows);
  }

  void list(const GatedPart& op) {
    add("", concat("[", fused_.cols(op.out), "]"), prompts_, kAnyRows);
  }

  void list(const FusedPart& op) {
    add("", concat("[", op.heads * op.cols, "]"), prompts_, kAnyRows);
  }

  void list(const BufferNorm& op) {
    add(weights_text({op.weight}), concat("[", fused_.cols(op.out), "]"), prompts_, kAnyRows);
  }

  void list(const HeadProducts& op) {
    const TensorView& view = fused_.program.weight(op.weight).view;
    add(weights_text({op.weight}),
        concat(op.heads, " heads, [", view.rows / op.heads, ", ", view.cols, "]"), prompts_,
        kAnyRows);
  }

  void list(const SumOfNorms& op) {
    add(weights_text({op.a_norm, op.b_norm, op.norm}), concat("[", fused_.cols(op.out), "]"),
        prompts_, kAnyRows);
  }

  void list(const FusedExchange& op) {
    add(op.norm ? weights_text({op.norm->weight}) : "", concat("[", fused_.cols(op.in), "]"),
        prompts_, kAnyRows);
  }

  // Decode has kernels of its own.
  void add_both(const std::string& weights, const std::string& shape) {
    const std::string ops = ops_;
    ops_ = ops + " (decode)";
    add(weights, shape, decodes_, graph_rows_);
    ops_ = ops + " (prompt)";
    add(weights, shape, prompts_, kAnyRows);
  }

  void list(const FusedDelta& op) {
    const DeltaSpec& s = op.spec;
    const std::string shape =
        concat(s.value_heads, " heads, ", s.key_heads, " k, ", s.key_dim, " x ", s.value_dim);
    add_both(weights_text({op.conv}), shape);
  }

  void list(const FusedSpace& op) {
    const SpaceSpec& s = op.spec;
    const std::string shape =
        concat(s.heads, " heads, ", s.groups, " k, ", s.head_dim, " x ", s.state_dim);
    add_both(weights_text({op.conv}), shape);
  }

  void list(const FusedShortConv& op) {
    add(weights_text({op.conv}), concat("[", fused_.cols(op.out), "], ", op.taps, " taps"),
        prompts_, kAnyRows);
  }

  void list(const FusedLinear& op) {
    const std::vector<Piece> pieces = fused_.pieces(op);
    std::string shape = concat("[", fused_.outs(op), ", ", fused_.ins(op), "]");
    for (const Piece& piece : pieces) {
      if (fused_.quantized()) {
        shape += concat(&piece == pieces.data() ? " " : "+", name(piece.format));
      }
    }
    add(weights_text(op.parts), shape, op.epilogue == Epilogue::Logits ? heads_ : prompts_,
        kAnyRows);
  }

  void list(const FusedAttention& op) {
    const AttentionSpec& s = op.spec;
    const std::string shape = concat(s.heads, " heads, ", s.kv_heads, " kv, x ", s.head_dim,
                                     s.window > 0 ? concat(", window ", s.window) : "",
                                     s.softcap != 0 ? concat(", cap ", s.softcap) : "");
    add_both("", shape);
  }

  void list(const FusedExperts& op) {
    const std::vector<ExpertStack> stacks = fused_.stacks(op);
    std::string shape = concat(op.spec.used, " of ", op.spec.count, " x (");
    for (const ExpertStack& stack : stacks) {
      shape += concat(&stack == stacks.data() ? "[" : ", [", stack.outs, ", ", stack.ins, "]",
                      fused_.quantized() ? concat(" ", name(stack.format)) : "");
    }
    add(weights_text({op.router, op.gate, op.up, op.down}), shape + ")", prompts_, kAnyRows);
  }

  // "ffn_gate ffn_up"
  std::string end_text(const StepEntry& entry) const {
    return std::visit(Overloaded{[](const Embed&) { return std::string("embed"); },
                                 [](const Norm&) { return std::string("norm"); },
                                 [&](const FusedLinear& op) { return weights_text(op.parts); },
                                 [](const FusedAttention&) { return std::string("attention"); },
                                 [](const FusedExperts&) { return std::string("experts"); },
                                 [](const FusedDelta&) { return std::string("delta_net"); },
                                 [](const FusedSpace&) { return std::string("state_space"); },
                                 [](const FusedShortConv&) { return std::string("short_conv"); },
                                 [](const RowGate&) { return std::string("row_gate"); },
                                 [](const GatedAct&) { return std::string("gated_act"); },
                                 [](const GatedPart&) { return std::string("gated_part"); },
                                 [](const SumOfNorms&) { return std::string("sum_of_norms"); },
                                 [](const Given&) { return std::string("given"); },
                                 [](const FusedPart&) { return std::string("part"); },
                                 [](const BufferNorm&) { return std::string("norm"); },
                                 [](const HeadProducts&) { return std::string("head products"); },
                                 [](const FusedExchange&) { return std::string("exchange"); }},
                      fused_.ops[entry.op].op);
  }

  void count(std::vector<EdgeUse>& uses, size_t at, const StepEntry& entry,
             const Edge& edge) const {
    const EdgeUse use{std::string(edge_name(edge.kind)),
                      end_text(entry),
                      end_text(decodes_[at].entries[edge.other]),
                      {}};
    auto same = std::find_if(uses.begin(), uses.end(), [&](const EdgeUse& other) {
      return other.what == use.what && other.from == use.from && other.to == use.to;
    });
    if (same == uses.end()) {
      uses.push_back(use);
      same = uses.end() - 1;
      same->times.resize(rows_.size());
    }
    ++same->times[at];
  }

  FusedProgram fused_;
  std::span<const int> rows_;
  int graph_rows_ = 0;
  std::vector<StepPlan> prompts_, decodes_, heads_;  // one plan for each number of rows
  size_t at_ = 0;                                    // index of the op that is being listed
  std::string ops_;
  std::vector<KernelUse> uses_;
};

}  // namespace

std::vector<KernelUse> list_kernels(const Model& model, const RunOptions& options,
                                    const DeviceInfo& gpu, std::span<const int> rows) {
  return Lister(model, options, gpu, rows).uses();
}

std::vector<EdgeUse> list_edges(const Model& model, const RunOptions& options,
                                const DeviceInfo& gpu, std::span<const int> rows) {
  return Lister(model, options, gpu, rows).edges();
}

}  // namespace skald::cuda
