// Runs one case on each kernel that supports it: products.cpp, attention.cpp, pointwise.cpp,
// scores.cpp, experts.cpp, states.cpp. run.cpp walks the list of cases.
#pragma once

#include "cuda/gpu/handles.h"
#include "cuda/kernels/gemm/gemm_cublas.h"
#include "cuda/plan/kernel_table.h"
#include "cuda/selftest/buffers.h"
#include "engine/selftest/experts.h"
#include "engine/selftest/report.h"
#include "engine/selftest/scores.h"
#include "engine/selftest/spaces.h"
#include "engine/selftest/states.h"

namespace skald::cuda {

struct TestGpu {
  Gpu gpu;  // has the compute capability under test
  cudaStream_t stream;
  GemmCublas* gemm;
};

void test_product(const selftest::ProductCase& c, const selftest::ProductData& data,
                  const TestGpu& test, TestBuffers& buffers, selftest::Report& report);
void test_attention(const selftest::AttentionCase& c, const selftest::AttentionData& data,
                    const TestGpu& test, TestBuffers& buffers, selftest::Report& report);
void test_pointwise(const selftest::PointwiseCase& c, const selftest::PointwiseData& data,
                    const TestGpu& test, TestBuffers& buffers, selftest::Report& report);
void test_experts(const selftest::ExpertsCase& c, const selftest::ExpertsData& data,
                  const TestGpu& test, TestBuffers& buffers, selftest::Report& report);
void test_delta(const selftest::DeltaCase& c, const selftest::DeltaData& data, const TestGpu& test,
                TestBuffers& buffers, selftest::Report& report);
void test_space(const selftest::SpaceCase& c, const selftest::SpaceData& data, const TestGpu& test,
                TestBuffers& buffers, selftest::Report& report);
void test_scores(const selftest::ScoreCase& c, const selftest::ScoreData& data, const TestGpu& test,
                 TestBuffers& buffers, selftest::Report& report);

}  // namespace skald::cuda
