// Packing blocks into tiles loses nothing: every weight of a tile equals decode() of its block, bit
// for bit.
#include "cuda/kernels/tiles/formats.h"

#include <bit>
#include <cstring>
#include <vector>

#include "engine/selftest/random_blocks.h"
#include "tests/catch.h"

namespace skald::tiles {
namespace {

template <class F>
void compare(DType type, int rows, int cols, std::mt19937& random) {
  using Block = typename F::Block;
  std::vector<std::vector<Block>> blocks(rows, std::vector<Block>(cols / Block::kElems));
  for (auto& row : blocks) {
    for (Block& block : row) {
      std::byte bytes[sizeof(Block)];
      for (std::byte& b : bytes) b = static_cast<std::byte>(random());
      selftest::set_scales(type, bytes, random);
      std::memcpy(&block, bytes, sizeof block);
    }
  }
  const int records = (cols + F::kRecordCols - 1) / F::kRecordCols;
  std::vector<std::byte> record(F::kRecordBytes);
  for (int k = 0; k < records; ++k) {
    const auto source = [&](int row, int block) -> const Block* {
      const int at = k * F::kRecordCols / Block::kElems + block;
      return row < rows && at < cols / Block::kElems ? &blocks[row][at] : nullptr;
    };
    for (int i = 0; i < F::kRecordBytes / 4; ++i) {
      const uint32_t word = F::word(source, i);
      std::memcpy(record.data() + i * 4, &word, 4);
    }
    for (int row = 0; row < kRows; ++row) {
      for (int col = 0; col < F::kRecordCols; ++col) {
        const int at = k * F::kRecordCols + col;
        const float value = F::value(record.data(), row, col);
        if (row >= rows || at >= cols) {
          REQUIRE(value == 0);
          continue;
        }
        const float expected = decode(blocks[row][at / Block::kElems], at % Block::kElems);
        INFO(info(type).name << " row " << row << " column " << at);
        REQUIRE(std::bit_cast<uint32_t>(value) == std::bit_cast<uint32_t>(expected));
      }
    }
  }
}

TEST_CASE("every weight of a tile equals the decoded weight of its block", "[tiles]") {
  std::mt19937 random(7);
  for (const DTypeInfo& each : all_dtypes()) {
    const bool blocks = dispatch(each.type, [&](auto format) {
      using F = decltype(format);
      for (int i = 0; i < 20; ++i) compare<F>(each.type, kRows, 2 * F::kRecordCols, random);
      compare<F>(each.type, 5, F::Block::kElems, random);
    });
    CHECK(blocks == (each.block_elems > 1));
  }
}

TEST_CASE("a tile is at most 4 % larger than its blocks, IQ3_S 26 %", "[tiles]") {
  for (const DTypeInfo& each : all_dtypes()) {
    dispatch(each.type, [&](auto format) {
      using F = decltype(format);
      const double blocks = double{kRows} * F::kRecordCols / each.block_elems * each.block_bytes;
      INFO(each.name << ": " << F::kRecordBytes << " bytes for " << blocks);
      CHECK(F::kRecordBytes <= blocks * (each.type == DType::IQ3_S ? 1.26 : 1.04));
    });
  }
}

}  // namespace
}  // namespace skald::tiles
