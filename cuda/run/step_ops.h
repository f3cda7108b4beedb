// Executes the plan of a step (cuda/plan/step_plan.h): fills pointers into each entry and launches
// it. All decisions are in the plan. An executor has one StepOps for its stream and device. Calls
// enqueue work, and wait only for an op that the CPU computes.
#pragma once

#include <map>
#include <vector>

#include "cuda/cuda.h"
#include "cuda/exchange/peers.h"
#include "cuda/kernels/gemm/gemm_cublas.h"
#include "cuda/load/loaded_model.h"
#include "cuda/plan/step_plan.h"
#include "cuda/run/expert_caches.h"
#include "cuda/run/host_ops.h"
#include "cuda/run/step_memory.h"
#include "cuda/run/step_table.h"
#include "cuda/run/weight_copies.h"

namespace skald::cuda {

class StepOps {
 public:
  // References to what the executor owns.
  struct Parts {
    const FusedProgram& fused;
    const Sizes& sizes;
    const LoadedModel& loaded;
    WeightCopies& copies;
    ExpertCaches& caches;
    HostOps* host;  // nullptr: the CPU computes nothing
    const StepBuffer& step;
    const std::vector<DeviceMemory>& acts;  // one per buffer of the program
    const DeviceMemory& cache;
    const DeviceMemory& states;
    const DeviceMemory& logits;
    const Observer& observer;
    const PeerExchange* exchange;  // nullptr: there are no other ranks
  };
  struct Setting {
    Gpu gpu;  // the GPU that kernels are chosen for
    AttentionCode attention;
    bool dependent;     // decode kernels start while their predecessor runs
    bool clusters;      // decode attention uses clusters of blocks
    bool reproducible;  // no kernel is chosen by the number of rows
    HostShare host;
  };
  StepOps(const Parts& parts, const Setting& setting, Stream stream);

  // The step whose lists were sent last. decode: it has a row of each sequence, or several, all
  // with logits. after_pick: the kernel before this step picks the step's tokens.
  struct Rows {
    int count;
    bool decode;
    int depth = 0;  // in decode: decode_depth() of the deepest row
    bool after_pick = false;
    int sequences = 0;     // of the step
    bool several = false;  // in decode: sequences may have several rows
  };
  void run(const Rows& rows);
  bool can_be_graph(const Rows& rows) {
    return setting_.placement.hosted().empty() || plan(kind(rows)).can_be_graph();
  }

  // True if the CPU computes a part of the step.
  bool needs_host(const Rows& rows) { return p_.host && plan(kind(rows)).waits; }
  // Computes that part, after the launch of a captured graph of the step. run() does so by itself.
  void serve(const Rows& rows);

  // out = the head's norm of in; both are float, [rows, dim].
  void norm_rows(const float* in, float* out, int rows);
  // logits = head(in), in: [rows, dim]
  void run_head(const void* in, int rows, bool decode);

 private:
  // What a launch's pointers depend on, besides its entry.
  struct Step {
    const StepPlan& plan;
    int rows;
    const void* head_input;
    int sequences;
  };

