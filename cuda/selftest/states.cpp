// Self-test of delta nets: every kernel that supports a case, its output and the states after it.
#include <algorithm>
#include <cmath>

#include "cuda/run/launchers.h"
#include "cuda/selftest/run.h"

namespace skald::cuda {
namespace {

using selftest::DeltaCase;
using selftest::DeltaData;
using selftest::Part;

// A row of the product, in the layout of the case. Each kind of heads is a list of columns.
DeltaShape shape_of(const DeltaCase& c) {
  const DeltaSpec& s = c.spec;
  const int shared = s.value_heads / s.key_heads;
  DeltaShape shape = {c.type, s, {}, c.taps, 0};
  int at = 4;  // a product's row may begin with numbers of something else
  const auto place = [&](HeadColumns& columns, int width, bool values) {
    const int members = values ? shared : 1;
    const bool turns = values && s.order == HeadOrder::Turns;
    columns.first = at;
    columns.group = turns ? width : members * width;
    columns.member = turns ? s.key_heads * width : width;
    at += s.key_heads * members * width;
  };
  DeltaColumns& d = shape.columns;
  place(d.query, s.key_dim, false);
  place(d.key, s.key_dim, false);
  place(d.value, s.value_dim, true);
  place(d.gate, s.value_dim, true);
  place(d.beta, 1, true);
  place(d.decay, 1, true);
  if (c.grouped) {
    at = 0;
    HeadColumns* const all[] = {&d.query, &d.key, &d.value, &d.gate, &d.beta, &d.decay};
    const int widths[] = {s.key_dim, s.key_dim, s.value_dim, s.value_dim, 1, 1};
    for (int i = 0; i < 6; ++i) {
      const int members = i < 2 ? 1 : shared;
      *all[i] = {at, 0, widths[i]};
      at += members * widths[i];
    }
    const int group = (at + 3) / 4 * 4;
    for (HeadColumns* columns : all) columns->group = group;
    at = group * s.key_heads;
  }
  shape.row_numbers = (at + 3) / 4 * 4;
  return shape;
}

std::vector<float> product_rows(const DeltaCase& c, const DeltaData& data,
                                const DeltaShape& shape) {
  const DeltaSpec& s = c.spec;
  std::vector<float> rows(static_cast<size_t>(c.rows() * shape.row_numbers), std::nanf(""));
  for (int64_t r = 0; r < c.rows(); ++r) {
    float* row = rows.data() + r * shape.row_numbers;
    const float* mixed = data.mixed.data() + r * c.conv_cols();
    for (int k = 0; k < s.key_heads; ++k) {
      std::copy_n(mixed + k * s.key_dim, s.key_dim, row + shape.columns.query.of(k, 0));
      std::copy_n(mixed + s.keys() + k * s.key_dim, s.key_dim, row + shape.columns.key.of(k, 0));
    }
    for (int h = 0; h < s.value_heads; ++h) {
      const DeltaHead place = DeltaHead::of(s, h);
      const auto to = [&](const HeadColumns& columns) {
        return row + columns.of(place.group, place.member);
      };
      const int64_t at = r * s.value_heads + h;
      std::copy_n(mixed + 2 * s.keys() + h * s.value_dim, s.value_dim, to(shape.columns.value));
      std::copy_n(data.gate.data() + at * s.value_dim, s.value_dim, to(shape.columns.gate));
      *to(shape.columns.decay) = data.decay[static_cast<size_t>(at)];
      *to(shape.columns.beta) = data.beta[static_cast<size_t>(at)];
    }
  }
  return rows;
}

// The states of a case in the kernels' layout: sequence p has slot p + 1, slot 0 stays NaN.
class States {
 public:
  States(const DeltaCase& c, const DeltaShape& shape)
      : c_(c), shape_(shape), slot_floats_(shape.state_floats() + 8) {}

  int64_t slot_floats() const { return slot_floats_; }

  std::vector<float> before(const DeltaData& data) const {
    std::vector<float> all(static_cast<size_t>((std::ssize(c_.parts) + 1) * slot_floats_),
                           std::nanf(""));
    for (size_t p = 0; p < c_.parts.size(); ++p) {
      float* slot = all.data() + static_cast<int64_t>(p + 1) * slot_floats_;
      for (int t = 0; t < c_.taps - 1; ++t) {
        const int position = c_.parts[p].before - (c_.taps - 1) + t;
        if (position < 0) continue;
        std::copy_n(data.inputs[p].data() + t * c_.conv_cols(), c_.conv_cols(),
                    slot + position % c_.taps * c_.conv_cols());
      }
      std::copy(data.matrices[p].begin(), data.matrices[p].end(), slot + shape_.ring_floats());
    }
    return all;
  }

