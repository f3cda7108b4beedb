#include "cuda/plan/sizes.h"

#include <algorithm>
#include <utility>

#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/exchange/mail.h"
#include "cuda/kernels/experts/placed_rows.h"
#include "cuda/kernels/prepared_rows.h"
#include "cuda/kernels/sample/sample.h"
#include "cuda/kernels/sample/score.h"
#include "cuda/kernels/tiles/layout.h"
#include "cuda/plan/experts_shape.h"
#include "cuda/plan/kernel_table.h"
#include "engine/memory/kv_pages.h"
#include "engine/program/page_layout.h"

namespace skald::cuda {
namespace {

// The head computes the logits of prompt rows on demand, at least this many rows at a time.
constexpr int64_t kFewestLogitRows = 64;
// Decode steps of up to this many rows run as a graph and compute logits for all rows. A graph
// costs memory and a slow first run.
constexpr int64_t kMostGraphRows = 256;
// Rows of logits at a time when sequences are scored, if kMostScoredBytes allows. With 512 rows the
// head's GEMM is as fast as other GEMMs.
constexpr int64_t kScoredRows = 512;
constexpr int64_t kMostScoredBytes = 512 << 20;
// A step may have this many sequences even if the cache was made for fewer.
constexpr int64_t kFewestSequences = 64;

// Bytes for rows of a quantized matrix that are expanded by one call: large enough for few calls.
constexpr int64_t kExpandedBytes = 256 << 20;

struct ExpandedBytes {
  int64_t all = 0, most = 0;
};

ExpandedBytes expanded_bytes(const FusedProgram& fused) {
  ExpandedBytes bytes;
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    const auto* linear = std::get_if<FusedLinear>(&fused.ops[i].op);
    if (!linear || fused.first_with_weights[i] != i) continue;
    const int64_t group = tiles::kRows * fused.ins(*linear) * fused.element;
    for (const Piece& piece : fused.pieces(*linear)) {
      if (piece.format == fused.type) continue;
      const int64_t groups = (piece.outs + tiles::kRows - 1) / tiles::kRows;
      bytes.all += padded(piece.outs * fused.ins(*linear) * fused.element);
      bytes.most =
          std::max(bytes.most, group * std::clamp<int64_t>(kExpandedBytes / group, 1, groups));
    }
  }
  return bytes;
}

ExpertSizes expert_sizes(const FusedProgram& fused, const SizeOptions& options) {
  const int64_t rows = options.rows;
  ExpertSizes sizes;
  const auto grow = [](int64_t& size, int64_t bytes) { size = std::max(size, bytes); };
  for (const FusedOp& op : fused.ops) {
    const auto* experts = std::get_if<FusedExperts>(&op.op);
    if (!experts) continue;
    const int64_t places = rows * experts->spec.used;
    const std::vector<ExpertStack> stacks = fused.stacks(*experts);
    const int64_t dim = stacks.back().outs, ffn_dim = stacks.back().ins;
    grow(sizes.logits, rows * experts->spec.count * 4);
    grow(sizes.router_logits, kRouterLogits * 4);
    grow(sizes.choices,
         (places + 1) * 4);  // a shared expert may be one more (ExpertsShape::with_shared)
    grow(sizes.begins, (int64_t{experts->spec.count} + 2) * 4);
    grow(sizes.slots, int64_t{experts->spec.count} * 4);
    grow(sizes.moves, (int64_t{experts->spec.count} * 2 + 2) * 4);
    grow(sizes.tickets, std::max(route_tickets(rows), row_sum_tickets(dim)) * 4);
    grow(sizes.gated, (places + 1) * ffn_dim * fused.element);
    if (stacks.size() > 2) grow(sizes.pairs, places * 2 * ffn_dim * fused.element);
    grow(sizes.sums, places * dim * 4);
    // Wgmma: the GPU runs sm_90a code, as experts_many_sm90 needs. Rows that it reads in the order
    // of places lie in the memory of the sums (gate and up), and in that of the pairs (down),
    // unless gate and up write them to the memory of the gated rows.
    if (options.attention != AttentionCode::Wgmma) continue;
    const RoutingShape routing = {static_cast<int>(rows), experts->spec.used, experts->spec.count};
    const bool fed =
        stacks.size() == 2 && experts->gate != WeightId::None &&
        std::all_of(stacks.begin(), stacks.end(), [&](const ExpertStack& stack) {
          return placed_order(stack.format) == RowOrder::Placed &&
                 supports_experts_many_sm90(experts_shape(fused, *experts, stack), routing);
        });
    constexpr RowOrder kLargest = RowOrder::PlacedHalves;
    grow(sizes.sums, PlacedLayout(places, dim).bytes(kLargest));
    if (!fed) grow(sizes.pairs, PlacedLayout(places, ffn_dim).bytes(kLargest));
    grow(sizes.gated, PlacedLayout(places, ffn_dim).bytes(RowOrder::Placed));
    grow(sizes.tiles, placed_tiles(routing) * int64_t{sizeof(PlacedTile)});
  }
  return sizes;
}

int64_t pieces_of_products(const FusedProgram& fused) {
  int64_t count = 0;
  for (const FusedOp& op : fused.ops) {
    const auto* linear = std::get_if<FusedLinear>(&op.op);
    if (linear) count += std::ssize(fused.pieces(*linear));
  }
  return count;
}

// For each layer, true if its keys serve as values, so that the cache has no values.
std::vector<bool> keys_serve(const FusedProgram& fused) {
  std::vector<bool> serve(fused.program.kv.size());
  for (const FusedOp& op : fused.ops) {
    const auto* attention = std::get_if<FusedAttention>(&op.op);
    if (attention && attention->spec.keys_serve)
      serve[static_cast<size_t>(attention->layer)] = true;
  }
  return serve;
}

StepLayout step_layout(const FusedProgram& fused, const SizeOptions& options) {
  StepLayout step;
  step.pages = pages_for(options.context);
  step.most_sequences =
      std::min(std::max<int64_t>(options.sequences, kFewestSequences), options.rows);
  for (int64_t* list : {&step.tokens, &step.positions, &step.sequences, &step.wanted}) {
    *list = step.bytes;
    step.bytes += padded(options.rows * 4);
  }
  for (int64_t* list : {&step.begins, &step.slots}) {
    *list = step.bytes;
    step.bytes += padded((step.most_sequences + 1) * 4);
  }
  const int rows = static_cast<int>(options.rows);
  for (const AttentionSpec& spec : fused.specs) {
    step.tiles.push_back(step.bytes);
    // At worst every row belongs to a different sequence.
    step.bytes += padded(attention_tiles_bound(rows, rows, spec, options.attention) *
                         int64_t{sizeof(AttentionTile)});
  }
  step.page_table = step.bytes;
  step.bytes += padded(step.most_sequences * step.pages * 4);
  step.given = step.bytes;
  step.given_cols = fused.program.given_cols();
  step.bytes += padded(options.rows * step.given_cols * 4);
  return step;
}

}  // namespace

