// Which kernels a model gets, as the executor would choose them: the same fused ops, the same
// functions that decide.
#include <algorithm>

#include "cuda/cuda.h"
#include "cuda/kernels/attention/attention.h"
#include "cuda/plan/experts_steps.h"
#include "cuda/plan/linear_steps.h"
#include "cuda/plan/plan.h"
#include "engine/base/error.h"
#include "engine/base/overloaded.h"

namespace skald::cuda {
namespace {

// "blk.7.attn_q.weight" in every layer is "attn_q"; so is the first of a stack, "...weight[0]".
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
      : fused_(fuse_program(model.program())),
        gpu_{used_capability(gpu, options), gpu.multiprocessors},
        reproducible_(options.reproducible),
        size_(size_options(fused_, options, gpu)),
        sizes_(fused_, size_),
        copies_(has_copies(plan_memory(fused_, options, model.config, gpu))),
        rows_(rows) {}

  std::vector<KernelUse> run() {
    size_t first = 0;
    for (const FusedOp& op : fused_.ops) {
      ops_ = ops_text(first, op.last);
      first = op.last + 1;
      std::visit([this](const auto& o) { list(o); }, op.op);
    }
    return std::move(uses_);
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
      text += (text.empty() ? "" : " ") + short_name(fused_.program.weight(part).name);
    }
    return text;
  }

  template <class KernelOf>
  void add(const std::string& weights, const std::string& shape, const KernelOf& kernel_of) {
    KernelUse use{ops_, weights, shape, 1, {}};
    for (int rows : rows_) use.kernels.push_back(kernel_of(rows));
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
    add(weights_text({op.weight}), concat("[", view.rows, ", ", view.cols, "]"),
        [](int) { return std::string("embed"); });
  }

  void list(const Norm& op) {
    add(weights_text({op.weight}), concat("[", fused_.cols(op.in), "]"),
        [&](int) { return std::string(op_name(op)); });
  }

  void list(const FusedLinear& op) {
    const std::vector<Piece> pieces = fused_.pieces(op);
    std::string shape = concat("[", fused_.outs(op), ", ", fused_.ins(op), "]");
    for (const Piece& piece : pieces) {
      if (fused_.quantized())
        shape += concat(&piece == pieces.data() ? " " : "+", name(piece.format));
    }
    add(weights_text(op.parts), shape, [&](int rows) {
      static constexpr float kSomewhere = 0;  // stands for vectors that are not loaded
      // Logits are computed some rows at a time.
      if (op.epilogue == Epilogue::Logits) {
        rows = static_cast<int>(std::min<int64_t>(rows, sizes_.logit_rows));
      }
      std::string text;
      for (const Piece& piece : pieces) {
        LinearLaunch launch = linear_launch(fused_, op, piece, rows, {&kSomewhere, &kSomewhere});
        if (copies_ && piece.format != fused_.type) launch.copy = &kSomewhere;
        const std::string steps = steps_text(linear_steps(launch, gpu_), copies_);
        if (!text.ends_with(steps)) text += concat(text.empty() ? "" : ", ", steps);
      }
      const bool norms_before = op.norm && !op.norms_inside();
      return concat(op.makes_copy ? "to_type + " : "", norms_before ? "layer_norm + " : "", text,
                    op.epilogue == Epilogue::Gated && pieces.size() > 1 ? " + gate" : "",
                    op.post_norm ? " + post_norm" : "", op.caps() ? " + cap_logits" : "");
    });
  }

  void list(const FusedAttention& op) {
    const AttentionSpec& s = op.spec;
    const std::string shape = concat(s.heads, " heads, ", s.kv_heads, " kv, x ", s.head_dim,
                                     s.window > 0 ? concat(", window ", s.window) : "",
                                     s.softcap != 0 ? concat(", cap ", s.softcap) : "");
    const std::string ops = ops_;
    for (const bool decode : {true, false}) {
      ops_ = concat(ops, decode ? " (decode)" : " (prompt)");
      add("", shape, [&](int rows) {
        if (decode && rows > sizes_.graph_rows) return std::string("-");
        const AttentionKernel kernel = attention_kernel(size_.attention, s, decode);
        const bool rotates = kernel == AttentionKernel::Decode;
        const bool norms = op.norm && !op.norm->whole;
        return concat(op.norm && op.norm->whole ? "qk_norm + " : "",
                      rotates ? ""
                      : norms ? "norm_rope_append + "
                              : "rope_append + ",
                      kernel_name(kernel));
      });
    }
  }

  void list(const FusedExperts& op) {
    const std::vector<ExpertStack> stacks = fused_.stacks(op);
    std::string shape = concat(op.spec.used, " of ", op.spec.count, " x (");
    for (const ExpertStack& stack : stacks) {
      shape += concat(&stack == stacks.data() ? "[" : ", [", stack.outs, ", ", stack.ins, "]",
                      fused_.quantized() ? concat(" ", name(stack.format)) : "");
    }
    add(weights_text({op.router, op.gate, op.up, op.down}), shape + ")",
        [&](int rows) { return experts_text(fused_, op, rows, gpu_, reproducible_); });
  }

  FusedProgram fused_;
  Gpu gpu_;
  bool reproducible_;
  SizeOptions size_;
  Sizes sizes_;
  bool copies_;
  std::span<const int> rows_;
  std::string ops_;
  std::vector<KernelUse> uses_;
};

}  // namespace

std::vector<KernelUse> list_kernels(const Model& model, const RunOptions& options,
                                    const DeviceInfo& gpu, std::span<const int> rows) {
  return Lister(model, options, gpu, rows).run();
}

}  // namespace skald::cuda
