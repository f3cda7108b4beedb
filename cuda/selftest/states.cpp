// Self-test of delta nets and state spaces: every kernel that supports a case, its output and the
// states after it.
#include <algorithm>
#include <cmath>

#include "cuda/run/launchers.h"
#include "cuda/selftest/run.h"

namespace skald::cuda {
namespace {

using selftest::DeltaCase;
using selftest::DeltaData;
using selftest::Part;
using selftest::SpaceCase;
using selftest::SpaceData;

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

// Runs the kernels on one case. In the states' memory, sequence p has slot p + 1; slot 0 stays NaN.
template <class Case, class Data, class Shape>
class StateTest {
 public:
  StateTest(const Case& c, const Data& data, const Shape& shape, const TestGpu& test,
            TestBuffers& buffers)
      : c_(c),
        data_(data),
        shape_(shape),
        test_(test),
        buffers_(buffers),
        slot_floats_(shape.state_floats() + 8) {
    for (size_t p = 0; p < c.parts.size(); ++p) {
      for (int r = 0; r < c.parts[p].rows; ++r) {
        positions_.push_back(c.parts[p].before + r);
        sequences_.push_back(static_cast<int32_t>(p));
      }
      begins_.push_back(static_cast<int32_t>(positions_.size()));
      slots_.push_back(static_cast<int32_t>(p + 1));
    }
  }

  // Runs each kernel that supports the case. `fill` gives a launch its input and the weights that
  // only its kind of layer has, and returns scratch memory.
  template <class Launch, class Kernels, class Fill>
  void run(const Kernels& kernels, const Fill& fill, selftest::Report& report) const {
    for (const auto& kernel : kernels) {
      if (!runs_on(kernel.code, test_.gpu.compute_capability) || !kernel.supports(shape_)) continue;
      if (kernel.decode && !c_.one_row_each()) continue;
      buffers_.reset();
      const int64_t element = info(c_.type).block_bytes;
      const auto parts = static_cast<int>(c_.parts.size());
      Launch launch = {};
      launch.shape = shape_;
      const TestBuffer scratch = fill(launch);
      const TestBuffer convolved = buffers_.poisoned(c_.rows() * c_.conv_cols() * element);
      const TestBuffer out = buffers_.poisoned(c_.rows() * c_.spec.values() * element);
      const TestBuffer state = buffers_.holding(before());
      launch.convolved = convolved.data;
      launch.out = out.data;
      launch.conv = floats(data_.conv);
      launch.rate = floats(data_.rate);
      launch.bias = floats(data_.bias);
      launch.norm = floats(data_.norm);
      launch.norm_eps = selftest::kNormEps;
      launch.log_rate = c_.log_rate;
      launch.rows = c_.rows();
      launch.sequences = parts;
      launch.step.positions = list(positions_);
      launch.step.sequences = list(sequences_);
      launch.step.begins = list(begins_);
      launch.step.slots = list(slots_);
      launch.states = reinterpret_cast<float*>(state.data);
      launch.slot_floats = slot_floats_;
      launch.dependent = kernel.decode && has_dependent_launches(test_.gpu);
      cuda::launch(kernel, launch, test_.stream);
      SKALD_CUDA(cudaStreamSynchronize(test_.stream));

      selftest::Result result = {};
      result.kernel = kernel.name;
      result.type = c_.type;
      result.error = data_.out.error(selftest::decode(c_.type, buffers_.bytes_of(out)));
      result.bound = data_.out.bound;
      const StateNeed need = {c_.one_row_each(), c_.rows() < kFewestChunkRows * parts, false};
      result.selected = &kernel == &select_state(shape_, need, test_.gpu);
      const std::vector<std::byte> after = buffers_.bytes_of(state);
      std::vector<float> numbers(after.size() / sizeof(float));
      std::memcpy(numbers.data(), after.data(), after.size());
      result.problem = problem(numbers);
      for (const TestBuffer& buffer : {out, state, convolved, scratch}) {
        if (buffer.data && !buffers_.intact(buffer)) result.problem = "wrote beyond its output";
      }
      report.add(selftest::Sort::State, c_, result);
    }
  }

  const float* floats(const std::vector<float>& values) const {
    return reinterpret_cast<const float*>(buffers_.holding(values).data);
  }

