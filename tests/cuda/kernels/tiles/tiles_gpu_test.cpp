// Quantized matrices in GPU memory: they are packed as the host packs them, and every weight is,
// bit for bit, what decode() makes of its block.
#include <bit>
#include <cstring>
#include <thread>
#include <vector>

#include "cuda/gpu/check.h"
#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/tiles/tiles.h"
#include "cuda/plan/tile_pack.h"
#include "engine/base/error.h"
#include "engine/selftest/random_blocks.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

using cuda::DeviceMemory;

// Random blocks. The first ones are copies of one block, each with another bit flipped, so that
// each bit of a block is flipped once.
std::vector<std::byte> random_rows(DType type, int64_t blocks, std::mt19937& random) {
  const int64_t size = info(type).block_bytes;
  std::vector<std::byte> bytes(static_cast<size_t>(blocks * size));
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const auto word = static_cast<uint32_t>(random());
    std::memcpy(bytes.data() + i, &word, 4);
  }
  for (int64_t i = 0; i < blocks; ++i) {
    selftest::set_scales(type, bytes.data() + i * size, random);
  }
  for (int64_t bit = 0; bit < size * 8 && bit + 1 < blocks; ++bit) {
    std::byte* block = bytes.data() + (bit + 1) * size;
    std::memcpy(block, bytes.data(), static_cast<size_t>(size));
    block[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  return bytes;
}

// Checks one matrix. Returns the first problem, or an empty text.
std::string problem_of(DType type, int64_t outs, int64_t ins, std::mt19937& random) {
  const int64_t elems = info(type).block_elems, row_bytes = skald::row_bytes(type, ins);
  const std::vector<std::byte> blocks = random_rows(type, outs * ins / elems, random);
  const TensorView matrix{blocks.data(), type, outs, ins, row_bytes};
  const int64_t bytes = cuda::tile_bytes(type, outs, ins);
  const cuda::StreamOwner stream;
  const DeviceMemory rows(std::ssize(blocks), "a test"), tiles(bytes, "a test");
  const DeviceMemory tokens(outs * 4, "a test"), values(outs * ins * 4, "a test");
  SKALD_CUDA(cudaMemcpy(rows.as<void>(), blocks.data(), blocks.size(), cudaMemcpyHostToDevice));
  std::vector<int32_t> all(static_cast<size_t>(outs));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  SKALD_CUDA(cudaMemcpy(tokens.as<void>(), all.data(), all.size() * 4, cudaMemcpyHostToDevice));
  cuda::launch_pack_tiles({type, rows.as<void>(), outs, ins, tiles.as<void>()}, stream);
  cuda::launch_embed_q({type, tiles.as<void>(), tokens.as<int32_t>(), values.as<float>(),
                        static_cast<int>(outs), ins},
                       stream);
  SKALD_CUDA(cudaStreamSynchronize(stream));

  std::vector<std::byte> packed(static_cast<size_t>(bytes)), expected(packed.size());
  SKALD_CUDA(cudaMemcpy(packed.data(), tiles.as<void>(), packed.size(), cudaMemcpyDeviceToHost));
  cuda::pack_tiles(matrix, expected.data());
  if (packed != expected) return concat(name(type), " ", outs, " x ", ins, ": packed otherwise");

  std::vector<float> row(static_cast<size_t>(ins)), got(static_cast<size_t>(outs * ins));
  SKALD_CUDA(cudaMemcpy(got.data(), values.as<void>(), got.size() * 4, cudaMemcpyDeviceToHost));
  for (int64_t r = 0; r < outs; ++r) {
    info(type).decode_row(matrix.row(r), row.data(), ins);
    for (int64_t c = 0; c < ins; ++c) {
      const float is = got[static_cast<size_t>(r * ins + c)], should = row[static_cast<size_t>(c)];
      const bool same = std::bit_cast<uint32_t>(is) == std::bit_cast<uint32_t>(should) ||
                        (is != is && should != should);
      if (!same) {
        return concat(name(type), " ", outs, " x ", ins, ": row ", r, ", column ", c, " is ", is,
                      " instead of ", should);
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("every weight of a quantized matrix on the GPU is what its block decodes to") {
  std::vector<DType> types;
  for (const DTypeInfo& each : all_dtypes()) {
    if (each.block_elems > 1) types.push_back(each.type);
  }
  std::vector<std::string> problems(types.size());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < types.size(); ++i) {
      threads.emplace_back([&, i] {
        std::mt19937 random(static_cast<unsigned>(i));
        const int64_t elems = info(types[i]).block_elems;
        // A million blocks, then shapes with incomplete groups and records.
        for (int part = 0; part < 10 && problems[i].empty(); ++part) {
          problems[i] = problem_of(types[i], 1000, 100 * elems, random);
        }
        for (const auto& [outs, blocks] : {std::pair{1, 1}, {37, 3}, {16, 9}}) {
          if (problems[i].empty()) problems[i] = problem_of(types[i], outs, blocks * elems, random);
        }
      });
    }
  }
  CHECK(types.size() >= 14);
  for (const std::string& problem : problems) CHECK(problem == "");
}

}  // namespace skald::test
