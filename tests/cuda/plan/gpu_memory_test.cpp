// Memory plans for GPUs. Needs no GPU.
#include <algorithm>

#include "cuda/cuda.h"
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/attention_split.h"
#include "cuda/plan/sizes.h"
#include "models/random/random.h"
#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

cuda::DeviceInfo gpu_with(int64_t gibibytes) {
  cuda::DeviceInfo gpu;
  gpu.compute_capability = 90;
  gpu.multiprocessors = 132;
  gpu.total_bytes = gpu.free_bytes = gibibytes << 30;
  return gpu;
}

cuda::SizeOptions some_sizes() {
  cuda::SizeOptions options;
  options.rows = 512;
  options.context = 4096;
  options.multiprocessors = 132;
  options.attention = cuda::AttentionCode::Wgmma;
  return options;
}

}  // namespace

TEST_CASE("the buffers' sizes follow from the model's shape") {
  const Model model = shape_model("llama-3.2-1b", "bf16");
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  CHECK(fused.type == DType::BF16);
  CHECK(fused.ops.size() == 1 + 16 * 5 + 1);
  CHECK(fused.specs.size() == 1);
  cuda::SizeOptions options = some_sizes();
  options.sequences = 3;
  const cuda::Sizes sizes(fused, options);
  // Keys and values of 8 heads of 64 in f16, for 16 layers and 64 tokens.
  CHECK(sizes.page == int64_t{2} * 8 * 64 * 2 * 16 * 64);
  CHECK(sizes.pages == 64 * 3);
  CHECK(sizes.kv_offsets.size() == 16);
  CHECK(sizes.kv_offsets[1] == sizes.page / 16);
  CHECK(sizes.pairs == int64_t{512} * 2 * 8192 * 2);
  CHECK(sizes.wanted == int64_t{512} * 2048 * 4);
  CHECK(sizes.logit_rows == 64);
  CHECK(sizes.graph_rows == 64);
  CHECK(sizes.logits == int64_t{64} * 128256 * 4);
  CHECK(sizes.acts[static_cast<size_t>(fused.hidden)] == int64_t{512} * 2048 * 4);
  CHECK(sizes.acts[static_cast<size_t>(fused.qkv)] == int64_t{512} * (32 + 2 * 8) * 64 * 2);
  // The head shares the embedding's weights: the bytes of the file and some padding.
  CHECK(sizes.placement.device >= model.weights->bytes());
  CHECK(sizes.placement.device <= model.weights->bytes() + 256 * 200);
}

TEST_CASE("a decode step has logits for every row, up to the largest step with a graph") {
  const cuda::FusedProgram fused = cuda::fuse_program(shape_model("smollm2-135m", "f16").program());
  const auto rows = [&](int sequences, int64_t rows_in_step) {
    cuda::SizeOptions options = some_sizes();
    options.sequences = sequences;
    options.rows = rows_in_step;
    const cuda::Sizes sizes(fused, options);
    CHECK(sizes.logits == sizes.logit_rows * 49152 * 4);
    return std::pair(sizes.logit_rows, sizes.graph_rows);
  };
  CHECK(rows(1, 512) == std::pair(int64_t{64}, 64));
  CHECK(rows(100, 512) == std::pair(int64_t{100}, 100));
  CHECK(rows(1000, 512) == std::pair(int64_t{256}, 256));
  CHECK(rows(1000, 32) == std::pair(int64_t{256}, 32));
}

