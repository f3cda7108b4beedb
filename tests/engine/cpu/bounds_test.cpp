// No kernel touches a byte outside its operands, with any instruction set, at sizes that no vector
// divides.
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/memory/cache_layout.h"
#include "engine/memory/kv_pages.h"
#include "engine/quant/cache_row.h"
#include "tests/catch.h"
#include "tests/engine/cpu/fenced.h"
#include "tests/engine/cpu/random_weights.h"
#include "tests/engine/cpu/targets.h"

namespace skald::test {
namespace {

using namespace cpu;

// Calls fn for each instruction set, with operands that have a fence before or behind them.
template <class Fn>
void for_each_fence(const Fn& fn) {
  for_each_target([&] {
    for (Fence fence : {Fence::Before, Fence::Behind}) fn(fence);
  });
}

std::unique_ptr<Kernels> kernels_for(int64_t rows, int64_t cols, bool exact = false) {
  KernelOptions options{exact, 1, rows, cols};
  options.experts = {4, 2, cols, cols};
  return fast_kernels(options);
}

TensorView fenced(Fenced& memory, const RandomWeights& weights) {
  TensorView view = weights.view;
  view.data = memory.bytes({view.data, static_cast<size_t>(view.rows * view.row_bytes)});
  return view;
}

std::vector<int64_t> awkward_cols(const DTypeInfo& format) {
  if (format.block_elems == 1) return {1, 31, 100, 1100};
  return {format.block_elems, 3 * format.block_elems};
}

}  // namespace

TEST_CASE("products and embeddings stay inside their operands") {
  for_each_fence([](Fence fence) {
    for (const DTypeInfo& format : all_dtypes()) {
      for (int64_t cols : awkward_cols(format)) {
        for (int64_t outs : {1, 31, 50}) {
          const RandomWeights weights(format.type, outs, cols, 3);
          for (bool exact : {false, true}) {
            const auto kernels = kernels_for(7, cols, exact);
            for (int64_t rows : {1, 7}) {
              Fenced memory(fence);
              float* in = memory.copy(random_floats(rows * cols, 9));
              kernels->linear({fenced(memory, weights), memory.floats(outs), in,
                               memory.floats(rows * outs), rows});
            }
          }
          Fenced memory(fence);
          const std::vector<int32_t> tokens = {static_cast<int32_t>(outs - 1), 0};
          kernels_for(2, cols)->embed(
              {fenced(memory, weights), memory.copy(tokens), memory.floats(2 * cols), 2});
        }
      }
    }
  });
  SUCCEED();
}

TEST_CASE("routed experts stay inside their operands") {
  for_each_fence([](Fence fence) {
    for (DType type : {DType::F32, DType::BF16, DType::Q4_K, DType::Q8_0}) {
      constexpr int64_t kDim = 256, kRows = 5;
      constexpr int kCount = 4;
      const RandomWeights router(DType::F32, kCount, kDim, 1), expert(type, kDim, kDim, 2);
      Fenced memory(fence);
      ExpertsArgs args{};
      const std::vector<Weight> matrices(kCount, Weight{"", fenced(memory, expert)});
      args.router = fenced(memory, router);
      args.gate = args.up = args.down = matrices.data();
      args.in = memory.copy(random_floats(kRows * kDim, 3));
      args.out = memory.floats(kRows * kDim);
      args.rows = kRows;
      args.spec = {.count = kCount, .used = 2};
      args.router_bias = memory.floats(kCount);
      args.gate_bias = args.up_bias = args.down_bias = memory.floats(kCount * kDim);
      kernels_for(kRows, kDim)->experts(args);
    }
  });
  SUCCEED();
}

TEST_CASE("attention stays inside its operands and the cache's pages") {
  for_each_fence([](Fence fence) {
    for (const CacheType type : all_cache_types()) {
      for (int head_dim : {1, 31, 64, 100}) {
        if (has_scales(type) && head_dim % kCacheBlock != 0) continue;
        const AttentionSpec spec{.heads = 4, .kv_heads = 2, .head_dim = head_dim, .window = 3};
        constexpr int64_t kRows = kPageTokens + 3;
        const int64_t cols = 4 * head_dim;
        const int64_t page = LayerCache({type, type}, spec.kv_heads, head_dim).bytes();
        const std::vector<int32_t> pages = {0, 1};
        std::vector<AttentionRow> at;
        for (int64_t t = 0; t < kRows; ++t) at.push_back({pages, t});
        Fenced memory(fence);
        std::byte* cache = memory.copy(std::vector<std::byte>(static_cast<size_t>(2 * page)));
        AttentionArgs args{};
        args.q = memory.copy(random_floats(kRows * cols, 1));
        args.k = memory.copy(random_floats(kRows * cols / 2, 2));
        args.v = memory.copy(random_floats(kRows * cols / 2, 3));
        args.out = memory.floats(kRows * cols);
        args.at = at.data();
        args.rows = kRows;
        args.cache = {cache, page, {type, type}};
        args.spec = spec;
        args.sinks = memory.floats(spec.heads);
        kernels_for(kRows, cols)->attention(args);
      }
    }
  });
  SUCCEED();
}

TEST_CASE("ops on rows stay inside their operands") {
  for_each_fence([](Fence fence) {
    for (int64_t cols : {1, 15, 33, 100}) {
      constexpr int64_t kRows = 3;
      const int64_t count = kRows * cols;
      const auto kernels = kernels_for(kRows, cols);
      Fenced memory(fence);
      const float* in = memory.copy(random_floats(count, 1));
      const float* weight = memory.floats(cols);
      float* out = memory.floats(count);
      kernels->rms_norm({in, weight, out, kRows, cols, 1e-5f});
      kernels->rms_norm({in, nullptr, out, kRows, cols, 1e-5f});
      kernels->layer_norm({in, weight, weight, out, kRows, cols, 1e-5f});
      for (Activation activation : {Activation::Silu, Activation::GeluTanh}) {
        kernels->gated_act({in, in, out, count, activation});
        kernels->activate({in, out, count, activation});
      }
      kernels->row_gate({out, in, weight, kRows, cols, cols});
      kernels->add({out, in, count, 0.5f, 2});
      kernels->cap({out, count, 0.5f, 30});
      (void)kernels->read_all(std::as_bytes(std::span(in, static_cast<size_t>(count))));

      const std::vector<int64_t> positions = {0, 5, 900};
      RopeSpec rope;
      rope.inv_freq.assign(static_cast<size_t>(cols), 0.5f);
      for (bool interleaved : {false, true}) {
        rope.interleaved = interleaved;
        float* heads = memory.floats(kRows * 2 * 2 * cols);
        kernels->rope({heads, memory.copy(positions), &rope, kRows, 2, static_cast<int>(2 * cols)});
      }
    }
  });
  SUCCEED();
}

TEST_CASE("ops with a state stay inside their operands") {
  for_each_fence([](Fence fence) {
    for (int width : {1, 15, 33, 64}) {
      constexpr int64_t kRows = 5;
      constexpr int kTaps = 4;
      const auto kernels = kernels_for(kRows, width);
      Fenced memory(fence);
      std::vector<StateRow> at;
      float* window = memory.floats((kTaps - 1) * width);
      for (int64_t t = 0; t < kRows; ++t) at.push_back({window, t + 1});
      kernels->causal_conv({memory.floats(kRows * width), memory.floats(int64_t{width} * kTaps),
                            memory.floats(kRows * width), at.data(), kRows, width, kTaps});

      const DeltaSpec spec{.key_heads = 1, .value_heads = 2, .key_dim = width, .value_dim = width};
      float* state = memory.floats(spec.state_floats());
      for (StateRow& row : at) row.state = state;
      float* gates = memory.floats(kRows * spec.value_heads);
      float* rates = memory.floats(spec.value_heads);
      kernels->delta_net({memory.floats(kRows * (2 * spec.keys() + spec.values())), gates, gates,
                          rates, rates, memory.floats(kRows * spec.values()), at.data(), kRows,
                          spec});

      const SpaceSpec space{.heads = 2, .head_dim = width, .groups = 1, .state_dim = width};
      float* matrix = memory.floats(space.state_floats());
      for (StateRow& row : at) row.state = matrix;
      float* numbers = memory.floats(space.heads);
      kernels->state_space({memory.floats(kRows * space.inputs()),
                            memory.floats(kRows * space.heads), numbers, numbers, numbers,
                            memory.floats(kRows * space.values()), at.data(), kRows, space});
    }
  });
  SUCCEED();
}

}  // namespace skald::test
