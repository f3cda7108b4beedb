// Self-test of attention: every kernel that supports a case, its output and the cache after it.
#include "cuda/kernels/attention/attention.h"

#include <algorithm>
#include <numeric>

#include "cuda/run/launchers.h"
#include "cuda/selftest/run.h"
#include "engine/memory/kv_pages.h"
#include "engine/quant/cache_row.h"

namespace skald::cuda {
namespace {

using selftest::AttentionCase;
using selftest::AttentionData;
using selftest::Part;

// A kernel of the table and one of the AttentionCodes that it can run.
struct Variant {
  const char* name;
  KernelId kernel;
  AttentionCode code;
  bool after_append = false;  // AttentionLaunch::Decode
  bool decode = false;        // a decode step, of a kernel that takes prompts too
};
constexpr Variant kVariants[] = {
    {"attention_decode, clusters", kernel_id("attention_decode"), AttentionCode::Wgmma},
    {"attention_decode", kernel_id("attention_decode"), AttentionCode::Mma},
    {"attention_decode after append, clusters", kernel_id("attention_decode"), AttentionCode::Wgmma,
     true},
    {"attention_decode after append", kernel_id("attention_decode"), AttentionCode::Mma, true},
    {"attention_prefill_sm90", kernel_id("attention_prefill_sm90"), AttentionCode::Wgmma},
    {"attention_prefill", kernel_id("attention_prefill"), AttentionCode::Mma},
    {"attention_wide, decode, clusters", kernel_id("attention_wide"), AttentionCode::Wgmma, false,
     true},
    {"attention_wide, decode", kernel_id("attention_wide"), AttentionCode::Mma, false, true},
    {"attention_wide", kernel_id("attention_wide"), AttentionCode::Mma},
    {"attention_plain", kernel_id("attention_plain"), AttentionCode::Plain},
};

const AttentionKernel& kernel_of(const Variant& v) {
  return *std::find_if(std::begin(kAttentionKernels), std::end(kAttentionKernels),
                       [&](const AttentionKernel& kernel) { return kernel.id() == v.kernel; });
}

// The best code for which this binary has kernels on the compute capability under test.
AttentionCode best_code(DType type, int compute_capability) {
  return std::min(attention_code(type), attention_code_of(type, compute_capability));
}

bool selected(const Variant& v, const AttentionCase& c, AttentionCode best) {
  const AttentionKernel& kernel = select_attention(best, c.spec, c.one_row_each());
  if (kernel.id() != v.kernel || v.after_append) return false;
  if (kernel.any_step && v.code > AttentionCode::Plain) {
    return v.decode ? c.one_row_each() && v.code == best : !c.one_row_each();
  }
  return !kernel.decode || v.code == best;  // code Wgmma: with clusters; Mma: without
}

// The KV cache as kernels see it: one of two layers, pages in scattered order, NaN in all slots
// without a token.
class Cache {
 public:
  explicit Cache(const AttentionCase& c) : c_(c) {
    const AttentionSpec& s = c.spec;
    element_ = info(c.type).block_bytes;
    layer_bytes_ = int64_t{2} * s.kv_heads * kPageTokens * s.head_dim * element_;
    pages_per_sequence_ = static_cast<int>(pages_for(c.longest())) + 2;
    int64_t count = 0;
    for (const Part& part : c.parts) count += pages_for(part.before + part.rows);
    // No sequence has page 0. The page table has 0 in entries without a page.
    int64_t step = 7;
    while (std::gcd(step, count) != 1) ++step;
    table_.assign(c.parts.size() * static_cast<size_t>(pages_per_sequence_), 0);
    int64_t next = 0;
    for (size_t p = 0; p < c.parts.size(); ++p) {
      const Part& part = c.parts[p];
      for (int64_t i = 0; i < pages_for(part.before + part.rows); ++i, ++next) {
        table_[p * static_cast<size_t>(pages_per_sequence_) + static_cast<size_t>(i)] =
            static_cast<int32_t>(1 + next * step % count);
      }
    }
    bytes_.assign(static_cast<size_t>((count + 1) * 2 * layer_bytes_), std::byte{0xff});
  }

