// A step as data: the launches of one kind of step in their order, and the edges between them. An
// edge says what one launch leaves for another. Buffers have names instead of addresses, so that a
// plan needs no GPU: `skald plan --kernels` prints the plan that cuda/run executes. plan_step() is
// a pure function.
#pragma once

#include <compare>
#include <optional>
#include <variant>
#include <vector>

#include "cuda/plan/fused_program.h"
#include "cuda/plan/host_op.h"
#include "cuda/plan/kernel_table.h"
#include "cuda/plan/place.h"

namespace skald::cuda {

// A buffer by name; cuda/run knows its address.
struct BufferName {
  enum class Kind : uint8_t {
    Act,           // an activation buffer of the program
    HeadInput,     // rows of the residual stream that need logits
    Logits,        // [rows, vocab]
    LogitsPart,    // [rows, own rows of the head], in a shard
    Pairs,         // gate and up before the activation
    ExpertsGated,  // [places, ffn_dim]
    ExpertsPairs,  // [places, 2 * ffn_dim]; or down's rows in the order of places
    ExpertsSums,   // [places, dim]; before: gate's and up's rows in the order of places
  };
  Kind kind = Kind::Act;
  ActId act{};
  int64_t first_col = 0;  // the buffer's columns from this one on

  bool operator==(const BufferName&) const = default;
};

// What a launch leaves for a later one.
enum class EdgeKind : uint8_t {
  // The sender writes the receiver's activations to the workspace in f16. No kernel prepares them.
  Prepared,
  // The sender writes the residual stream times the receiver's norm weights to the carried buffer,
  // in f16.
  Carried,
  // Pieces of one product run beside one another. The sender prepares the activations of all.
  SharedActivations,
  // The receiver fills its ring once the sender has issued the loads of all its weights.
  Signal,
  // The receiver starts once the sender has staged its activations, instead of at once.
  LateStart,
  // Blocks of a product and of attention share multiprocessors: the product's blocks leave room.
  Beside,
};
struct Edge {
  EdgeKind kind;
  size_t other;  // the entry at the other end, an index into StepPlan::entries

  bool operator==(const Edge&) const = default;
};

// ---- Entries: one launch each, or a kernel and the kernels that always precede it ----

// Weights that lie in the host's memory (cuda/plan/place.h). CopyEntry: copies the matrices of `op`
// to their slot, on a stream of its own, after all entries so far. AwaitEntry: the entries that
// follow wait for the copy of the matrices of their own op.
struct CopyEntry {
  size_t op;
};
struct AwaitEntry {};
// The CPU computes the op (cuda/plan/host_op.h), and the host waits for its inputs. copy: the next
// op reads a copy of the result in the activations' type.
struct HostEntry {
  bool copy;
};

// Before the products of experts with a cache: chosen experts get slots, and this share of those
// that have none is copied. for_cpu: the CPU computes the others.
struct CacheEntry {
  double copied;
  bool for_cpu;
};
// After the products: the CPU computes its part of the chosen experts, and the GPU adds the result.
struct HostExpertsEntry {};

// hidden = scale * the tokens' rows
struct EmbedEntry {
  bool tiles;  // the matrix is in tiles of a block format
  float scale;
};
// out = the rows that the step is given, in the buffer's type
struct GivenEntry {};
// out = hidden, in the activations' type
struct ToTypeEntry {
  ActId out;
};
// A norm of either kind. It may be a dependent launch.
struct NormEntry {
  BufferName in;
  ActId out;
  float eps;
  NormKind kind;
};
// An RMS norm before a product whose kernel has no norm. It is no dependent launch.
struct RmsNormEntry {
  BufferName in;
  ActId out;
  float eps;
};

struct ProductPiece {
  size_t index;  // index into FusedProgram::pieces()
  LinearShape shape;
  bool norm, bias;  // done inside the kernel
  BufferName out;
  size_t ticket;     // index into the products' tickets
  double share = 1;  // GemmQPart::share
};
struct ProductEntry {
  const ProductKernel* kernel;
  std::vector<ProductPiece> pieces;  // one piece, or two that one launch multiplies
  BufferName in;
  std::optional<DType> partner;  // ProductCall::partner
  bool paired = false;           // GemvPart::paired
  bool pinned = false;           // CublasPart::pinned
  bool copy = false;             // the matrix has a 16-bit copy
  int64_t expanded_rows = 0;     // CublasPart::expanded_rows
  bool keeps_norms = false;      // a later AddTo may need the factors of this product's norm
};
// Small kernels after a product: GateEntry gates, BiasEntry adds a bias and activates,
// PostNormEntry norms and adds the product, CapEntry scales and caps logits. RowGateEntry
// multiplies rows by factors.
struct GateEntry {
  bool alternate;
  bool bias;
};
struct BiasEntry {
  DType type;
  BufferName out;
  float scale;
  bool bias, activates;  // at least one is true
};
struct PostNormEntry {
  bool copy;  // also writes the residual stream in the activations' type
};
struct CapEntry {
  BufferName logits;
};
// Joins the logits of all ranks.
struct GatherEntry {};
struct RowGateEntry {};

// The norm of a row's queries together, and of its keys together, before attention.
struct QkNormEntry {};
// Norms and rotates q and k, and appends k and v. A plan has it in two cases: the attention kernel
// does not do this itself, or several rows of a decode step belong to one sequence.
struct RopeAppendEntry {};
// With a cache of codes: the step's new keys and values become codes; what attention reads becomes
// plain.
struct EncodeCacheEntry {};
struct DecodeCacheEntry {};
struct AttentionEntry {
  const AttentionKernel* kernel;
  AttentionCode code;
  int depth;                  // decode_depth(), in decode
  bool after_append = false;  // AttentionLaunch::Decode
};

struct DeltaEntry {
  const DeltaKernel* kernel;
};
struct SpaceEntry {
  const SpaceKernel* kernel;
};
// keeps: the rows of a sequence follow one another, and a second launch keeps the last ones.
struct ShortConvEntry {
  bool keeps;
};
// Gates a buffer in place: GatedAct.
struct GatedActEntry {};
struct GatedPartEntry {};
// Copies columns: FusedPart.
struct PartEntry {};
struct BufferNormEntry {};
struct HeadProductsEntry {};
struct SumOfNormsEntry {};
// all_reduce, and then the norm of a FusedExchange that has one.
struct ExchangeEntry {};

struct RouteEntry {};
struct SortChoicesEntry {};
// The products of one stack of experts.
struct ExpertsEntry {
  const ExpertsKernel* kernel;
  size_t stack;  // index into FusedProgram::stacks()
  ExpertsShape shape;
  BufferName in, out;
  bool in_place = false;  // reads the chosen experts where they lie on the host, or with `slots`
  bool slots = false;     // in the slots that CacheEntry has given them
  bool routes = false;    // gate and up: routes the row, so that there is no RouteEntry
  bool routed = false;    // down: after such gate and up
  // With shape.with_shared: the op whose matrix is the shared expert's. shared_gate: for gate and
  // up, the RowGate of that expert, if it has one.
  size_t shared_op = 0;
  std::optional<size_t> shared_gate = {};
};
struct ExpertsGateEntry {};
// Copies rows to where a kernel of experts reads them in the order of places.
struct PlaceRowsEntry {
  BufferName in, out;
  int64_t cols;
  bool by_place;
  DType format;  // of the weights that read them
};
struct CombineEntry {};

using EntryKind =
    std::variant<EmbedEntry, GivenEntry, ToTypeEntry, NormEntry, RmsNormEntry, ProductEntry,
                 GateEntry, BiasEntry, PostNormEntry, CapEntry, GatherEntry, RowGateEntry,
                 QkNormEntry, RopeAppendEntry, EncodeCacheEntry, DecodeCacheEntry, AttentionEntry,
                 DeltaEntry, SpaceEntry, ShortConvEntry, GatedActEntry, GatedPartEntry, PartEntry,
                 BufferNormEntry, HeadProductsEntry, SumOfNormsEntry, ExchangeEntry, RouteEntry,
                 SortChoicesEntry, ExpertsEntry, ExpertsGateEntry, PlaceRowsEntry, CombineEntry,
                 CopyEntry, AwaitEntry, HostEntry, CacheEntry, HostExpertsEntry>;

struct StepEntry {
  size_t op;               // index into FusedProgram::ops
  bool dependent = false;  // a dependent launch starts before its predecessor ends
  EntryKind kind;
  std::vector<Edge> takes, leaves;

