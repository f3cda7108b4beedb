// How kernels write and read mail (mail.h).
#pragma once

#include <algorithm>

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/exchange/mail.h"

namespace skald::cuda {

// Between two looks at `aborted`, some 50 ms. It lies behind the host's link, where the reads of
// thousands of threads take 0.3 ms: that would make the other rank wait, and look too. `ended` is
// looked at once, after some 50 us.
inline constexpr int kSpins = 1 << 16, kFirstSpins = 1 << 6;

__device__ inline void raise_flag(uint32_t* flag, uint32_t letter) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(flag), "r"(letter) : "memory");
}

__device__ inline uint32_t look_at(const uint32_t* flag) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

// True if a wait that has looked `spins` times for its letter is to end without it.
__device__ inline bool gives_up(int spins, const MailLinks& mail) {
  if (spins == kFirstSpins) return look_at(mail.ended) != 0;
  if (spins % kSpins != 0 || look_at(mail.aborted) == 0) return false;
  *static_cast<volatile uint32_t*>(mail.ended) = 1;
  return true;
}

__device__ inline void wait_for(const uint32_t* flag, uint32_t letter, const MailLinks& mail) {
  // The sender may be one letter further.
  for (int spins = 1; static_cast<int>(look_at(flag) - letter) < 0; ++spins) {
    if (gives_up(spins, mail)) return;
  }
}

// Four numbers, or the `left` ones that there are, and zeros.
__device__ inline float4 load_four(const float* from, int64_t left) {
  if (left >= 4) return *reinterpret_cast<const float4*>(from);
  float4 value = {};
  float* const numbers = &value.x;
  for (int i = 0; i < left; ++i) numbers[i] = from[i];
  return value;
}

__device__ inline void store_four(float* to, float4 value, int64_t left) {
  if (left >= 4) {
    *reinterpret_cast<float4*>(to) = value;
    return;
  }
  const float* const numbers = &value.x;
  for (int i = 0; i < left; ++i) to[i] = numbers[i];
}

__device__ inline void send_pair(MailPair* to, float2 pair, uint32_t letter) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(__float_as_uint(pair.x)), "r"(letter), "r"(__float_as_uint(pair.y)),
                 "r"(letter)
               : "memory");
}

__device__ inline float2 receive_pair(const MailPair* from, uint32_t letter,
                                      const MailLinks& mail) {
  uint4 value;
  for (int spins = 1;; ++spins) {
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from)
                 : "memory");
    if (value.y == letter && value.w == letter) break;
    if (gives_up(spins, mail)) break;
  }
  return {__uint_as_float(value.x), __uint_as_float(value.z)};
}

// ---- Kernels for few numbers: a thread sends a pair to the same thread of all other ranks ----

class PairRoute {
 public:
  __device__ explicit PairRoute(const MailLinks& mail)
      : mail_(mail),
        last_letter_(mail.sent + MailLayout::kBlocks + blockIdx.x),
        letter_(*last_letter_ + 1),
        pair_(int64_t{blockIdx.x} * MailLayout::kFewThreads + threadIdx.x) {}

  __device__ int64_t pair() const { return pair_; }  // the thread's, of all blocks'
  __device__ void send(float2 own) const {
    for (int hop = 1; hop < mail_.ranks; ++hop) {
      send_pair(place((mail_.rank + hop) % mail_.ranks, mail_.rank), own, letter_);
    }
  }
  // Waits for the pair of another rank.
  __device__ float2 receive(int rank) const {
    return receive_pair(place(mail_.rank, rank), letter_, mail_);
  }
  // All threads of the block call it, also threads that have sent nothing.
  __device__ void end() const {
    __syncthreads();
    if (threadIdx.x == 0) *last_letter_ = letter_;
  }

 private:
  __device__ MailPair* place(int receiver, int sender) const {
    const int64_t place = int64_t{letter_ & 1} * mail_.ranks + sender;
    return mail_.few[receiver] + place * (MailLayout::kFewFloats / 2) + pair_;
  }

  const MailLinks& mail_;
  uint32_t* last_letter_;  // the number of the last letter that the block has sent
  uint32_t letter_;
  int64_t pair_;
};

// ---- Kernels for many numbers: the numbers are cut into shares, one for each letter ----

inline constexpr int kMailThreads = 512;

// Blocks for `count` numbers, and the numbers that a block sends in a letter: a multiple of `unit`,
// `most` at most.
struct MailShares {
  int share, blocks;

  MailShares(int64_t count, int64_t unit, int64_t most) {
    constexpr int64_t kFewest = 2048;
    const int64_t even = (count + MailLayout::kBlocks - 1) / MailLayout::kBlocks;
    share = static_cast<int>(std::clamp((even + unit - 1) / unit * unit, kFewest, most));
    blocks = static_cast<int>(std::min<int64_t>((count + share - 1) / share, MailLayout::kBlocks));
  }
};

// One block's letters to the same block of all other ranks.
class MailRoute {
 public:
  __device__ explicit MailRoute(const MailLinks& mail)
      : mail_(mail), block_(static_cast<int>(blockIdx.x)), letter_(mail.sent[block_]) {}

  __device__ void next_letter() { ++letter_; }
  // What `sender` writes to `receiver` in this letter: MailLayout::kBlockFloats floats.
  __device__ float* place(int receiver, int sender) const {
    const int64_t place = (int64_t{letter_ & 1} * mail_.ranks + sender) * MailLayout::kBlocks;
    return mail_.blocks[receiver] + (place + block_) * MailLayout::kBlockFloats;
  }
  // Sends the letter that the block has written, and waits for those of the others. For all
  // threads.
  __device__ void exchange() const {
    const int thread = static_cast<int>(threadIdx.x);
    __syncthreads();
    if (thread < mail_.ranks && thread != mail_.rank) {
      raise_flag(mail_.flags[thread] + mail_.rank * MailLayout::kBlocks + block_, letter_);
      wait_for(mail_.flags[mail_.rank] + thread * MailLayout::kBlocks + block_, letter_, mail_);
    }
    __syncthreads();
  }
  // After the last letter.
  __device__ void end() const {
    if (threadIdx.x == 0) mail_.sent[block_] = letter_;
  }

 private:
  const MailLinks& mail_;
  int block_;
  uint32_t letter_;
};

}  // namespace skald::cuda