  StepKind kind(const Rows& rows) const;
  const StepPlan& plan(const StepKind& kind);
  void run(const Step& step);
  void launch(const Step& step, const StepEntry& entry, const EmbedEntry& embed);
  void launch(const Step& step, const StepEntry& entry, const GivenEntry& given);
  void launch(const Step& step, const StepEntry& entry, const ToTypeEntry& to);
  void launch(const Step& step, const StepEntry& entry, const NormEntry& norm);
  void launch(const Step& step, const StepEntry& entry, const RmsNormEntry& norm);
  void launch(const Step& step, const StepEntry& entry, const ProductEntry& product);
  void launch(const Step& step, const StepEntry& entry, const GateEntry& gate);
  void launch(const Step& step, const StepEntry& entry, const BiasEntry& bias);
  void launch(const Step& step, const StepEntry& entry, const PostNormEntry& norm);
  void launch(const Step& step, const StepEntry& entry, const CapEntry& cap);
  void launch(const Step& step, const StepEntry& entry, const GatherEntry& gather);
  void launch(const Step& step, const StepEntry& entry, const RowGateEntry& gate);
  void launch(const Step& step, const StepEntry& entry, const QkNormEntry& norm);
  void launch(const Step& step, const StepEntry& entry, const EncodeCacheEntry& encode);
  void launch(const Step& step, const StepEntry& entry, const DecodeCacheEntry& decode);
  void launch(const Step& step, const StepEntry& entry, const RopeAppendEntry& rope);
  void launch(const Step& step, const StepEntry& entry, const AttentionEntry& attention);
  void launch(const Step& step, const StepEntry& entry, const DeltaEntry& net);
  void launch(const Step& step, const StepEntry& entry, const SpaceEntry& space);
  template <class Launch, class Layer>
  Launch state_launch(const Step& step, const StepEntry& entry, const Layer& layer) const;
  void launch(const Step& step, const StepEntry& entry, const ShortConvEntry& conv);
  void launch(const Step& step, const StepEntry& entry, const GatedActEntry& gated);
  void launch(const Step& step, const StepEntry& entry, const GatedPartEntry& gated);
  void launch(const Step& step, const StepEntry& entry, const PartEntry& part);
  void launch(const Step& step, const StepEntry& entry, const BufferNormEntry& norm);
  void launch(const Step& step, const StepEntry& entry, const HeadProductsEntry& products);
  void launch(const Step& step, const StepEntry& entry, const SumOfNormsEntry& sum);
  void launch(const Step& step, const StepEntry& entry, const ExchangeEntry& exchange);
  void launch(const Step& step, const StepEntry& entry, const RouteEntry& route);
  void launch(const Step& step, const StepEntry& entry, const SortChoicesEntry& sort);
  void launch(const Step& step, const StepEntry& entry, const ExpertsEntry& experts);
  void launch(const Step& step, const StepEntry& entry, const ExpertsGateEntry& gate);
  void launch(const Step& step, const StepEntry& entry, const PlaceRowsEntry& rows);
  void launch(const Step& step, const StepEntry& entry, const CombineEntry& combine);
  void launch(const Step&, const StepEntry&, const CopyEntry& copy) { p_.copies.copy(copy.op); }
  void launch(const Step&, const StepEntry& entry, const AwaitEntry&) {
    p_.copies.await(entry.op, setting_.gpu.multiprocessors);
  }
  void launch(const Step& step, const StepEntry& entry, const HostEntry& host);
  void launch(const Step& step, const StepEntry& entry, const CacheEntry& cache);
  void launch(const Step& step, const StepEntry& entry, const HostExpertsEntry&);

  LinearLaunch product_launch(const Step& step, const StepEntry& entry, const ProductEntry& product,
                              const ProductPiece& piece) const;
  GemmQPart gemm_q_part(const Step& step, const StepEntry& entry, const ProductEntry& product,
                        const ProductPiece& piece) const;
  PreparedRows prepared_rows(const Step& step, const StepEntry& entry) const;
  AttentionLaunch attention_launch(const Step& step, const StepEntry& entry) const;
  Routing routing(const Step& step, const StepEntry& entry) const;
  RouteLaunch route_launch(const Step& step, const StepEntry& entry) const;
  void* address(const Step& step, const BufferName& buffer, DType type) const;
  // The states of the layer with this number among those that have one, in slot 0.
  float* layer_states(int index) const {
    return p_.states.as<float>() + p_.sizes.state_offsets[static_cast<size_t>(index)];
  }

  std::byte* columns(const HeadPlace& place) const;

  template <class T = void>
  T* act(ActId id) const {
    return p_.acts[static_cast<size_t>(id)].as<T>();
  }
  const LoadedOp& loaded(const StepEntry& entry) const { return p_.loaded.ops()[entry.op]; }
  template <class Op>
  const Op& op(const StepEntry& entry) const {
    return std::get<Op>(p_.fused.ops[entry.op].op);
  }
  void serve(const StepEntry& entry, int rows);
  bool is_captured() const;
  void observe(const FusedOp& op, int rows);

  Parts p_;
  PlanSetting setting_;
  Stream stream_;
  ClusterRoom room_;
  GemmCublas cublas_;
  StepMemory memory_;
  std::map<StepKind, StepPlan> plans_;
};

}  // namespace skald::cuda
