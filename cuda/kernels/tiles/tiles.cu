// Packs rows of blocks into tiles, and reads embeddings from tiles. pack_tiles: a thread makes one
// word (8 codes or a few scales) with the same functions as the host (tile_pack.h). It reads and
// writes each byte once, far faster than the link delivers the weights. embed_q: a thread makes one
// number. If it made several, it would make them one after the other, which takes longer.
#include "cuda/kernels/tiles/tiles.h"

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/tiles/formats.h"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kThreads = 256;

template <class F, class Block>
__global__ void pack_tiles(PackLaunch a, int records, int64_t words) {
  constexpr int kWords = F::kRecordBytes / 4, kBlocks = F::kRecordCols / Block::kElems;
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= words) return;
  const int64_t record = at / kWords, group = record / records;
  const int64_t first = (record - group * records) * kBlocks, blocks = a.ins / Block::kElems;
  const auto rows = [&](int r) -> const Block* {
    const int64_t row = group * tiles::kRows + r;
    return row < a.outs ? static_cast<const Block*>(a.rows) + row * blocks : nullptr;
  };
  const tiles::BlockSource source(rows, blocks, first);
  static_cast<uint32_t*>(a.tiles)[at] = F::word(source, static_cast<int>(at - record * kWords));
}

template <class F>
__global__ void embed_q(EmbedLaunch a) {
  wait_for_kernel_ahead();  // in this order for the reason given in embed()
  let_next_kernel_start();
  const int64_t row = a.tokens[blockIdx.x], records = (a.dim + F::kRecordCols - 1) / F::kRecordCols;
  const auto* group = static_cast<const std::byte*>(a.weight) +
                      row / tiles::kRows * records * int64_t{F::kRecordBytes};
  const int i = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= a.dim) return;
  a.x[blockIdx.x * a.dim + i] =
      a.scale * F::value(group + i / F::kRecordCols * int64_t{F::kRecordBytes},
                         static_cast<int>(row % tiles::kRows), i % F::kRecordCols);
}

}  // namespace

void launch_pack_tiles(const PackLaunch& a, Stream stream) {
  const bool known = tiles::dispatch_blocks(a.format, [&]<class F, class B>(tiles::Packed<F, B>) {
    const int64_t records = (a.ins + F::kRecordCols - 1) / F::kRecordCols;
    const int64_t groups = (a.outs + tiles::kRows - 1) / tiles::kRows;
    const int64_t words = groups * records * (F::kRecordBytes / 4);
    const auto blocks = static_cast<unsigned>((words + kThreads - 1) / kThreads);
    launch_kernel(pack_tiles<F, B>, {dim3(blocks), kThreads}, stream, a, static_cast<int>(records),
                  words);
  });
  check(known, "only block formats are packed");
}

void launch_embed_q(const EmbedLaunch& a, Stream stream) {
  const auto blocks = static_cast<unsigned>((a.dim + kThreads - 1) / kThreads);
  const bool known = tiles::dispatch(a.type, [&](auto f) {
    launch_kernel(embed_q<decltype(f)>, {dim3(a.rows, blocks), kThreads, 0, a.dependent}, stream,
                  a);
  });
  check(known, "launch_embed() has the plain types");
}

}  // namespace skald::cuda