  // What is wrong with the states after the step, or "".
  std::string problem(const DeltaData& data, const std::vector<float>& after) const {
    std::vector<float> matrices;
    for (size_t p = 0; p < c_.parts.size(); ++p) {
      const float* slot = after.data() + static_cast<int64_t>(p + 1) * slot_floats_;
      const float* matrix = slot + shape_.ring_floats();
      matrices.insert(matrices.end(), matrix, matrix + c_.spec.state_floats());
      const int length = c_.parts[p].before + c_.parts[p].rows;
      for (int t = 0; t < c_.taps - 1; ++t) {
        const int position = length - (c_.taps - 1) + t;
        const float* ring = slot + position % c_.taps * c_.conv_cols();
        if (position >= 0 && !std::equal(ring, ring + c_.conv_cols(),
                                         data.inputs_after[p].data() + t * c_.conv_cols())) {
          return "the inputs of the convolution in the state are not the last ones";
        }
      }
    }
    const double error = data.learned.error(matrices);
    if (error <= data.learned.bound) return "";
    return concat("the matrices after the step: error ", error, ", bound ", data.learned.bound);
  }

 private:
  const DeltaCase& c_;
  const DeltaShape& shape_;
  int64_t slot_floats_;
};

}  // namespace

void test_delta(const DeltaCase& c, const DeltaData& data, const TestGpu& test,
                TestBuffers& buffers, selftest::Report& report) {
  const DeltaShape shape = shape_of(c);
  const States states(c, shape);
  std::vector<int32_t> positions, sequences, begins = {0}, slots;
  for (size_t p = 0; p < c.parts.size(); ++p) {
    for (int r = 0; r < c.parts[p].rows; ++r) {
      positions.push_back(c.parts[p].before + r);
      sequences.push_back(static_cast<int32_t>(p));
    }
    begins.push_back(static_cast<int32_t>(positions.size()));
    slots.push_back(static_cast<int32_t>(p + 1));
  }
  const auto parts = static_cast<int>(c.parts.size());
  for (const DeltaKernel& kernel : kDeltaKernels) {
    if (!runs_on(kernel.code, test.gpu.compute_capability) || !kernel.supports(shape)) continue;
    if (kernel.decode && !c.one_row_each()) continue;
    buffers.reset();
    const auto floats = [&](const std::vector<float>& values) {
      return reinterpret_cast<float*>(buffers.holding(values).data);
    };
    const auto list = [&](const std::vector<int32_t>& values) {
      return reinterpret_cast<const int32_t*>(buffers.holding(values).data);
    };
    const int64_t element = info(c.type).block_bytes;
    DeltaLaunch launch = {};
    launch.shape = shape;
    launch.in = buffers.holding(c.type, product_rows(c, data, shape)).data;
    const TestBuffer convolved = buffers.poisoned(c.rows() * c.conv_cols() * element);
    const TestBuffer out = buffers.poisoned(c.rows() * c.spec.values() * element);
    const TestBuffer state = buffers.holding(states.before(data));
    const TestBuffer factors = buffers.poisoned(4 * delta_factor_floats(shape, c.rows(), parts));
    launch.convolved = convolved.data;
    launch.out = out.data;
    launch.factors = reinterpret_cast<float*>(factors.data);
    launch.conv = floats(data.conv);
    launch.rate = floats(data.rate);
    launch.bias = floats(data.bias);
    launch.norm = floats(data.norm);
    launch.norm_eps = selftest::kNormEps;
    launch.log_rate = c.log_rate;
    launch.rows = c.rows();
    launch.sequences = parts;
    launch.step.positions = list(positions);
    launch.step.sequences = list(sequences);
    launch.step.begins = list(begins);
    launch.step.slots = list(slots);
    launch.states = reinterpret_cast<float*>(state.data);
    launch.slot_floats = states.slot_floats();
    launch.dependent = kernel.decode && has_dependent_launches(test.gpu);
    cuda::launch(kernel, launch, test.stream);
    SKALD_CUDA(cudaStreamSynchronize(test.stream));

    selftest::Result result = {};
    result.kernel = kernel.name;
    result.type = c.type;
    result.error = data.out.error(selftest::decode(c.type, buffers.bytes_of(out)));
    result.bound = data.out.bound;
    const DeltaNeed need = {c.one_row_each(), c.rows() < kFewestChunkRows * parts, false};
    result.selected = &kernel == &select_delta(shape, need, test.gpu);
    const std::vector<std::byte> after = buffers.bytes_of(state);
    std::vector<float> numbers(after.size() / sizeof(float));
    std::memcpy(numbers.data(), after.data(), after.size());
    result.problem = states.problem(data, numbers);
    if (!buffers.intact(out) || !buffers.intact(state) || !buffers.intact(convolved) ||
        !buffers.intact(factors)) {
      result.problem = "wrote beyond its output";
    }
    report.add(selftest::Sort::State, c, result);
  }
}

}  // namespace skald::cuda