Sizes::Sizes(const FusedProgram& fused, const SizeOptions& options) {
  const auto whole_products = [&](int64_t count) {
    return options.reproducible
               ? (count + kWholeProductRows - 1) / kWholeProductRows * kWholeProductRows
               : count;
  };
  const int64_t rows = whole_products(options.rows);
  logit_rows = std::clamp<int64_t>(options.sequences, kFewestLogitRows, kMostGraphRows);
  graph_rows = static_cast<int>(std::min(options.rows, logit_rows));
  if (options.scores) {
    const int64_t row_bytes = fused.program.vocab() * 4;
    const int64_t most = std::min({kScoredRows, rows, kMostScoredBytes / row_bytes});
    logit_rows = std::max(logit_rows, most);
  }
  logit_rows = whole_products(logit_rows);
  placement = place_weights(fused, options.place);
  const ExpandedBytes bytes = expanded_bytes(fused);
  (options.copies ? copies : expanded) = options.copies ? bytes.all : bytes.most;
  for (const FusedOp& op : fused.ops) {
    const auto* linear = std::get_if<FusedLinear>(&op.op);
    if (!linear || !fused.quantized()) continue;
    const int most = static_cast<int>(std::min<int64_t>(options.rows, kGemmQMostRows));
    product = std::max(product, gemm_q_workspace_bytes(most, fused.ins(*linear)));
    if (linear->norm) carried = std::max(carried, gemm_q_carried_bytes(most, fused.ins(*linear)));
  }
  cache_types = options.cache_types.or_else(cache_types_of(fused.type));
  PageLayout layout(fused.program, cache_types, keys_serve(fused));
  kv_offsets = std::move(layout.offsets);
  page = layout.bytes;
  const CacheTypes plain = cache_types_of(fused.type);
  for (const KvLayer& layer : fused.program.kv) {
    if (cache_types == plain) break;
    plain_page = std::max(plain_page, LayerCache(plain, layer.kv_heads, layer.head_dim).bytes());
  }
  pages = cache_pages(options.context, options.sequences, options.cache_tokens);
  for (const FusedOp& op : fused.ops) {
    const int64_t floats = fused.state_floats(op);
    if (floats == 0) continue;
    state_offsets.push_back(slot_floats);
    slot_floats += padded(floats * 4) / 4;
  }
  if (slot_floats > 0) slots = int64_t{options.sequences} + options.checkpoints;
  for (size_t i = 0; i < fused.buffers(); ++i) {
    acts.push_back(rows * fused.row_bytes(static_cast<ActId>(i)));
  }
  for (const FusedOp& op : fused.ops) {
    const auto* linear = std::get_if<FusedLinear>(&op.op);
    if (linear && linear->epilogue == Epilogue::Gated) {
      pairs = std::max(pairs, rows * fused.outs(*linear) * fused.element);
    }
  }
  wanted = rows * fused.cols(fused.hidden) * 4;
  experts = expert_sizes(fused, options);
  logits = logit_rows * fused.program.vocab() * 4;
  if (fused.program.logits().is_part()) logits_part = logit_rows * fused.outs(fused.head()) * 4;
  sampling = padded(sample_settings_bytes(logit_rows, fused.program.vocab())) +
             padded(sample_result_bytes(logit_rows));
  scored = logit_rows * fused.cols(fused.hidden) * 4;
  scoring = padded(score_list_bytes(rows)) + padded(score_sums_bytes(rows)) +
            padded(divergence_bytes(rows));
  for (const AttentionSpec& spec : fused.specs) {
    const int64_t floats = attention_workspace_floats(
        graph_rows, spec, decode_depth(options.context), options.multiprocessors);
    attention = std::max(attention, floats * 4);
    tickets = std::max(tickets, attention_tickets(graph_rows, spec) * 4);
  }
  product_tickets = (pieces_of_products(fused) + 1) * int64_t{sizeof(unsigned)};
  if (fused.program.shard.of > 1) mail = mail_bytes(fused.program.shard.of);
  step = step_layout(fused, options);
  for (const FusedOp& op : fused.ops) {
    const auto* net = std::get_if<FusedDelta>(&op.op);
    if (!net || options.reproducible || !supports_delta_chunks(fused.shape(*net))) continue;
    const int64_t floats =
        delta_factor_floats(fused.shape(*net), options.rows, step.most_sequences);
    delta_factors = std::max(delta_factors, floats * 4);
  }
}

int64_t Sizes::activations() const {
  int64_t bytes =
      pairs + wanted + product + carried + delta_factors + experts.lists() + experts.rows();
  for (int64_t act : acts) bytes += act;
  return bytes;
}

}  // namespace skald::cuda