TEST_CASE("scoring gets logits for more rows, in at most 512 MiB for any context") {
  const auto sizes = [](const char* shape, int64_t rows) {
    cuda::SizeOptions options = some_sizes();
    options.rows = rows;
    options.scores = true;
    return cuda::Sizes(cuda::fuse_program(shape_model(shape, "bf16").program()), options);
  };
  CHECK(sizes("llama-3.1-8b", 8192).logit_rows == 512);
  CHECK(sizes("llama-3.1-8b", 8192).graph_rows == 64);
  CHECK(sizes("llama-3.1-8b", 100).logit_rows == 100);
  CHECK(sizes("llama-3.1-8b", 8192).logits <= int64_t{512} << 20);

  RunOptions options;
  options.context = 32768;
  options.rows = 8192;
  options.scores = true;
  const MemoryPlan plan =
      cuda::plan_memory(shape_model("llama-3.1-8b", "bf16"), options, gpu_with(140));
  int64_t others = 0;
  for (const MemoryPart& part : plan.parts) {
    if (part.name != "weights" && part.name != "cache") others += part.bytes;
  }
  CHECK(others < int64_t{4'000'000'000});
}

TEST_CASE("the lists of a step do not overlap") {
  const cuda::FusedProgram fused = cuda::fuse_program(shape_model("mistral-7b", "f16").program());
  for (const int64_t rows : {1, 7, 512, 65536}) {
    for (const int sequences : {1, 64, 1000}) {
      cuda::SizeOptions options = some_sizes();
      options.rows = rows;
      options.sequences = sequences;
      const cuda::StepLayout step = cuda::Sizes(fused, options).step;
      CAPTURE(rows, sequences);
      CHECK(step.tokens == 0);
      CHECK(step.positions >= step.tokens + rows * 4);
      CHECK(step.sequences >= step.positions + rows * 4);
      CHECK(step.wanted >= step.sequences + rows * 4);
      CHECK(step.tiles.at(0) >= step.wanted + rows * 4);
      const int bound = cuda::attention_tiles_bound(static_cast<int>(rows), static_cast<int>(rows),
                                                    fused.specs[0], options.attention);
      CHECK(step.page_table >= step.tiles[0] + bound * int64_t{sizeof(cuda::AttentionTile)});
      CHECK(step.pages == 64);
      CHECK(step.most_sequences == std::min<int64_t>(std::max(sequences, 64), rows));
      CHECK(step.bytes >= step.page_table + step.most_sequences * step.pages * 4);
    }
  }
}

TEST_CASE("layers with different attention share the largest buffers, and each has its own tiles") {
  cuda::FusedProgram fused = cuda::fuse_program(shape_model("llama-3.2-1b", "bf16").program());
  const cuda::SizeOptions options = some_sizes();
  const cuda::Sizes one(fused, options);
  AttentionSpec wide = fused.specs[0];
  wide.head_dim = 256;
  // First in the list, so that the largest is not the last.
  fused.specs.insert(fused.specs.begin(), wide);
  const cuda::Sizes two(fused, options);
  CHECK(two.attention == 4 * one.attention);
  CHECK(two.tickets == one.tickets);
  CHECK(two.step.tiles.size() == 2);
  CHECK(two.step.tiles[1] > two.step.tiles[0]);
  CHECK(two.acts[static_cast<size_t>(fused.qkv)] == 4 * one.acts[static_cast<size_t>(fused.qkv)]);
  CHECK(fused.spec_index(wide) == 0);
}

TEST_CASE("a step has at most the bounded number of tiles, for any mix of sequences") {
  const AttentionSpec spec = {.heads = 32, .kv_heads = 8, .head_dim = 128};
  for (const auto code : {cuda::AttentionCode::Mma, cuda::AttentionCode::Wgmma}) {
    for (const int each : {1, 2, 31, 32, 33, 48, 100, 512}) {
      std::vector<int32_t> positions, sequences;
      for (int row = 0; row < 512; ++row) {
        positions.push_back(1000 + row % each);
        sequences.push_back(row / each);
      }
      const int count = sequences.back() + 1;
      const int bound = cuda::attention_tiles_bound(512, count, spec, code);
      std::vector<cuda::AttentionTile> tiles(512);
      const int built =
          cuda::build_attention_tiles({positions, sequences, spec, code}, tiles.data());
      CAPTURE(static_cast<int>(code), each);
      CHECK(built <= bound);
      int rows = 0;
      for (int i = 0; i < built; ++i) {
        rows += tiles[static_cast<size_t>(i)].rows;
        CHECK(tiles[static_cast<size_t>(i)].rows <= cuda::rows_per_tile(spec, code));
      }
      CHECK(rows == 512);
    }
  }
}

TEST_CASE("tiles cut by page cover each row once and stay within a page") {
  const AttentionSpec spec = {.heads = 32, .kv_heads = 8, .head_dim = 128};
  for (const auto code : {cuda::AttentionCode::Mma, cuda::AttentionCode::Wgmma}) {
    std::vector<int32_t> positions, sequences;
    for (int row = 0; row < 500; ++row) {
      positions.push_back(row < 300 ? 37 + row : row - 300);
      sequences.push_back(row < 300 ? 0 : 1);
    }
    std::vector<cuda::AttentionTile> tiles(500);
    const int built =
        cuda::build_attention_tiles({positions, sequences, spec, code, true}, tiles.data());
    std::vector<int> seen(500);
    for (int i = 0; i < built; ++i) {
      const cuda::AttentionTile& tile = tiles[static_cast<size_t>(i)];
      const auto page = [&](int row) { return positions[static_cast<size_t>(row)] / kPageTokens; };
      CHECK(page(tile.row) == page(tile.row + tile.rows - 1));
      for (int row = tile.row; row < tile.row + tile.rows; ++row) ++seen[static_cast<size_t>(row)];
    }
    CHECK(std::count(seen.begin(), seen.end(), 1) == 500);
  }
}

TEST_CASE("no part of a GPU's plan shrinks as the context grows") {
  const Model model = shape_model("llama-3.1-8b", "bf16");
  std::vector<MemoryPart> before;
  for (int64_t context = 64; context <= 131072; context += 64 * 61) {
    RunOptions options;
    options.context = context;
    options.sequences = 8;
    const MemoryPlan plan = cuda::plan_memory(model, options, gpu_with(1000));
    for (size_t i = 0; i < before.size(); ++i) {
      CAPTURE(context, plan.parts[i].name);
      CHECK(plan.parts[i].bytes >= before[i].bytes);
    }
    before = plan.parts;
  }
}

TEST_CASE("the attention code follows from the type and the architecture") {
  const auto code = cuda::attention_code_of;
  CHECK(code(DType::F32, 90) == cuda::AttentionCode::Plain);
  CHECK(code(DType::BF16, 75) == cuda::AttentionCode::Plain);
  CHECK(code(DType::BF16, 80) == cuda::AttentionCode::Mma);
  CHECK(code(DType::F16, 89) == cuda::AttentionCode::Mma);
  CHECK(code(DType::F16, 90) == cuda::AttentionCode::Wgmma);
  CHECK(code(DType::F16, 100) == cuda::AttentionCode::Mma);
}

TEST_CASE("a GPU's cache has types of its own, if not those of the activations") {
  const Model model = shape_model("llama-3.2-1b", "bf16");
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  cuda::SizeOptions sizes = some_sizes();
  const int64_t page = cuda::Sizes(fused, sizes).page;
  CHECK(cuda::Sizes(fused, sizes).cache_types == cache_types_of(DType::BF16));
  sizes.cache_types = {CacheType::F32, CacheType::F32};
  CHECK(cuda::Sizes(fused, sizes).page == 2 * page);
  CHECK(cuda::Sizes(fused, sizes).cache_types == cache_types_of(DType::F32));
  sizes.cache_types = {CacheType::Q8_0, {}};
  CHECK(cuda::Sizes(fused, sizes).page == page / 2 + page / 4 + page / 64);
  CHECK(cuda::Sizes(fused, sizes).cache_types == CacheTypes{CacheType::Q8_0, CacheType::BF16});

  RunOptions options;
  options.cache_types = {CacheType::BF16, {}};
  CHECK(cuda::plan_memory(model, options, gpu_with(100)).needed() ==
        cuda::plan_memory(model, {}, gpu_with(100)).needed());
  // Codes take less, but for the plain cache of a layer.
  options.cache_types = {CacheType::Q8_0, CacheType::Q8_0};
  options.context = 32768;
  RunOptions usual;
  usual.context = 32768;
  CHECK(cuda::plan_memory(model, options, gpu_with(100)).needed() <
        cuda::plan_memory(model, usual, gpu_with(100)).needed());
}

TEST_CASE("a context beyond 32 bits is refused on a GPU") {
  RunOptions options;
  options.context = int64_t{1} << 31;
  const Model model = shape_model("smollm2-135m", "f16");
  CHECK(has(error_text([&] { cuda::plan_memory(model, options, gpu_with(1 << 20)); }, Exit::Usage),
            "-c 2147483648"));
}

TEST_CASE("by default a step is as long as memory and cache allow") {
  const Model model = shape_model("llama-3.1-8b", "bf16");
  const auto rows = [&](int64_t gibibytes, int64_t context, int sequences, int64_t cap) {
    RunOptions options;
    options.rows = 0;
    options.context = context;
    options.sequences = sequences;
    options.memory.bytes = cap;
    return cuda::default_rows(model, options, gpu_with(gibibytes));
  };
  CHECK(rows(141, 0, 1, 0) == 8192);
  CHECK(rows(141, 8192, 1, 0) == 8192);
  CHECK(rows(141, 500, 1, 0) == 512);  // whole pages of the cache
  CHECK(rows(141, 500, 4, 0) == 2048);
  CHECK(rows(17, 0, 1, 0) < 8192);
  CHECK(rows(141, 0, 1, int64_t{17} << 30) == rows(17, 0, 1, 0));
  CHECK(rows(8, 0, 1, 0) == 2048);  // with weights in the host's memory
  CHECK(rows(1, 0, 1, 0) == 512);   // does not fit either; make_plan reports it
}

}  // namespace skald::test
