// Self-test of routed experts: every kernel that supports a case, from the router to the residual
// sum.
#include "engine/selftest/experts.h"

#include <cmath>
#include <cstring>

#include "cuda/kernels/pointwise/pointwise.h"
#include "cuda/plan/sizes.h"
#include "cuda/plan/tile_pack.h"
#include "cuda/run/launchers.h"
#include "cuda/selftest/run.h"

namespace skald::cuda {
namespace {

using selftest::ProductData;

bool takes(const ExpertsKernel& kernel, const ExpertsLaunch& launch, const Gpu& gpu) {
  return runs_on(kernel.code, gpu.compute_capability) && kernel.supports(launch, launch.routing);
}

// All experts' matrices as the executor lays them out: rows of gate and up alternate.
std::vector<std::byte> stacked(std::span<const ProductData> first,
                               std::span<const ProductData> second, int64_t stride) {
  std::vector<std::byte> all;
  for (size_t e = 0; e < first.size(); ++e) {
    TensorView view = first[e].weight;
    std::vector<std::byte> rows;
    if (second.empty()) {
      rows = first[e].weight_bytes;
    } else {
      for (int64_t r = 0; r < view.rows; ++r) {
        for (const TensorView& part : {first[e].weight, second[e].weight}) {
          rows.insert(rows.end(), part.row(r), part.row(r) + part.own_row_bytes());
        }
      }
      view.rows *= 2;
    }
    view.data = rows.data();
    const size_t start = all.size();
    all.resize(start + static_cast<size_t>(stride));
    if (info(view.type).block_elems > 1) {
      pack_tiles(view, all.data() + start);
    } else {
      std::memcpy(all.data() + start, rows.data(), rows.size());
    }
  }
  return all;
}

std::vector<float> alternating(const std::vector<float>& first, const std::vector<float>& second) {
  std::vector<float> all;
  for (size_t i = 0; i < first.size(); ++i) all.insert(all.end(), {first[i], second[i]});
  return all;
}

struct Layer {
  const selftest::ExpertsCase& c;
  const selftest::ExpertsData& data;
  const TestGpu& test;
  TestBuffers& buffers;
  // `gate` has the rows of gate and up alternately if `up` is empty.
  std::vector<std::byte> gate, up, down;

  Layer(const selftest::ExpertsCase& of, const selftest::ExpertsData& with, const TestGpu& on,
        TestBuffers& in)
      : c(of), data(with), test(on), buffers(in) {
    const auto stride = [&](DType type, int64_t outs, int64_t ins) {
      return launch(type, outs, ins).stride;
    };
    if (c.apart) {
      gate = stacked(data.gate, {}, stride(c.type, c.ffn_dim, c.dim));
      up = stacked(data.up, {}, stride(c.up_type(), c.ffn_dim, c.dim));
    } else {
      gate = stacked(data.gate, data.up, stride(c.type, 2 * c.ffn_dim, c.dim));
    }
    down = stacked(data.down, {}, stride(c.type, c.dim, c.ffn_dim));
  }

  ExpertsLaunch launch(DType format, int64_t outs, int64_t ins) const {
    ExpertsLaunch l = {};
    l.type = c.activations();
    l.format = format;
    l.stride = padded(matrix_bytes(format, outs, ins));
    l.outs = outs;
    l.ins = ins;
    l.activation = c.spec.activation;
    l.multiprocessors = test.gpu.multiprocessors;
    return l;
  }

  void multiply(const ExpertsKernel& kernel, ExpertsLaunch launch) const {
    if (kernel.expands) {
      launch.expanded = buffers.poisoned(expanded_bytes(launch, launch.routing)).data;
    }
    cuda::launch(kernel, launch, test.stream);
  }

