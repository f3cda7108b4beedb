// The range of a row's cached tokens that a block of attention_decode processes, and their
// addresses.
#pragma once

#include "cuda/kernels/attention/kv_page.cuh"

namespace skald::cuda {

template <class T>
struct DecodeRun {
  const AttentionLaunch& a;
  const int32_t* pages;
  int kv_head, head_dim;
  int start;       // the first token that the row sees
  int cached_end;  // one past the last token that is read from the cache
  int end;         // cached_end, plus one if the block has the new token

  __device__ int page_at(int token) const { return token < end ? pages[token / kPageTokens] : 0; }
  __device__ T* keys_at(int token, int page) const {
    return page_keys<T>(a, page, kv_head) + int64_t{token % kPageTokens} * head_dim;
  }
};

}  // namespace skald::cuda
