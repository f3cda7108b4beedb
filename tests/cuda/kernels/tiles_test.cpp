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

template <class F, class Block>
void compare(DType type, int rows, int cols, std::mt19937& random) {
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
    const auto row_of = [&](int row) -> const Block* {
      return row < rows ? blocks[row].data() : nullptr;
    };
    const BlockSource source(row_of, cols / Block::kElems, k * F::kRecordCols / Block::kElems);
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
    const bool blocks = dispatch_blocks(each.type, [&]<class F, class B>(Packed<F, B>) {
      for (int i = 0; i < 20; ++i) compare<F, B>(each.type, kRows, 2 * F::kRecordCols, random);
      compare<F, B>(each.type, 5, B::kElems, random);
    });
    CHECK(blocks == (each.block_elems > 1));
  }
}

// The formats whose tiles need no grid have 4.32 bits per weight, or 3.6 with numbers of three
// bits.
double most_bits(DType type) {
  switch (type) {
    case DType::IQ3_S:
    case DType::IQ3_XXS:
      return 4.32;
    case DType::IQ2_XXS:
    case DType::IQ2_XS:
    case DType::IQ2_S:
    case DType::IQ1_S:
    case DType::IQ1_M:
    case DType::TQ1_0:
    case DType::TQ2_0:
      return 3.6;
    default:
      return 1.04 * 8 * info(type).block_bytes / info(type).block_elems;
  }
}

TEST_CASE("a tile is at most 4 % larger than its blocks, and of known size without their grid",
          "[tiles]") {
  for (const DTypeInfo& each : all_dtypes()) {
    dispatch(each.type, [&](auto format) {
      using F = decltype(format);
      INFO(each.name << ": " << F::kRecordBytes << " bytes");
      CHECK(F::kRecordBytes * 8.0 / (kRows * F::kRecordCols) <= most_bits(each.type));
    });
  }
}

TEST_CASE("formats with the same codes, scales and numbers have the same tiles", "[tiles]") {
  CHECK(std::is_same_v<IQ2_XXS, TQ2_0>);
  CHECK(std::is_same_v<IQ2_S, IQ1_M>);
  CHECK(!std::is_same_v<IQ3_S, IQ3_XXS>);
}

}  // namespace
}  // namespace skald::tiles
