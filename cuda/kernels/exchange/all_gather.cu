// all_gather, all_gather_few: they send as all_reduce.cu does, but store the numbers that arrive
// instead of adding them. Floor: rows * own columns * 4 bytes at the links' rate, and the same
// bytes again at the memory's.
#include "cuda/kernels/exchange/all_gather.h"

#include <algorithm>

#include "cuda/kernels/exchange/mail.cuh"

namespace skald::cuda {
namespace {

// Numbers are counted as if each rank had as many columns as the one that has most, rounded up to
// `unit`. So all ranks count alike, and a number's place is the same in all mail.
int64_t padded_cols(const AllGatherLaunch& a, int64_t unit) {
  int64_t most = 0;
  for (int rank = 0; rank < a.mail.ranks; ++rank) most = std::max(most, a.cols(rank));
  return (most + unit - 1) / unit * unit;
}

struct Place {
  int64_t row, col;
  __device__ Place(int64_t number, int64_t padded) : row(number / padded), col(number % padded) {}
};

__global__ void __launch_bounds__(MailLayout::kFewThreads)
    all_gather_few(__grid_constant__ const AllGatherLaunch a, int64_t padded) {
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const MailLinks& mail = a.mail;
  const PairRoute route(mail);
  const Place at(route.pair() * 2, padded);
  if (at.row < a.rows) {
    const auto store = [&](int rank, float2 two) {
      float* const out = a.out + at.row * a.first[mail.ranks] + a.first[rank] + at.col;
      const int64_t left = a.first[rank + 1] - a.first[rank] - at.col;
      if (left > 0) out[0] = two.x;
      if (left > 1) out[1] = two.y;
    };
    const int64_t cols = a.first[mail.rank + 1] - a.first[mail.rank];
    const float* const in = a.in + at.row * cols + at.col;
    const float2 own = {at.col < cols ? in[0] : 0, at.col + 1 < cols ? in[1] : 0};
    route.send(own);
    store(mail.rank, own);
    for (int rank = 0; rank < mail.ranks; ++rank) {
      if (rank != mail.rank) store(rank, route.receive(rank));
    }
  }
  route.end();
}

__device__ inline float4 load_columns(const float* from, int64_t left) {
  float4 value = {};
  float* const numbers = &value.x;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < left) numbers[i] = from[i];
  }
  return value;
}

__device__ inline void store_columns(float* to, float4 value, int64_t left) {
  const float* const numbers = &value.x;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < left) to[i] = numbers[i];
  }
}

// share: how many numbers a block sends in a letter. Rows and parts may begin at any number, so
// only the mail is read and written in words of 16 bytes.
__global__ void __launch_bounds__(kMailThreads, 2)
    all_gather(__grid_constant__ const AllGatherLaunch a, int64_t padded, int share) {
  let_next_kernel_start();
  wait_for_kernel_ahead();
  constexpr int kWords = static_cast<int>(MailLayout::kBlockFloats) / 4 / kMailThreads;
  const MailLinks& mail = a.mail;
  MailRoute route(mail);
  const int64_t count = a.rows * padded;
  for (int64_t first = int64_t{blockIdx.x} * share; first < count;
       first += int64_t{gridDim.x} * share) {
    route.next_letter();
    const int64_t end = min(first + share, count);
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int word = (i * kMailThreads + static_cast<int>(threadIdx.x)) * 4;
      if (first + word >= end) continue;
      const Place at(first + word, padded);
      const auto columns = [&](int rank) { return a.first[rank + 1] - a.first[rank]; };
      const int64_t left = columns(mail.rank) - at.col;
      const float4 own = load_columns(a.in + at.row * columns(mail.rank) + at.col, left);
      store_columns(a.out + at.row * a.first[mail.ranks] + a.first[mail.rank] + at.col, own, left);
      for (int hop = 1; hop < mail.ranks; ++hop) {
        float* const place = route.place((mail.rank + hop) % mail.ranks, mail.rank);
        *reinterpret_cast<float4*>(place + word) = own;
      }
    }
    route.exchange();
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int word = (i * kMailThreads + static_cast<int>(threadIdx.x)) * 4;
      if (first + word >= end) continue;
      const Place at(first + word, padded);
      for (int rank = 0; rank < mail.ranks; ++rank) {
        if (rank == mail.rank) continue;
        const float4 part =
            __ldcv(reinterpret_cast<const float4*>(route.place(mail.rank, rank) + word));
        store_columns(a.out + at.row * a.first[mail.ranks] + a.first[rank] + at.col, part,
                      a.first[rank + 1] - a.first[rank] - at.col);
      }
    }
  }
  route.end();
}

}  // namespace

void load_all_gather() {
  cudaFuncAttributes attributes;
  SKALD_CUDA(cudaFuncGetAttributes(&attributes, all_gather_few));
  SKALD_CUDA(cudaFuncGetAttributes(&attributes, all_gather));
}

void launch_all_gather(const AllGatherLaunch& a, Stream stream) {
  const int64_t pairs = padded_cols(a, 2);
  if (a.rows * pairs <= MailLayout::kFewFloats) {
    constexpr int64_t kEach = int64_t{2} * MailLayout::kFewThreads;
    const dim3 blocks(static_cast<unsigned>((a.rows * pairs + kEach - 1) / kEach));
    launch_kernel(all_gather_few, {blocks, MailLayout::kFewThreads, 0, a.dependent}, stream, a,
                  pairs);
    return;
  }
  const int64_t words = padded_cols(a, 4);
  const MailShares shares(a.rows * words, 4, MailLayout::kBlockFloats);
  const Grid grid = {dim3(static_cast<unsigned>(shares.blocks)), kMailThreads, 0, a.dependent};
  launch_kernel(all_gather, grid, stream, a, words, shares.share);
}

}  // namespace skald::cuda
