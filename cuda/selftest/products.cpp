// Self-test of products: every kernel that supports a case, with the small kernels around it.
#include "cuda/kernels/gemm_q/gemm_q_workspace.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/pointwise/pointwise.h"
#include "cuda/plan/linear_steps.h"
#include "cuda/plan/tile_pack.h"
#include "cuda/selftest/run.h"

namespace skald::cuda {
namespace {

using selftest::Ending;

Epilogue epilogue_of(Ending ending) {
  switch (ending) {
    case Ending::Store:
      return Epilogue::Store;
    case Ending::Add:
      return Epilogue::AddTo;
    case Ending::Gated:
      return Epilogue::Gated;
    case Ending::Logits:
      break;
  }
  return Epilogue::Logits;
}

bool takes(LinearKernel kernel, const LinearLaunch& launch, const Gpu& gpu) {
  switch (kernel) {
    case LinearKernel::GemvSm90:
      return supports_gemv_sm90(launch, gpu.compute_capability);
    case LinearKernel::GemvQSm90:
      return supports_gemv_q_sm90(launch, gpu.compute_capability);
    case LinearKernel::GemmExpanded:  // tested through its two kernels, and by whole models
      return false;
    case LinearKernel::GemmQSm90:
      return supports_gemm_q_sm90(launch, gpu.compute_capability);
    case LinearKernel::GemmCublas:  // rows start at multiples of 16 bytes
      return launch.format == launch.type && launch.ins % 8 == 0 && launch.outs % 8 == 0;
    case LinearKernel::GemvPlain:
      return true;
  }
  return false;
}

// The error that rounding each weight to f16, two or three times, adds. Other kernels do not round
// weights.
double rounded_weights(LinearKernel kernel) { return kernel == LinearKernel::GemmQSm90 ? 8e-4 : 0; }

// Runs a product, with the small kernels before and after it if its kernel cannot do the whole op.
void run(LinearKernel kernel, LinearLaunch launch, const TestGpu& test, TestBuffers& buffers) {
  const LinearSteps steps = linear_steps(launch, kernel);
  const int64_t element = info(launch.type).block_bytes;
  const float* bias = launch.bias;
  void* const out = launch.out;
  if (steps.norm_before) {
    const TestBuffer normed = buffers.poisoned(launch.rows * launch.ins * element);
    launch_rms_norm({launch.type, static_cast<const float*>(launch.in), launch.norm_weight,
                     normed.data, launch.rows, launch.ins, launch.norm_eps},
                    test.stream);
    launch.in = normed.data;
    launch.norm_weight = nullptr;
  }
  if (steps.gate_after) {
    launch.epilogue = Epilogue::Store;
    launch.out = buffers.poisoned(launch.rows * launch.outs * element).data;
    launch.out_stride = launch.outs;
  }
  if (steps.gate_after || steps.bias_after) launch.bias = nullptr;

  if (kernel == LinearKernel::GemvSm90) {
    launch_gemv_sm90(launch, test.gpu.multiprocessors, test.stream);
  } else if (kernel == LinearKernel::GemvQSm90) {
    launch_gemv_q_sm90(launch, test.gpu.multiprocessors, test.stream);
  } else if (kernel == LinearKernel::GemmQSm90) {
    launch.workspace = buffers.poisoned(gemm_q_workspace_bytes(launch.rows, launch.ins)).data;
    launch_gemm_q_sm90(launch, test.gpu.multiprocessors, test.stream);
  } else if (kernel == LinearKernel::GemvPlain) {
    launch_gemv_plain(launch, test.stream);
  } else {
    test.gemm->launch(launch, test.stream);
  }

  if (steps.gate_after) {
    launch_gate(
        {launch.type, launch.out, true, bias, out, launch.rows, launch.outs / 2, launch.activation},
        test.stream);
  }
  if (steps.bias_after) {
    const DType out_type = launch.epilogue == Epilogue::Store ? launch.type : DType::F32;
    launch_add_bias({out_type, out, bias, launch.rows, launch.outs, launch.scale}, test.stream);
  }
}

// The weight in the layout that kernels read.
std::vector<std::byte> packed_weight(const selftest::ProductData& data) {
  if (info(data.weight.type).block_elems == 1) return data.weight_bytes;
  const TensorView& w = data.weight;
  std::vector<std::byte> packed(static_cast<size_t>(tile_bytes(w.type, w.rows, w.cols)));
  pack_tiles(w, packed.data());
  return packed;
}

}  // namespace

void test_product(const selftest::ProductCase& c, const selftest::ProductData& data,
                  const TestGpu& test, TestBuffers& buffers, selftest::Report& report) {
  const bool floats = c.ending == Ending::Add || c.ending == Ending::Logits;
  const DType type = c.in_type(), out_type = floats ? DType::F32 : type;
  const std::vector<std::byte> weight = packed_weight(data);
  for (LinearKernel kernel :
       {LinearKernel::GemvSm90, LinearKernel::GemvQSm90, LinearKernel::GemmQSm90,
        LinearKernel::GemmCublas, LinearKernel::GemvPlain}) {
    buffers.reset();
    const int64_t out_bytes =
        static_cast<int64_t>(data.expected.values.size()) * info(out_type).block_bytes;
    const TestBuffer out =
        c.ending == Ending::Add ? buffers.holding(data.residual) : buffers.poisoned(out_bytes);
    LinearLaunch launch;
    launch.type = type;
    launch.format = c.type;
    launch.outs = c.outs;
    launch.ins = c.ins;
    launch.rows = c.rows;
    launch.epilogue = epilogue_of(c.ending);
    launch.out_stride = launch.epilogue == Epilogue::Gated ? c.outs / 2 : c.outs;
    launch.activation = c.activation;
    launch.scale = c.scale;
    launch.norm_eps = selftest::kNormEps;
    launch.out = out.data;
    launch.weight = buffers.holding(weight).data;
    launch.in = c.norm ? buffers.holding(data.in).data : buffers.holding(type, data.in).data;
    if (c.norm) {
      launch.norm_weight = reinterpret_cast<float*>(buffers.holding(data.norm_weight).data);
    }
    if (c.bias) launch.bias = reinterpret_cast<float*>(buffers.holding(data.bias).data);
    const TestBuffer ticket = buffers.holding(std::vector<int32_t>(1));
    launch.ticket = reinterpret_cast<unsigned*>(ticket.data);
    if (!takes(kernel, launch, test.gpu)) continue;
    run(kernel, launch, test, buffers);
    SKALD_CUDA(cudaStreamSynchronize(test.stream));
    const std::vector<float> result = selftest::decode(out_type, buffers.bytes_of(out));
    std::string problem;
    if (!buffers.intact(out)) problem = "it wrote beyond its output";
    for (std::byte left : buffers.bytes_of(ticket)) {
      if (left != std::byte{0}) problem = "its ticket is not zero after the launch";
    }
    report.add(selftest::Sort::Product, c,
               {kernel_name(kernel), c.type, data.expected.error(result),
                data.expected.bound + rounded_weights(kernel),
                select_linear(launch, test.gpu) == kernel, problem});
  }
}

}  // namespace skald::cuda
