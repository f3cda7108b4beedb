#include "cuda/plan/tile_pack.h"

#include <cstring>

#include "cuda/kernels/tiles/formats.h"
#include "engine/base/error.h"

namespace skald::cuda {

void pack_tile_group(DType type, int64_t ins, const GroupRow& row, std::byte* group) {
  const bool known =
      tiles::dispatch_blocks(type, [&]<class F, class Block>(tiles::Packed<F, Block>) {
        const auto rows = [&](int r) { return reinterpret_cast<const Block*>(row(r)); };
        const int64_t blocks = ins / Block::kElems;
        for (int64_t first = 0; first < blocks; first += F::kRecordCols / Block::kElems) {
          const tiles::BlockSource source(rows, blocks, first);
          for (int i = 0; i < F::kRecordBytes / 4; ++i) {
            const uint32_t word = F::word(source, i);
            std::memcpy(group + i * 4, &word, 4);
          }
          group += F::kRecordBytes;
        }
      });
  check(known, "only block formats are packed in tiles");
}

void pack_tiles(const TensorView& matrix, std::byte* tiles) {
  for (int64_t first = 0; first < matrix.rows; first += tiles::kRows) {
    const auto row = [&](int i) {
      return first + i < matrix.rows ? matrix.row(first + i) : nullptr;
    };
    pack_tile_group(matrix.type, matrix.cols, row, tiles);
    tiles += tile_group_bytes(matrix.type, matrix.cols);
  }
}

}  // namespace skald::cuda
