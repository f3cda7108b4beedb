// Self-test of products: every kernel that supports a case, with the small kernels around it.
#include "cuda/kernels/pointwise/pointwise.h"
#include "cuda/plan/tile_pack.h"
#include "cuda/run/launchers.h"
#include "cuda/selftest/run.h"

namespace skald::cuda {
namespace {

using selftest::Ending;

Epilogue epilogue_of(Ending ending) {
  switch (ending) {
    case Ending::Store:
    case Ending::Activated:
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

// The shape for a kernel that cannot gate: the product is stored and gated afterwards.
LinearShape stored(const ProductKernel& kernel, LinearShape shape) {
  if (shape.epilogue == Epilogue::Gated && !kernel.gate) {
    shape.epilogue = Epilogue::Store;
    shape.out_stride = shape.outs;
  }
  return shape;
}

// Kernels that use a 16-bit copy are left out: their two steps have their own cases, and whole
// models test them together.
bool takes(const ProductKernel& kernel, const LinearShape& shape, const Gpu& gpu) {
  return !kernel.uses_copy && runs_on(kernel.code, gpu.compute_capability) &&
         kernel.supports(stored(kernel, shape));
}

// The error added by kernels that round each weight to f16 two or three times.
double rounded_weights(const ProductKernel& kernel) { return kernel.rounds_weights ? 8e-4 : 0; }

// Runs a product, with the small kernels before and after it if its kernel cannot do the whole op.
void run(const ProductKernel& kernel, LinearLaunch product, const TestGpu& test,
         TestBuffers& buffers) {
  const int64_t element = info(product.type).block_bytes;
  const bool gate_after = product.epilogue == Epilogue::Gated && !kernel.gate;
  const bool finishes = product.bias || product.activates;
  const bool bias_after = finishes && !kernel.bias && !gate_after;
  const bool activates = product.activates;
  const float* bias = product.bias;
  void* const out = product.out;
  if (product.norm_weight && !kernel.norm) {
    const TestBuffer normed = buffers.poisoned(product.rows * product.ins * element);
    launch_rms_norm({product.type, static_cast<const float*>(product.in), product.norm_weight,
                     normed.data, product.rows, product.ins, product.norm_eps},
                    test.stream);
    product.in = normed.data;
    product.norm_weight = nullptr;
  }
  static_cast<LinearShape&>(product) = stored(kernel, product);
  if (gate_after) product.out = buffers.poisoned(product.rows * product.outs * element).data;
  if (gate_after || bias_after) product.bias = nullptr;
  if (bias_after) product.activates = false;
  if (kernel.prepares) {
    product.gemm_q.workspace =
        buffers.poisoned(gemm_q_workspace_bytes(product.rows, product.ins)).data;
  }
  launch(kernel, {{&product, 1}, {}, test.gpu.multiprocessors, *test.gemm, test.stream});

  if (gate_after) {
    launch_gate({product.type, product.out, true, bias, out, product.rows, product.outs / 2,
                 product.activation},
                test.stream);
  }
  if (bias_after) {
    const DType out_type = product.epilogue == Epilogue::Store ? product.type : DType::F32;
    launch_add_bias({out_type, out, bias, product.rows, product.outs, product.scale, activates,
                     product.activation},
                    test.stream);
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
  for (const ProductKernel& kernel : kProductKernels) {
    buffers.reset();
    const int64_t out_bytes =
        static_cast<int64_t>(data.expected.values.size()) * info(out_type).block_bytes;
    const TestBuffer out =
        c.ending == Ending::Add ? buffers.holding(data.residual) : buffers.poisoned(out_bytes);
    LinearLaunch launch = {};
    launch.type = type;
    launch.format = c.type;
    launch.outs = c.outs;
    launch.ins = c.ins;
    launch.rows = c.rows;
    launch.epilogue = epilogue_of(c.ending);
    launch.out_stride = launch.epilogue == Epilogue::Gated ? c.outs / 2 : c.outs;
    launch.activation = c.activation;
    launch.activates = c.ending == Ending::Activated;
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
    launch.gemv.ticket = reinterpret_cast<unsigned*>(ticket.data);
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
               {kernel.name, c.type, data.expected.error(result),
                data.expected.bound + rounded_weights(kernel),
                &select_product(launch, {}, test.gpu) == &kernel, problem});
  }
}

}  // namespace skald::cuda
