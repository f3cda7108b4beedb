// A step as data: the launches of one kind of step in their order, and what one launch leaves for
// another (edges). Buffers have names instead of addresses, so that a plan needs no GPU: `skald
// plan
// --kernels` prints the same plan that cuda/run executes. plan_step() is a pure function.
#pragma once

#include <compare>
#include <optional>
#include <variant>
#include <vector>

#include "cuda/plan/fused_program.h"
#include "cuda/plan/kernel_table.h"

namespace skald::cuda {

// A buffer by name; cuda/run knows where it lies.
struct BufferName {
  enum class Kind : uint8_t {
    Act,           // an activation buffer of the program
    HeadInput,     // rows of the residual stream whose logits are asked for
    Logits,        // [rows, vocab]
    Pairs,         // gate and up before the activation
    ExpertsGated,  // [places, ffn_dim]
    ExpertsPairs,  // [places, 2 * ffn_dim]
    ExpertsSums,   // [places, dim]
  };
  Kind kind = Kind::Act;
  ActId act{};
  int64_t first_col = 0;  // it is columns of the buffer, from this one on

  bool operator==(const BufferName&) const = default;
};

// What a launch leaves for a later one.
enum class EdgeKind : uint8_t {
  // The receiver's activations, in f16 in the workspace: it needs no kernel that prepares them.
  Prepared,
  // The residual stream times the weights of the receiver's norm, in f16 in the carried buffer.
  Carried,
  // Pieces of one product: the first prepares the activations of the others, which run beside it.
  SharedActivations,
  // The receiver fills its ring when the sender has asked for all of its weights.
  Signal,
  // The receiver starts when the sender has its activations, not at once.
  LateStart,
  // Blocks of the two run on one multiprocessor, so the product's leave room for attention's.
  Beside,
};
struct Edge {
  EdgeKind kind;
  size_t other;  // the entry at the other end, an index into StepPlan::entries

  bool operator==(const Edge&) const = default;
};

// ---- Entries: one launch each, or a kernel with what always goes before it ----

// hidden = scale * the tokens' rows
struct EmbedEntry {
  bool tiles;  // of a block format
  float scale;
};
// out = hidden, in the activations' type
struct ToTypeEntry {
  ActId out;
};
// A norm of either kind, which may be a dependent launch.
struct NormEntry {
  BufferName in;
  ActId out;
  float eps;
  NormKind kind;
};
// An RMS norm before a product whose kernel does not norm. Not a dependent launch.
struct RmsNormEntry {
  BufferName in;
  ActId out;
  float eps;
};

struct ProductPiece {
  size_t index;  // among FusedProgram::pieces()
  LinearShape shape;
  bool norm, bias;  // inside
  BufferName out;
  size_t ticket;     // index into the products' tickets
  double share = 1;  // GemmQPart::share
};
struct ProductEntry {
  const ProductKernel* kernel;
  std::vector<ProductPiece> pieces;  // one; two where one launch multiplies both
  BufferName in;
  std::optional<DType> partner;  // ProductCall::partner
  bool paired = false;           // GemvPart::paired
  bool pinned = false;           // CublasPart::pinned
  bool copy = false;             // the matrix has a 16-bit copy
  int64_t expanded_rows = 0;     // CublasPart::expanded_rows
  bool keeps_norms = false;      // a later AddTo may need the factors of this product's norm
};
// Gate and up become one; a bias is added; a product is normed and added; logits are capped.
struct GateEntry {
  bool alternate;
  bool bias;
};
struct BiasEntry {
  DType type;
  BufferName out;
  float scale;
};
struct PostNormEntry {
  bool copy;  // also the residual stream in the activations' type
};
struct CapEntry {};

// The norm of all of a row's queries, and of all its keys, before attention.
struct QkNormEntry {};
// Norms and rotates q and k, and appends k and v; before kernels that do not.
struct RopeAppendEntry {};
struct AttentionEntry {
  const AttentionKernel* kernel;
  AttentionCode code;
  int depth;  // of decode
};

struct RouteEntry {};
struct SortChoicesEntry {};
// The products of one stack of experts.
struct ExpertsEntry {
  const ExpertsKernel* kernel;
  size_t stack;  // among FusedProgram::stacks()
  ExpertsShape shape;
  BufferName in, out;
  bool sums = false;  // experts_one: it also sums the experts on the residual stream
};
struct ExpertsGateEntry {};
struct CombineEntry {};

using EntryKind =
    std::variant<EmbedEntry, ToTypeEntry, NormEntry, RmsNormEntry, ProductEntry, GateEntry,
                 BiasEntry, PostNormEntry, CapEntry, QkNormEntry, RopeAppendEntry, AttentionEntry,
                 RouteEntry, SortChoicesEntry, ExpertsEntry, ExpertsGateEntry, CombineEntry>;

struct StepEntry {
  size_t op;               // of FusedProgram::ops
  bool dependent = false;  // a dependent launch: starts before the kernel ahead has finished
  EntryKind kind;
  std::vector<Edge> takes, leaves;

  // The entry that leaves or takes something of this kind; null: none does.
  const Edge* taken(EdgeKind edge) const;
  const Edge* left(EdgeKind edge) const;
};

// Steps of one kind have the same plan.
struct StepKind {
  int rows = 0;
  // One row of each sequence, logits for all of them; else rows of prompts, without the head.
  bool decode = false;
  int depth = 0;            // of decode: decode_depth() of the deepest row
  bool after_pick = false;  // the kernel ahead picks the step's tokens
  bool observed = false;    // each op's output is read by others than the next op
  bool head = false;        // the head alone, of rows in BufferName::HeadInput

  auto operator<=>(const StepKind&) const = default;
};

// What plans of one executor have in common.
struct PlanSetting {
  Gpu gpu;
  AttentionCode attention = AttentionCode::Plain;
  bool dependent = false;      // decode's launches are dependent ones
  bool clusters = false;       // of blocks, in decode attention
  bool reproducible = false;   // no kernel is chosen by the number of rows
  bool copies = false;         // quantized matrices have 16-bit copies
  int64_t expanded_bytes = 0;  // memory for rows of a quantized matrix in 16 bits
  // One an op: no gated result of a product, or value that attention reads, is larger. 0: unknown.
  // From the weights (LoadedOp::bound); assumed_bounds() stands for usual ones.
  std::vector<float> bounds;
};
std::vector<float> assumed_bounds(const FusedProgram& fused);

struct StepPlan {
  std::vector<StepEntry> entries;
};
StepPlan plan_step(const FusedProgram& fused, const PlanSetting& setting, const StepKind& kind);

}  // namespace skald::cuda