  int64_t layer_bytes() const { return layer_bytes_; }
  int64_t page_stride() const { return 2 * layer_bytes_; }
  int pages_per_sequence() const { return pages_per_sequence_; }
  const std::vector<int32_t>& table() const { return table_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  // The place of a token's key (head < kv_heads) or value (head >= kv_heads).
  size_t place(size_t part, int64_t token, int64_t head) const {
    const size_t entry =
        part * static_cast<size_t>(pages_per_sequence_) + static_cast<size_t>(token / kPageTokens);
    const int64_t row = head * kPageTokens + token % kPageTokens;
    return static_cast<size_t>(table_[entry] * page_stride() + layer_bytes_ +
                               row * c_.spec.head_dim * element_);
  }
  size_t head_bytes() const { return static_cast<size_t>(c_.spec.head_dim * element_); }

  void put(size_t part, int64_t token, int64_t head, std::span<const float> values) {
    const auto encoded = selftest::encode(c_.type, values);
    std::copy(encoded.begin(), encoded.end(),
              bytes_.begin() + static_cast<int64_t>(place(part, token, head)));
  }

 private:
  const AttentionCase& c_;
  int64_t element_, layer_bytes_;
  int pages_per_sequence_;
  std::vector<int32_t> table_;
  std::vector<std::byte> bytes_;
};

Cache filled_cache(const AttentionCase& c, const AttentionData& data) {
  Cache cache(c);
  const size_t dim = static_cast<size_t>(c.spec.head_dim);
  for (size_t p = 0; p < c.parts.size(); ++p) {
    for (int64_t t = 0; t < c.cached(c.parts[p]); ++t) {
      for (int64_t h = 0; h < c.spec.kv_heads; ++h) {
        const size_t at = static_cast<size_t>(t * c.spec.kv_heads + h) * dim;
        cache.put(p, t, h, std::span(data.keys[p]).subspan(at, dim));
        if (c.spec.keys_serve) continue;
        cache.put(p, t, c.spec.kv_heads + h, std::span(data.values[p]).subspan(at, dim));
      }
    }
  }
  return cache;
}

// The rows of qkv as the case's kernels read them: without v if v is k or k serves, q alone if it
// reads.
std::vector<float> step_rows(const AttentionCase& c, const AttentionData& data) {
  const AttentionSpec& s = c.spec;
  const int64_t all = int64_t{s.heads + 2 * s.kv_heads} * s.head_dim;
  const int64_t heads = s.heads + s.kv_heads * (c.reads                             ? 0
                                                : c.values_are_keys || s.keys_serve ? 1
                                                                                    : 2);
  std::vector<float> rows;
  for (auto row = data.qkv.begin(); row != data.qkv.end(); row += all) {
    rows.insert(rows.end(), row, row + heads * s.head_dim);
  }
  return rows;
}

// Returns "" if the cache is right after the step; otherwise the problem. The new keys and values
// must be in the cache, and all else must be unchanged.
std::string cache_problem(const AttentionCase& c, const AttentionData& data, const Cache& before,
                          std::vector<std::byte> after) {
  const AttentionSpec& s = c.spec;
  const size_t kv_heads = static_cast<size_t>(s.kv_heads);
  std::vector<float> keys, values;
  for (size_t p = 0; p < c.parts.size() && !c.reads; ++p) {
    for (int r = 0; r < c.parts[p].rows; ++r) {
      for (size_t h = 0; h < (s.keys_serve ? 1 : 2) * kv_heads; ++h) {
        const int64_t token = c.parts[p].before + r;
        const size_t place = before.place(p, token, static_cast<int64_t>(h));
        const auto stored = std::span(after).subspan(place, before.head_bytes());
        const std::vector<float> numbers = selftest::decode(c.type, stored);
        std::vector<float>& to = h < kv_heads ? keys : values;
        to.insert(to.end(), numbers.begin(), numbers.end());
        std::fill(stored.begin(), stored.end(), std::byte{0xff});
      }
    }
  }
  const auto wrong = [](const selftest::Expected& expected, const std::vector<float>& numbers) {
    return !numbers.empty() && !(expected.error(numbers) <= expected.bound);
  };
  if (wrong(data.new_keys, keys)) {
    return concat("new keys in the cache: error ", data.new_keys.error(keys), ", bound ",
                  data.new_keys.bound);
  }
  if (wrong(data.new_values, values)) {
    return concat("new values in the cache: error ", data.new_values.error(values), ", bound ",
                  data.new_values.bound);
  }
  return after == before.bytes() ? "" : "it changed the cache beyond the new tokens";
}

}  // namespace

void test_attention(const AttentionCase& c, const AttentionData& data, const TestGpu& test,
                    TestBuffers& buffers, selftest::Report& report) {
  const Cache cache = filled_cache(c, data);
  const AttentionCode best = best_code(c.type, test.gpu.compute_capability);
  const int rows = c.rows();
  std::vector<int32_t> positions, sequences;
  for (size_t p = 0; p < c.parts.size(); ++p) {
    for (int r = 0; r < c.parts[p].rows; ++r) {
      positions.push_back(c.parts[p].before + r);
      sequences.push_back(static_cast<int32_t>(p));
    }
  }
  const auto ints = [&](const std::vector<int32_t>& list) {
    return reinterpret_cast<const int32_t*>(buffers.holding(list).data);
  };
  for (const Variant& v : kVariants) {
    const AttentionKernel& kernel = kernel_of(v);
    if (v.code > best || !kernel.supports(c.spec)) continue;
    constexpr int kMostDecoded = 64;  // rows of a case
    const bool decode = kernel.decode || v.decode, several = v.after_append || v.decode;
    if (decode && !(several ? rows <= kMostDecoded : c.one_row_each())) continue;
    buffers.reset();
    const TestBuffer qkv = buffers.holding(c.type, step_rows(c, data));
    const TestBuffer out =
        buffers.poisoned(int64_t{rows} * c.spec.heads * c.spec.head_dim * info(c.type).block_bytes);
    const TestBuffer pages = buffers.holding(cache.bytes());
    AttentionLaunch launch = {};
    launch.type = c.type;
    launch.cache_types = cache_types_of(c.type);
    launch.qkv = qkv.data;
    launch.out = out.data;
    launch.rows = rows;
    launch.step = {nullptr, ints(positions), ints(sequences), ints(cache.table()),
                   cache.pages_per_sequence()};
    launch.cache = {pages.data + cache.layer_bytes(), cache.page_stride()};
    launch.spec = c.spec;
    launch.inv_freq = reinterpret_cast<float*>(buffers.holding(data.inv_freq).data);
    launch.rope_pairs = c.rope_pairs;
    launch.rope_interleaved = c.interleaved;
    launch.rope_scale = c.rope_scale;
    if (c.head_norm) {
      launch.q_norm = reinterpret_cast<float*>(buffers.holding(data.q_norm).data);
      if (!c.reads) launch.k_norm = reinterpret_cast<float*>(buffers.holding(data.k_norm).data);
      launch.norm_eps = selftest::kNormEps;
      launch.norm_after_rope = c.norm_after_rope;
      launch.v_norm = c.v_norm;
    }
    launch.values_are_keys = c.values_are_keys;
    launch.appends = !c.reads;
    if (c.sinks) launch.sinks = reinterpret_cast<float*>(buffers.holding(data.sinks).data);
    launch.code = v.code;
    constexpr int kFew = 3;  // few multiprocessors: a block takes several tiles
    launch.multiprocessors = decode ? test.gpu.multiprocessors : kFew;
    TestBuffer workspace, tickets;
    if (decode) {
      // The depth of a real step, or a depth so large that there are more runs than tokens.
      constexpr int kDeep = 16384;
      launch.decode.depth = c.longest() % 2 == 0 ? decode_depth(c.longest()) : kDeep;
      workspace = buffers.poisoned(4 * attention_workspace_floats(rows, c.spec, launch.decode.depth,
                                                                  launch.multiprocessors));
      tickets = buffers.holding(
          std::vector<int32_t>(static_cast<size_t>(attention_tickets(rows, c.spec))));
      launch.decode.workspace = reinterpret_cast<float*>(workspace.data);
      launch.decode.tickets = reinterpret_cast<int*>(tickets.data);
      launch.decode.after_append = v.after_append || !c.one_row_each();
      if (v.decode || (v.after_append && launch.appends)) launch_rope_append(launch, test.stream);
      cuda::launch(kernel, launch, test.stream);
    } else {
      std::vector<AttentionTile> tiles(static_cast<size_t>(
          attention_tiles_bound(rows, static_cast<int>(c.parts.size()), c.spec, v.code)));
      const int count = build_attention_tiles({positions, sequences, c.spec, v.code}, tiles.data());
      tiles.resize(static_cast<size_t>(count));
      tiles.push_back({0, 0});  // a tile without rows
      launch.prefill.tiles = reinterpret_cast<AttentionTile*>(buffers.holding(tiles).data);
      launch.prefill.count = count + 1;
      launch_rope_append(launch, test.stream);
      cuda::launch(kernel, launch, test.stream);
    }
    SKALD_CUDA(cudaStreamSynchronize(test.stream));
    const std::vector<float> result = selftest::decode(c.type, buffers.bytes_of(out));
    std::string problem = cache_problem(c, data, cache, buffers.bytes_of(pages));
    if (!buffers.intact(out) || !buffers.intact(qkv) || !buffers.intact(pages)) {
      problem = "it wrote beyond its buffers";
    }
    if (decode) {
      const auto left = buffers.bytes_of(tickets);
      const bool zero =
          std::all_of(left.begin(), left.end(), [](std::byte b) { return b == std::byte{0}; });
      if (!zero) problem = "tickets are not zero after the launch";
      if (!buffers.intact(workspace) || !buffers.intact(tickets)) {
        problem = "it wrote beyond its workspace";
      }
    }
    report.add(
        selftest::Sort::Attention, c,
        {v.name, c.type, data.out.error(result), data.out.bound, selected(v, c, best), problem});
  }
}

}  // namespace skald::cuda