  // Runs the layer by one kernel. Returns x after it.
  TestBuffer run(const ExpertsKernel& kernel, const Routing& routing, const TestBuffer& x,
                 std::string& problem) const {
    const DType type = c.activations();
    const int64_t element = info(type).block_bytes, places = routing.choices();
    const auto holding = [&](const auto& values) { return buffers.holding(values).data; };
    const auto floats = [&](const std::vector<float>& values) {
      return values.empty() ? nullptr : reinterpret_cast<const float*>(holding(values));
    };
    const TestBuffer normed = buffers.poisoned(c.rows * c.dim * element);
    const TestBuffer tickets =
        buffers.holding(std::vector<int32_t>(static_cast<size_t>(route_tickets(c.rows))));
    const TestBuffer logits = buffers.poisoned(int64_t{c.rows} * c.spec.count * 4);
    launch_route({type, reinterpret_cast<float*>(x.data),
                  reinterpret_cast<float*>(holding(data.norm_weight)), selftest::kNormEps,
                  reinterpret_cast<float*>(holding(data.router)), floats(data.router_bias), c.dim,
                  normed.data, reinterpret_cast<float*>(logits.data),
                  reinterpret_cast<unsigned*>(tickets.data), c.spec, floats(data.choice_bias),
                  routing, false, false, floats(data.route_weight)},
                 test.stream);
    launch_sort_choices(routing, false, test.stream);

    const TestBuffer gated = buffers.poisoned(places * c.ffn_dim * element);
    ExpertsLaunch first = launch(c.type, c.ffn_dim * (c.apart ? 1 : 2), c.dim);
    first.in = normed.data;
    first.routing = routing;
    first.weight = holding(gate);
    first.bias = floats(c.apart ? data.gate_bias : alternating(data.gate_bias, data.up_bias));
    TestBuffer pairs;
    if (c.apart) {
      pairs = buffers.poisoned(places * 2 * c.ffn_dim * element);
      ExpertsLaunch second = launch(c.up_type(), c.ffn_dim, c.dim);
      second.in = normed.data;
      second.routing = routing;
      second.weight = holding(up);
      second.bias = floats(data.up_bias);
      first.epilogue = second.epilogue = Epilogue::Store;
      first.out_stride = second.out_stride = 2 * c.ffn_dim;
      first.out = pairs.data;
      second.out = pairs.data + c.ffn_dim * element;
      multiply(kernel, first);
      multiply(kernel, second);
      launch_gate({type, pairs.data, false, nullptr, gated.data, static_cast<int>(places),
                   c.ffn_dim, c.spec.activation},
                  test.stream);
    } else {
      first.epilogue = Epilogue::Gated;
      first.out = gated.data;
      first.out_stride = c.ffn_dim;
      multiply(kernel, first);
    }

    const TestBuffer sums = buffers.poisoned(places * c.dim * 4);
    ExpertsLaunch last = launch(c.type, c.dim, c.ffn_dim);
    last.in = gated.data;
    last.by_place = true;
    last.epilogue = Epilogue::Floats;
    last.out = sums.data;
    last.out_stride = c.dim;
    last.routing = routing;
    last.weight = holding(down);
    last.bias = floats(data.down_bias);
    multiply(kernel, last);
    launch_combine({reinterpret_cast<float*>(sums.data), reinterpret_cast<float*>(x.data), c.dim,
                    selftest::kScale, routing, false, true, floats(data.expert_scale)},
                   test.stream);
    if (c.own_route) {
      // The sum alone, instead of its addition to x.
      const TestBuffer alone = buffers.poisoned(c.rows * c.dim * 4);
      launch_combine({reinterpret_cast<float*>(sums.data), reinterpret_cast<float*>(alone.data),
                      c.dim, selftest::kScale, routing, false, false, floats(data.expert_scale)},
                     test.stream);
      SKALD_CUDA(cudaStreamSynchronize(test.stream));
      const std::vector<float> after = selftest::decode(DType::F32, buffers.bytes_of(x)),
                               sum = selftest::decode(DType::F32, buffers.bytes_of(alone));
      for (size_t i = 0; i < sum.size(); ++i) {
        const float size = std::fabs(data.x[i]) + std::fabs(sum[i]);
        if (!(std::fabs(data.x[i] + sum[i] - after[i]) <= 1e-6f * size)) {
          problem = "its sum alone differs";
        }
      }
      if (!buffers.intact(alone)) problem = "its sum alone wrote beyond its output";
    }
    if (one_kernel_sums(last, routing, kernel) && !c.own_route) {
      // With a block for each group of rows, and with so few blocks that they use tickets.
      for (const int multiprocessors : {test.gpu.multiprocessors, 2}) {
        ExpertsLaunch summed = last;
        summed.multiprocessors = multiprocessors;
        const TestBuffer once = buffers.holding(data.x);
        const TestBuffer left =
            buffers.holding(std::vector<int32_t>(static_cast<size_t>(row_sum_tickets(c.dim))));
        launch_experts_row_sum(summed,
                               {reinterpret_cast<float*>(once.data), selftest::kScale,
                                reinterpret_cast<unsigned*>(left.data)},
                               test.stream);
        SKALD_CUDA(cudaStreamSynchronize(test.stream));
        if (buffers.bytes_of(once) != buffers.bytes_of(x)) problem = "its sum gave other bits";
        if (!buffers.intact(once)) problem = "its sum wrote beyond its output";
        for (const std::byte byte : buffers.bytes_of(left)) {
          if (byte != std::byte{0}) problem = "its sum's tickets are not zero after the launch";
        }
      }
    }
    SKALD_CUDA(cudaStreamSynchronize(test.stream));
    for (const TestBuffer& buffer : {normed, logits, gated, sums, x, tickets}) {
      if (!buffers.intact(buffer)) problem = "it wrote beyond a buffer";
    }
    if (c.apart && !buffers.intact(pairs)) problem = "it wrote beyond a buffer";
    for (const std::byte left : buffers.bytes_of(tickets)) {
      if (left != std::byte{0}) problem = "its ticket is not zero after the launch";
    }
    return x;
  }
};

}  // namespace

void test_experts(const selftest::ExpertsCase& c, const selftest::ExpertsData& data,
                  const TestGpu& test, TestBuffers& buffers, selftest::Report& report) {
  const Layer layer(c, data, test, buffers);
  for (const ExpertsKernel& kernel : kExpertsKernels) {
    buffers.reset();
    const int64_t choices = int64_t{c.rows} * c.spec.used;
    const auto list = [&](int64_t count) { return buffers.poisoned(count * 4); };
    const TestBuffer chosen = list(choices), weights = list(choices), places = list(choices),
                     row_of = list(choices), begins = list(c.spec.count + 1);
    const auto ints = [](const TestBuffer& buffer) {
      return reinterpret_cast<int32_t*>(buffer.data);
    };
    const Routing routing = {{c.rows, c.spec.used, c.spec.count},
                             ints(chosen),
                             reinterpret_cast<float*>(weights.data),
                             ints(places),
                             ints(row_of),
                             ints(begins)};
    ExpertsLaunch gate = layer.launch(c.type, 2 * c.ffn_dim, c.dim);
    ExpertsLaunch down = layer.launch(c.type, c.dim, c.ffn_dim);
    gate.routing = down.routing = routing;
    gate.epilogue = Epilogue::Gated;
    if (!takes(kernel, gate, test.gpu) || !takes(kernel, down, test.gpu)) continue;
    std::string problem;
    const TestBuffer x = layer.run(kernel, routing, buffers.holding(data.x), problem);
    std::vector<int32_t> got(data.chosen.size());
    const std::vector<std::byte> bytes = buffers.bytes_of(chosen);
    std::memcpy(got.data(), bytes.data(), bytes.size());
    if (got != data.chosen) problem = "it chose other experts";
    for (const TestBuffer& buffer : {chosen, weights, places, row_of, begins}) {
      if (!buffers.intact(buffer)) problem = "it wrote beyond a list of choices";
    }
    const std::vector<float> result = selftest::decode(DType::F32, buffers.bytes_of(x));
    report.add(selftest::Sort::Experts, c,
               {kernel.name, c.type, data.expected.error(result), data.expected.bound,
                &select_experts(gate, routing, test.gpu, {false, expanded_bytes(gate, routing)}) ==
                    &kernel,
                problem});
  }
}

}  // namespace skald::cuda
