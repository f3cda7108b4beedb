// How plan_step() decides: the launches of one fused op after the other, and the edges between
// neighbours. For step_plan.cpp and step_products.cpp alone.
#pragma once

#include <optional>
#include <utility>

#include "cuda/plan/step_plan.h"

namespace skald::cuda {

// A piece of a product: what it is launched with but for its buffers, and by which kernel.
struct ProductChoice {
  LinearShape shape;
  const ProductKernel* kernel;
  bool norm, bias;  // the product has them
};

// The pieces of a product in their order.
struct ProductChoices {
  std::vector<ProductChoice> all;

  bool pair() const;       // two pieces that are one launch
  size_t sharing() const;  // so many, from the first on, multiply the same prepared rows
  bool signals() const;    // one launch, whose blocks can signal and wait
  int64_t bytes() const;   // of all matrices
};

class StepPlanner {
 public:
  StepPlanner(const FusedProgram& fused, const PlanSetting& setting, const StepKind& kind);
  StepPlan run();

 private:
  // What the op before leaves for this one: entries that will be the senders of edges.
  struct Pending {
    std::optional<size_t> carried, prepared, signal, late_start;
    std::vector<size_t> beside;       // products that attention reads
    std::optional<size_t> attention;  // the op before is attention, this is its entry
  };
  // The entries of one product, and what stands around them.
  struct Range {
    size_t first, end;
  };

  void add(const Embed& embed);
  void add(const Norm& norm);
  void add(const FusedLinear& linear);
  void add(const FusedAttention& attention);
  void add(const FusedExperts& experts);

  // In step_products.cpp.
  ProductChoices choices(const FusedLinear& linear) const;
  Range emit_products(const FusedLinear& linear, const ProductChoices& choices, BufferName in,
                      BufferName out);
  void share_activations(const ProductChoices& choices, Range range);
  void carry(const FusedLinear& linear, const ProductChoices& choices, Range range);
  void signal(const FusedLinear& linear, const ProductChoices& choices, Range range);
  void meet_attention(const ProductChoices& choices, Range range);
  bool next_takes_carried(const FusedLinear& from) const;
  bool next_takes_prepared(ActId from) const;

  size_t emit(EntryKind kind, bool dependent);
  void connect(EdgeKind kind, size_t from, size_t to);

  bool has_next() const { return !kind_.head && at_ + 1 < fused_.ops.size(); }
  // The op that runs after this one with the same rows, where it is of this sort.
  template <class T>
  const T* next() const {
    return has_next() ? std::get_if<T>(&fused_.ops[at_ + 1].op) : nullptr;
  }

  const FusedProgram& fused_;
  const PlanSetting& setting_;
  const StepKind kind_;
  const bool dependent_;                                // this step's launches are dependent ones
  const bool paired_;                                   // GemvPart::paired
  const std::optional<std::pair<DType, DType>> mixed_;  // formats of the first pair of pieces
  StepPlan plan_;
  size_t at_ = 0;             // the op
  size_t tickets_ = 0;        // of the products before it
  Pending before_, after_;    // from the op before; for the op after
  bool norms_known_ = false;  // the carried buffer holds the factors of the last norm
};

}  // namespace skald::cuda