 private:
  const int32_t* list(const std::vector<int32_t>& values) const {
    return reinterpret_cast<const int32_t*>(buffers_.holding(values).data);
  }

  // The memory of states before the step.
  std::vector<float> before() const {
    std::vector<float> all(static_cast<size_t>((std::ssize(c_.parts) + 1) * slot_floats_),
                           std::nanf(""));
    for (size_t p = 0; p < c_.parts.size(); ++p) {
      float* slot = all.data() + static_cast<int64_t>(p + 1) * slot_floats_;
      for (int t = 0; t < c_.taps - 1; ++t) {
        const int position = c_.parts[p].before - (c_.taps - 1) + t;
        if (position < 0) continue;
        std::copy_n(data_.inputs[p].data() + t * c_.conv_cols(), c_.conv_cols(),
                    slot + position % c_.taps * c_.conv_cols());
      }
      std::copy(data_.matrices[p].begin(), data_.matrices[p].end(), slot + shape_.ring_floats());
    }
    return all;
  }

  // What is wrong with the states after the step, or "".
  std::string problem(const std::vector<float>& after) const {
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
                                         data_.inputs_after[p].data() + t * c_.conv_cols())) {
          return "the inputs of the convolution in the state are not the last ones";
        }
      }
    }
    const double error = data_.learned.error(matrices);
    if (error <= data_.learned.bound) return "";
    return concat("the matrices after the step: error ", error, ", bound ", data_.learned.bound);
  }

  const Case& c_;
  const Data& data_;
  const Shape& shape_;
  const TestGpu& test_;
  TestBuffers& buffers_;
  int64_t slot_floats_;
  std::vector<int32_t> positions_, sequences_, begins_ = {0}, slots_;
};

// A product's row may begin with numbers of something else.
SpaceShape shape_of(const SpaceCase& c) {
  const auto values = static_cast<int>(c.spec.values());
  const SpaceColumns columns = {4, 4 + values, 4 + values + static_cast<int>(c.conv_cols())};
  return {c.type, c.spec, columns, c.taps, (columns.step + c.spec.heads + 3) / 4 * 4};
}

std::vector<float> product_rows(const SpaceCase& c, const SpaceData& data,
                                const SpaceShape& shape) {
  std::vector<float> rows(static_cast<size_t>(c.rows() * shape.row_numbers), std::nanf(""));
  for (int64_t r = 0; r < c.rows(); ++r) {
    float* row = rows.data() + r * shape.row_numbers;
    const auto put = [&](const std::vector<float>& from, int64_t cols, int to) {
      std::copy_n(from.data() + r * cols, cols, row + to);
    };
    put(data.gate, c.spec.values(), shape.columns.gate);
    put(data.mixed, c.conv_cols(), shape.columns.mixed);
    put(data.step, c.spec.heads, shape.columns.step);
  }
  return rows;
}

}  // namespace

void test_delta(const DeltaCase& c, const DeltaData& data, const TestGpu& test,
                TestBuffers& buffers, selftest::Report& report) {
  const DeltaShape shape = shape_of(c);
  const auto fill = [&](DeltaLaunch& launch) {
    launch.in = buffers.holding(c.type, product_rows(c, data, shape)).data;
    const TestBuffer factors =
        buffers.poisoned(4 * delta_factor_floats(shape, c.rows(), std::ssize(c.parts)));
    launch.factors = reinterpret_cast<float*>(factors.data);
    return factors;
  };
  StateTest(c, data, shape, test, buffers).run<DeltaLaunch>(kDeltaKernels, fill, report);
}

void test_space(const SpaceCase& c, const SpaceData& data, const TestGpu& test,
                TestBuffers& buffers, selftest::Report& report) {
  const SpaceShape shape = shape_of(c);
  const StateTest space(c, data, shape, test, buffers);
  const auto fill = [&](SpaceLaunch& launch) {
    launch.in = buffers.holding(c.type, product_rows(c, data, shape)).data;
    if (c.biased) launch.conv_bias = space.floats(data.conv_bias);
    launch.skip = space.floats(data.skip);
    return TestBuffer();
  };
  space.run<SpaceLaunch>(kSpaceKernels, fill, report);
}

}  // namespace skald::cuda
