// The products of one row's chosen experts as one product of gemv_q_sm90. Calls no CUDA, so that a
// plan can ask whether a product fits.
#pragma once

#include "cuda/kernels/experts/experts.h"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline LinearShape one_row_product(const ExpertsShape& a, const RoutingShape& routing) {
  LinearShape shape = {};
  shape.type = a.type;
  shape.format = a.format;
  const int used = routing.used + (a.with_shared ? 1 : 0);
  shape.experts = {used, a.sums};
  shape.outs = a.outs * (a.sums ? 1 : used);
  shape.ins = a.ins * (a.sums ? used : 1);
  shape.rows = 1;
  shape.out_stride = a.out_stride;
  shape.epilogue = a.epilogue;
  shape.scale = a.scale;
  shape.activation = a.activation;
  shape.activates = a.activates;
  shape.dependent = a.dependent;
  return shape;
}

}  // namespace skald::cuda
