// The activation types, their conversion to float and back, and the switch from a DType to one of
// them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "engine/base/check.h"
#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

using Half = __half;
using Bf16 = __nv_bfloat16;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(Half x) { return __half2float(x); }
__device__ inline float to_float(Bf16 x) { return __bfloat162float(x); }

template <class T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
// Clamped to f16's range: one infinite activation would spoil all later results of the row.
template <>
__device__ inline Half from_float<Half>(float x) {
  return __float2half_rn(fminf(fmaxf(x, -65504.0f), 65504.0f));
}
template <>
__device__ inline Bf16 from_float<Bf16>(float x) {
  return __float2bfloat16_rn(x);
}

// kCount numbers that one memory access moves.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T x[kCount];
};

// Loads and stores of numbers whose type is known at run time: for kernels whose time goes to other
// things, so that one kernel serves all types.
__device__ inline float load_number(DType type, const void* from, int64_t index) {
  if (type == DType::F32) return static_cast<const float*>(from)[index];
  // Both conversions, and no branch between them: loads of several numbers stay under way together.
  const uint16_t bits = static_cast<const uint16_t*>(from)[index];
  return type == DType::F16 ? to_float(Half(__ushort_as_half(bits)))
                            : to_float(Bf16(__ushort_as_bfloat16(bits)));
}

template <class T, int kCount>
__device__ inline void store_as(void* to, int64_t index, const Pack<float, kCount>& numbers) {
  Pack<T, kCount> rounded;
#pragma unroll
  for (int i = 0; i < kCount; ++i) rounded.x[i] = from_float<T>(numbers.x[i]);
  *reinterpret_cast<Pack<T, kCount>*>(static_cast<T*>(to) + index) = rounded;
}
template <int kCount>
__device__ inline void store_numbers(DType type, void* to, int64_t index,
                                     const Pack<float, kCount>& numbers) {
  if (type == DType::F32) return store_as<float>(to, index, numbers);
  if (type == DType::F16) return store_as<Half>(to, index, numbers);
  store_as<Bf16>(to, index, numbers);
}

// Calls fn with a value of the C++ type that `type` names.
template <class Fn>
void dispatch(DType type, Fn fn) {
  if (type == DType::F32) return fn(float());
  if (type == DType::F16) return fn(Half());
  check(type == DType::BF16, "an activation is f32, f16 or bf16");
  fn(Bf16());
}

}  // namespace skald::cuda
