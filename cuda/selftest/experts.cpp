// Self-test of routed experts: every kernel that supports a case, from the router to the residual
// sum.
#include "engine/selftest/experts.h"

#include <cmath>
#include <cstring>

#include "cuda/kernels/experts/placed_rows.h"
#include "cuda/kernels/pointwise/pointwise.h"
#include "cuda/kernels/tiles/odd_columns.h"
#include "cuda/plan/sizes.h"
#include "cuda/plan/tile_pack.h"
#include "cuda/run/launchers.h"
#include "cuda/selftest/run.h"
#include "engine/base/error.h"

namespace skald::cuda {
namespace {

using selftest::ProductData;

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
  // `gate` has the rows of gate and up alternately if `up` is empty; without a gate, those of up.
  std::vector<std::byte> gate, up, down;

  Layer(const selftest::ExpertsCase& of, const selftest::ExpertsData& with, const TestGpu& on,
        TestBuffers& in)
      : c(of), data(with), test(on), buffers(in) {
    const auto stride = [&](DType type, int64_t outs, int64_t ins) {
      return launch(type, outs, ins).stride;
    };
    if (c.gateless) {
      gate = stacked(data.up, {}, stride(c.type, c.ffn_dim, c.dim));
    } else if (c.apart) {
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

  bool has_shared() const { return c.shared != selftest::Shared::None; }
  // The shared expert's matrix follows those of the others.
  void take_shared(ExpertsLaunch& launch) const {
    if (!launch.with_shared) return;
    launch.shared = static_cast<const std::byte*>(launch.weight) + c.spec.count * launch.stride;
  }

  // The products' shapes. Gate and up are one product unless they are apart. Without a gate, this
  // is the product of up.
  ExpertsLaunch gate_launch() const {
    const bool pairs = !c.apart && !c.gateless;
    ExpertsLaunch l = launch(c.type, c.ffn_dim * (pairs ? 2 : 1), c.dim);
    l.epilogue = pairs ? Epilogue::Gated : Epilogue::Store;
    l.activates = c.gateless;
    l.with_shared = has_shared();
    l.out_stride = c.apart ? 2 * c.ffn_dim : c.ffn_dim;
    return l;
  }
  ExpertsLaunch up_launch() const {
    ExpertsLaunch l = launch(c.up_type(), c.ffn_dim, c.dim);
    l.epilogue = Epilogue::Store;
    l.out_stride = 2 * c.ffn_dim;
    return l;
  }
  ExpertsLaunch down_launch(bool sums) const {
    ExpertsLaunch l = launch(c.type, c.dim, c.ffn_dim);
    l.by_place = true;
    l.epilogue = sums ? Epilogue::AddTo : Epilogue::Floats;
    l.sums = sums;
    l.with_shared = sums && has_shared();
    l.scale = sums ? selftest::kScale : 1;
    l.out_stride = c.dim;
    return l;
  }

  bool takes(const ExpertsKernel& kernel, const ExpertsShape& shape, const Routing& routing) const {
    return runs_on(kernel.code, test.gpu.compute_capability) && kernel.supports(shape, routing);
  }
  // Which down products the kernel has.
  bool has_results(const ExpertsKernel& kernel, const Routing& routing) const {
    return takes(kernel, down_launch(false), routing);
  }
  bool has_sums(const ExpertsKernel& kernel, const Routing& routing) const {
    return !c.own_route && takes(kernel, down_launch(true), routing);
  }
  bool takes(const ExpertsKernel& kernel, const Routing& routing) const {
    return takes(kernel, gate_launch(), routing) &&
           (!c.apart || takes(kernel, up_launch(), routing)) &&
           (has_results(kernel, routing) || has_sums(kernel, routing));
  }

  // The order of down's rows if the product of gate and up writes it.
  RowOrder gated_order(const ExpertsKernel& kernel) const {
    const bool placed =
        kernel.placed && !c.apart && !c.gateless && placed_order(c.type) == RowOrder::Placed;
    return placed ? RowOrder::Placed : RowOrder::Plain;
  }

  void multiply(const ExpertsKernel& kernel, ExpertsLaunch launch, std::string& problem) const {
    TestBuffer placed;
    const bool by_kernel = launch.by_place && gated_order(kernel) == RowOrder::Placed;
    if (kernel.placed && !by_kernel) {
      const RowOrder order = placed_order(launch.format);
      placed = buffers.poisoned(PlacedLayout(launch.routing.choices(), launch.ins).bytes(order));
      launch_place_rows({launch.in, launch.ins, launch.by_place, order, odd_columns(launch.format),
                         placed.data, launch.routing, false},
                        test.stream);
      launch.in = placed.data;
    }
    cuda::launch(kernel, launch, test.stream);
    if (!placed.data) return;
    SKALD_CUDA(cudaStreamSynchronize(test.stream));
    if (!buffers.intact(placed)) problem = "placed rows lie beyond their buffer";
  }

  // True if the product of gate and up can route the row.
  bool routes(const ExpertsKernel& kernel, const Routing& routing) const {
    return kernel.routes && !c.own_route && !c.apart &&
           kernel.routes(gate_launch(), routing, test.gpu.multiprocessors);
  }

  // Runs the layer by one kernel, which may route the row. Returns x after it.
  TestBuffer run(const ExpertsKernel& kernel, const Routing& routing, bool routes,
                 const TestBuffer& x, std::string& problem) const {
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
    const RouteLaunch route = {type,
                               reinterpret_cast<float*>(x.data),
                               reinterpret_cast<float*>(holding(data.norm_weight)),
                               selftest::kNormEps,
                               reinterpret_cast<float*>(holding(data.router)),
                               floats(data.router_bias),
                               c.dim,
                               normed.data,
                               reinterpret_cast<float*>(logits.data),
                               reinterpret_cast<unsigned*>(tickets.data),
                               c.spec,
                               floats(data.choice_bias),
                               routing,
                               false,
                               false,
                               floats(data.route_weight)};
    const TestBuffer router_logits =
        buffers.holding(std::vector<uint32_t>(kRouterLogits, kNotSent));
    if (!routes) {
      launch_route(route, test.stream);
      launch_sort_choices(routing, false, test.stream);
    }

    const RowOrder order = gated_order(kernel);
    const TestBuffer gated =
        buffers.poisoned(order == RowOrder::Placed ? PlacedLayout(places, c.ffn_dim).bytes(order)
                                                   : (places + has_shared()) * c.ffn_dim * element);
    const TestBuffer own_tickets = buffers.holding(std::vector<int32_t>(2));
    ExpertsLaunch first = gate_launch();
    first.tickets = reinterpret_cast<unsigned*>(own_tickets.data);
    first.in = normed.data;
    first.out_order = order;
    if (routes) {
      first.route = &route;
      first.router_logits = reinterpret_cast<uint32_t*>(router_logits.data);
    }
    first.routing = routing;
    first.weight = holding(gate);
    take_shared(first);
    first.shared_gate = floats(data.shared_gate);
    first.bias = floats(c.gateless ? data.up_bias
                        : c.apart  ? data.gate_bias
                                   : alternating(data.gate_bias, data.up_bias));
    TestBuffer pairs;
    if (c.apart) {
      pairs = buffers.poisoned(places * 2 * c.ffn_dim * element);
      ExpertsLaunch second = up_launch();
      second.tickets = first.tickets + 1;
      second.in = normed.data;
      second.routing = routing;
      second.weight = holding(up);
      second.bias = floats(data.up_bias);
      first.out = pairs.data;
      second.out = pairs.data + c.ffn_dim * element;
      multiply(kernel, first, problem);
      multiply(kernel, second, problem);
      launch_gate({type, pairs.data, false, nullptr, gated.data, static_cast<int>(places),
                   c.ffn_dim, c.spec.activation},
                  test.stream);
    } else {
      first.out = gated.data;
      multiply(kernel, first, problem);
    }

    ExpertsLaunch last = down_launch(false);
    last.in = gated.data;
    last.routing = routing;
    last.weight = holding(down);
    last.bias = floats(data.down_bias);
    last.router_logits = first.router_logits;
    const bool combines = has_results(kernel, routing);
    if (combines) combine(kernel, last, x, problem);
    if (has_sums(kernel, routing)) sum(kernel, last, x, combines, problem);
    SKALD_CUDA(cudaStreamSynchronize(test.stream));
    for (const TestBuffer& buffer : {normed, logits, gated, x, tickets, own_tickets}) {
      if (!buffers.intact(buffer)) problem = "it wrote beyond a buffer";
    }
    if (c.apart && !buffers.intact(pairs)) problem = "it wrote beyond a buffer";
    check_zero(tickets, problem);
    check_zero(own_tickets, problem);
    for (const std::byte left : buffers.bytes_of(router_logits)) {
      if (left != std::byte{0xff}) problem = "its router logits stay after the launch";
    }
    return x;
  }

  void check_zero(const TestBuffer& tickets, std::string& problem) const {
    for (const std::byte left : buffers.bytes_of(tickets)) {
      if (left != std::byte{0}) problem = "its tickets are not zero after the launch";
    }
  }

  // Adds the results of all places, which are sums of their own, to x.
  void combine(const ExpertsKernel& kernel, ExpertsLaunch last, const TestBuffer& x,
               std::string& problem) const {
    const TestBuffer sums = buffers.poisoned(last.routing.choices() * c.dim * 4);
    last.out = sums.data;
    multiply(kernel, last, problem);
    const float* factors = data.expert_scale.empty() ? nullptr : holding_floats(data.expert_scale);
    CombineLaunch launch = {reinterpret_cast<float*>(sums.data),
                            reinterpret_cast<float*>(x.data),
                            c.dim,
                            selftest::kScale,
                            last.routing,
                            false,
                            true,
                            factors};
    launch_combine(launch, test.stream);
    if (c.own_route) {
      const TestBuffer alone = buffers.poisoned(c.rows * c.dim * 4);
      launch.x = reinterpret_cast<float*>(alone.data);
      launch.adds = false;
      launch_combine(launch, test.stream);
      check_alone(alone, x, problem);
    }
    SKALD_CUDA(cudaStreamSynchronize(test.stream));
    if (!buffers.intact(sums)) problem = "it wrote beyond its results";
  }

  // `alone` is what was added to the residual stream to get `after`.
  void check_alone(const TestBuffer& alone, const TestBuffer& after, std::string& problem) const {
    SKALD_CUDA(cudaStreamSynchronize(test.stream));
    const std::vector<float> whole = selftest::decode(DType::F32, buffers.bytes_of(after)),
                             sum = selftest::decode(DType::F32, buffers.bytes_of(alone));
    for (size_t i = 0; i < sum.size(); ++i) {
      const float size = std::fabs(data.x[i]) + std::fabs(sum[i]);
      if (!(std::fabs(data.x[i] + sum[i] - whole[i]) <= 1e-6f * size)) {
        problem = "its sum alone differs";
      }
    }
    if (!buffers.intact(alone)) problem = "its sum alone wrote beyond its output";
  }

  // The kernel adds the sum of a row's experts to x. `known`: x has been computed by another way,
  // with the same bits.
  void sum(const ExpertsKernel& kernel, const ExpertsLaunch& last, const TestBuffer& x, bool known,
           std::string& problem) const {
    const TestBuffer results = buffers.poisoned(last.routing.choices() * c.dim * 4);
    const TestBuffer tickets =
        buffers.holding(std::vector<int32_t>(static_cast<size_t>(row_sum_tickets(c.dim))));
    ExpertsLaunch summed = down_launch(true);
    summed.in = last.in;
    summed.routing = last.routing;
    summed.weight = last.weight;
    take_shared(summed);
    summed.bias = last.bias;
    summed.router_logits = last.router_logits;
    summed.results = reinterpret_cast<float*>(results.data);
    summed.tickets = reinterpret_cast<unsigned*>(tickets.data);
    summed.out = x.data;
    if (!known) multiply(kernel, summed, problem);
    // With a block for each group of rows, and with so few blocks that they use tickets; the choice
    // is complete.
    for (const int multiprocessors : {test.gpu.multiprocessors, 2}) {
      const TestBuffer once = buffers.holding(data.x);
      summed.multiprocessors = multiprocessors;
      summed.chosen_early = true;
      summed.out = once.data;
      multiply(kernel, summed, problem);
      SKALD_CUDA(cudaStreamSynchronize(test.stream));
      if (buffers.bytes_of(once) != buffers.bytes_of(x)) problem = "its sum gave other bits";
      if (!buffers.intact(once)) problem = "its sum wrote beyond its output";
      check_zero(tickets, problem);
    }
    ExpertsLaunch alone = summed;
    alone.epilogue = Epilogue::Floats;
    if (takes(kernel, alone, alone.routing)) {
      const TestBuffer by_itself = buffers.poisoned(c.dim * 4);
      alone.out = by_itself.data;
      multiply(kernel, alone, problem);
      check_alone(by_itself, x, problem);
    }
    if (!buffers.intact(results)) problem = "its sum wrote beyond its results";
  }

  const float* holding_floats(const std::vector<float>& values) const {
    return reinterpret_cast<const float*>(buffers.holding(values).data);
  }
};

// Runs the layer by one kernel, if it takes the case; `routes`: the product of gate and up does the
// router's work too.
void test_kernel(const Layer& layer, const ExpertsKernel& kernel, bool routes,
                 selftest::Report& report) {
  const selftest::ExpertsCase& c = layer.c;
  TestBuffers& buffers = layer.buffers;
  buffers.reset();
  const int64_t choices = int64_t{c.rows} * c.spec.used;
  const auto list = [&](int64_t count) { return buffers.poisoned(count * 4); };
  const TestBuffer chosen = list(choices), weights = list(choices + layer.has_shared()),
                   places = list(choices), row_of = list(choices), begins = list(c.spec.count + 2);
  const TestBuffer tiles = buffers.poisoned(placed_tiles({c.rows, c.spec.used, c.spec.count}) *
                                            int64_t{sizeof(PlacedTile)});
  const auto ints = [](const TestBuffer& buffer) {
    return reinterpret_cast<int32_t*>(buffer.data);
  };
  const Routing routing = {{c.rows, c.spec.used, c.spec.count},
                           ints(chosen),
                           reinterpret_cast<float*>(weights.data),
                           ints(places),
                           ints(row_of),
                           ints(begins),
                           reinterpret_cast<PlacedTile*>(tiles.data),
                           ints(begins) + c.spec.count + 1};
  if (!layer.takes(kernel, routing) || (routes && !layer.routes(kernel, routing))) return;
  if (layer.has_shared() && !routes)
    return;  // the weight of the shared expert comes from the router
  std::string problem;
  const TestBuffer x = layer.run(kernel, routing, routes, buffers.holding(layer.data.x), problem);
  std::vector<int32_t> got(layer.data.chosen.size());
  const std::vector<std::byte> bytes = buffers.bytes_of(chosen);
  std::memcpy(got.data(), bytes.data(), bytes.size());
  if (got != layer.data.chosen) problem = "it chose other experts";
  for (const TestBuffer& buffer : {chosen, weights, places, row_of, begins, tiles}) {
    if (!buffers.intact(buffer)) problem = "it wrote beyond a list of choices";
  }
  const std::vector<float> result = selftest::decode(DType::F32, buffers.bytes_of(x));
  const ExpertsShape gate = layer.gate_launch();
  const selftest::Expected& expected = layer.data.expected;
  report.add(selftest::Sort::Experts, c,
             {routes ? concat(kernel.name, ", router") : std::string(kernel.name), c.type,
              expected.error(result), expected.bound,
              &select_experts(gate, routing, layer.test.gpu, {}) == &kernel, problem});
}

}  // namespace

void test_experts(const selftest::ExpertsCase& c, const selftest::ExpertsData& data,
                  const TestGpu& test, TestBuffers& buffers, selftest::Report& report) {
  const Layer layer(c, data, test, buffers);
  for (const ExpertsKernel& kernel : kExpertsKernels) {
    for (const bool routes : {false, true}) test_kernel(layer, kernel, routes, report);
  }
}

}  // namespace skald::cuda
