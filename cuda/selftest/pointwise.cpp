#include "cuda/kernels/pointwise.h"

#include "cuda/selftest/run.h"

namespace skald::cuda {

void test_pointwise(const selftest::PointwiseCase& c, uint64_t seed, const TestGpu& test,
                    TestBuffers& buffers, selftest::Report& report) {
  using selftest::Pointwise;
  if (c.op > Pointwise::Gather) return;  // no kernels
  const selftest::PointwiseData data = make_data(c, seed);
  buffers.reset();
  const bool floats = c.op == Pointwise::Embed || c.op == Pointwise::Gather;
  const DType out_type = floats ? DType::F32 : c.type;
  const TestBuffer out = c.op == Pointwise::AddBias
                             ? buffers.holding(c.type, data.in)
                             : buffers.poisoned(c.rows * c.cols * info(out_type).block_bytes);
  const DType in_type = c.op == Pointwise::Norm ? DType::F32 : c.type;
  const TestBuffer in = buffers.holding(in_type, data.in);
  const auto* weight = reinterpret_cast<const float*>(buffers.holding(data.weight).data);
  const auto* picked = reinterpret_cast<const int32_t*>(buffers.holding(data.picked).data);
  const auto* in_floats = reinterpret_cast<const float*>(in.data);
  auto* out_floats = reinterpret_cast<float*>(out.data);
  const char* kernel = "";
  switch (c.op) {
    case Pointwise::Embed:
      kernel = "embed";
      launch_embed({c.type, in.data, picked, out_floats, c.rows, c.cols}, test.stream);
      break;
    case Pointwise::Norm:
      kernel = "rms_norm";
      launch_rms_norm({c.type, in_floats, weight, out.data, c.rows, c.cols, selftest::kNormEps},
                      test.stream);
      break;
    case Pointwise::Gate:
      kernel = "gate";
      launch_gate({c.type, in.data, true, weight, out.data, c.rows, c.cols, data.activation},
                  test.stream);
      break;
    case Pointwise::AddBias:
      kernel = "add_bias";
      launch_add_bias(c.type, out.data, weight, c.rows, c.cols, test.stream);
      break;
    case Pointwise::Gather:
      kernel = "gather";
      launch_gather(in_floats, picked, out_floats, c.rows, c.cols, test.stream);
      break;
    default:
      break;
  }
  SKALD_CUDA(cudaStreamSynchronize(test.stream));
  const std::vector<float> result = selftest::decode(out_type, buffers.bytes_of(out));
  report.add(selftest::Sort::Pointwise, c,
             {kernel, c.type, data.expected.error(result), data.expected.bound, true,
              buffers.intact(out) ? "" : "it wrote beyond its output"});
}

}  // namespace skald::cuda
