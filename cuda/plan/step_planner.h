// How plan_step() decides: it plans one fused op after the other and connects neighbours by edges.
// Only step_plan.cpp and step_products.cpp include this file.
#pragma once

#include <optional>
#include <utility>

#include "cuda/plan/step_plan.h"

namespace skald::cuda {

// A piece of a product: its kernel and its launch parameters except buffers.
struct ProductChoice {
  LinearShape shape;
  const ProductKernel* kernel;
  bool norm, bias;  // the product needs them
};

// The pieces of a product in their order.
struct ProductChoices {
  std::vector<ProductChoice> all;

  bool pair() const;       // two pieces, multiplied by one launch
  size_t sharing() const;  // how many pieces, from the first on, share prepared rows
  bool signals() const;    // one launch, and its kernel can signal and wait
  int64_t bytes() const;   // bytes of all pieces' matrices
};

class StepPlanner {
 public:
  StepPlanner(const FusedProgram& fused, const PlanSetting& setting, const StepKind& kind);
  StepPlan run();

 private:
  // Entries of the last op that the next op may take as senders of edges.
  struct Pending {
    std::optional<size_t> carried, prepared, signal, late_start;
    std::vector<size_t> beside;       // products that attention reads
    std::optional<size_t> attention;  // attention's entry, if the last op is attention
  };
  // The entries of one product and of the small kernels around it.
  struct Range {
    size_t first, end;
  };

  void add(const Embed& embed);
  void add(const Given& given);
  void add(const Norm& norm);
  void add(const FusedLinear& linear);
  void add(const FusedAttention& attention);
  void add(const FusedExperts& experts);
  StateNeed state_need() const;
  void add(const FusedDelta& net);
  void add(const FusedSpace& space);
  void add(const FusedShortConv& conv);
  void add(const RowGate& gate);
  void add(const GatedAct& gated);
  void add(const GatedPart& gated);
  void add(const FusedPart& part);
  void add(const BufferNorm& norm);
  void add(const HeadProducts& products);
  void add(const SumOfNorms& sum);
  void add(const FusedExchange& exchange);

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

  std::vector<ExpertsEntry> expert_products(const FusedExperts& op, bool in_place) const;
  void place_rows(ExpertsEntry& product, const ExpertsEntry& gate,
                  std::optional<PlaceRowsEntry>& last);
  bool routes_inside(const FusedExperts& op, const ExpertsEntry& gate,
                     const ExpertsEntry& down) const;
  void join_shared(const FusedExperts& op, ExpertsEntry& gate, ExpertsEntry& down) const;

  // In step_copies.cpp.
  HostPart host_part() const;
  std::vector<CopyTime> plan_copies() const;
  bool reads_in_place(size_t op) const;
  bool is_copied(size_t op) const;
  bool is_on_host(size_t op) const;
  bool is_shared(size_t op) const;

  size_t emit(EntryKind kind, bool dependent);
  void connect(EdgeKind kind, size_t from, size_t to);

  bool has_next() const { return !kind_.head && at_ + 1 < fused_.ops.size(); }
  // The next op that reads the same rows, if its type is T and the GPU computes it.
  template <class T>
  const T* next() const {
    const bool launched = has_next() && !is_on_host(at_ + 1);
    return launched ? std::get_if<T>(&fused_.ops[at_ + 1].op) : nullptr;
  }

  const FusedProgram& fused_;
  const PlanSetting& setting_;
  const StepKind kind_;
  const bool dependent_;                                // this step's launches are dependent
  const bool paired_;                                   // GemvPart::paired
  const std::optional<std::pair<DType, DType>> mixed_;  // formats of the first pair of pieces
  const HostPart host_;                                 // what the CPU computes
  const std::vector<CopyTime> copies_;
  StepPlan plan_;
  size_t at_ = 0;             // index of the op that is being planned
  size_t joined_ = 0;         // so many ops that follow are a part of what is planned already
  size_t tickets_ = 0;        // tickets of the products so far
  Pending before_, after_;    // left by the last op; for the next op
  bool norms_known_ = false;  // the carried buffer holds the factors of the last norm
};

}  // namespace skald::cuda
