// The ops that are not matrix products, on single rows or ranges, for one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cpu/kernels.h"

namespace skald::cpu {

// Cosines and sines of one call, [rows, pairs] each.
struct RotationTable {
  const float* cos;
  const float* sin;
  int64_t pairs;  // rotated pairs of a head
  bool interleaved;
};

struct PointwiseKernels {
  // weight may be nullptr
  void (*rms_norm)(const float* in, const float* weight, float* out, int64_t dim, float eps);
  // bias may be nullptr
  void (*layer_norm)(const float* in, const float* weight, const float* bias, float* out,
                     int64_t dim, float eps);
  void (*gated_act)(Activation activation, const float* gate, const float* up, float* out,
                    int64_t count);
  void (*activate)(Activation activation, const float* in, float* out, int64_t count);
  double (*dot)(const float* x, const float* y, int64_t count);
  void (*add)(const AddArgs& args);
  void (*cap)(float* x, int64_t count, float scale, float softcap);
  void (*rotate)(const RotationTable& table, int64_t row, float* head);
  uint64_t (*sum_bytes)(const std::byte* bytes, int64_t count);
  const char* target;  // "AVX3_DL"
};

const PointwiseKernels& pointwise_kernels();

}  // namespace skald::cpu