  // The edge of this kind that this entry receives (taken) or sends (left); null if there is none.
  const Edge* taken(EdgeKind edge) const;
  const Edge* left(EdgeKind edge) const;
};

// Steps of one kind have the same plan.
struct StepKind {
  int rows = 0;
  // true: one row of each sequence, or several (`several`), and logits for all rows. false: rows of
  // prompts, without the head.
  bool decode = false;
  bool several = false;     // in decode: sequences may have several rows
  int depth = 0;            // in decode: decode_depth() of the deepest row
  bool after_pick = false;  // the kernel before the step picks its tokens
  bool observed = false;    // an observer reads the output of every op
  bool head = false;        // the head alone, on the rows of BufferName::HeadInput
  bool few_each = false;    // StateNeed::few_each

  auto operator<=>(const StepKind&) const = default;
};

// The setting that all plans of an executor share.
struct PlanSetting {
  Gpu gpu;
  AttentionCode attention = AttentionCode::Plain;
  bool dependent = false;                      // launches of decode are dependent
  bool clusters = false;                       // decode attention uses clusters of blocks
  std::optional<CacheTypes> coded_cache = {};  // the KV cache's types if it is one of codes
  bool reproducible = false;                   // kernels do not depend on the number of rows
  bool copies = false;                         // quantized matrices have 16-bit copies
  int64_t expanded_bytes = 0;                  // memory for 16-bit rows of a quantized matrix
  // One bound per op on the magnitude of its gated results, or of the values that attention reads;
  // 0: unknown. From the weights (LoadedOp::bound) or assumed_bounds().
  std::vector<float> bounds;
  Placement placement;  // without ops: all weights lie in the GPU's memory
  HostShare host;       // able is empty: the CPU computes nothing
};
std::vector<float> assumed_bounds(const FusedProgram& fused);

struct StepPlan {
  std::vector<StepEntry> entries;
  // The ops whose copies have begun, in this order, before the step. The plan's last copies are
  // those of the next step of this kind.
  std::vector<size_t> begun;

  bool waits = false;  // the CPU computes a part of the step

  bool copies() const { return !begun.empty(); }
  bool can_be_graph() const { return !copies(); }
};
StepPlan plan_step(const FusedProgram& fused, const PlanSetting& setting, const StepKind& kind);

}  // namespace skald::cuda
