// Parts of matrices: rows, columns, and what a program computes with them.
#include "engine/program/tensor.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/cpu/executor.h"
#include "engine/cpu/kernels.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

constexpr int64_t kDim = 256, kWide = 3 * kDim, kOuts = 37, kVocab = 33;

// A copy of a view's numbers, row behind row.
class Copied final : public WeightFile {
 public:
  explicit Copied(const TensorView& view) : WeightFile("copied") {
    const auto own = static_cast<size_t>(view.own_row_bytes());
    for (int64_t r = 0; r < view.rows; ++r) {
      bytes_.insert(bytes_.end(), view.row(r), view.row(r) + own);
    }
    add({"part",
         {view.rows, view.cols},
         {bytes_.data(), view.type, view.rows, view.cols, view.own_row_bytes()},
         path()});
  }

 private:
  std::vector<std::byte> bytes_;
};

// An embedding and a product with columns of "wide", whose results an observer sees.
template <int64_t first>
Program build_cut(const ModelConfig&, const WeightFile& file) {
  ProgramBuilder b(file);
  const ActId x = b.act("x", kDim), y = b.act("y", kOuts);
  b.add(Embed{x, b.weight("embedding", kVocab, kDim)});
  b.add(Linear{y, x, b.weight_cols("wide", kOuts, kWide, first, kDim), WeightId::None});
  b.add(Logits{x, b.weight("embedding", kVocab, kDim)});
  return std::move(b).finish();
}

// The embedding of 5, 0, 32 and 7, or of 5 alone, and its product.
std::vector<std::vector<float>> outputs(const Model& model, cpu::KernelSet kernels, bool exact,
                                        size_t rows) {
  RunOptions options;
  options.exact = exact;
  options.threads = 2;
  const auto executor = cpu::make_executor(model, options, kernels);
  std::vector<std::vector<float>> all(executor->program().ops.size());
  executor->observe([&](const OpOutput& o) { all[o.op].assign(o.values.begin(), o.values.end()); });
  Sequence sequence = executor->new_sequence();
  const std::vector<int32_t> tokens = {5, 0, 32, 7};
  const SeqRows step{&sequence, std::span(tokens).first(rows), Want::Nothing};
  executor->run({&step, 1});
  return all;
}

}  // namespace

TEST_CASE("a part of a matrix counts its own bytes and leaves out the rest of its rows") {
  std::byte bytes[4 * 3 * 34] = {};
  const TensorView whole{bytes, DType::Q8_0, 4, 96, 3 * 34};
  const TensorView rows = slice_rows(whole, 1, 2);
  CHECK((rows.data == bytes + 3 * 34 && rows.rows == 2 && rows.cols == 96));
  CHECK(rows.bytes() == 2 * 3 * 34);
  const TensorView cols = slice_cols(whole, 32, 64);
  CHECK((cols.data == bytes + 34 && cols.rows == 4 && cols.cols == 64));
  CHECK(cols.own_row_bytes() == 2 * 34);
  CHECK(cols.bytes() == 4 * 2 * 34);
  const TensorView both = slice_rows(slice_cols(whole, 64, 32), 3, 1);
  CHECK(both.data + both.bytes() == bytes + sizeof bytes);
  CHECK(slice_cols({nullptr, DType::F32, 2, 8, 32}, 4, 4).data == nullptr);
}

TEST_CASE("a product with columns of a matrix is that with a copy of the columns") {
  const DType type = GENERATE(DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0,
                              DType::Q4_K, DType::Q6_K);
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const bool exact = GENERATE(false, true);
  const size_t rows = GENERATE(size_t{1}, size_t{4});
  CAPTURE(name(type), exact, rows);
  auto weights = std::make_shared<MadeWeights>();
  weights->matrix("embedding", DType::F32, kVocab, kDim);
  weights->matrix("wide", type, kOuts, kWide);
  ModelConfig c;
  c.architecture = "test";
  c.context = 64;
  for (const auto& [first, build] :
       {std::pair(int64_t{0}, &build_cut<0>), std::pair(kDim, &build_cut<kDim>),
        std::pair(2 * kDim, &build_cut<2 * kDim>)}) {
    const Model model{c, weights, build};
    const auto cut = outputs(model, kernels, exact, rows);
    const Program program = model.program();
    const auto& linear = std::get<Linear>(program.ops[1]);
    const TensorView& view = program.weight(linear.weight).view;
    CHECK(program.weight(linear.weight).name == concat("wide[:, ", first, ":", first + kDim, "]"));
    CHECK(view.row_bytes == row_bytes(type, kWide));

    // The same product, of a matrix that has these columns alone.
    const Copied copy(view);
    std::vector<float> expected(rows * kOuts);
    cpu::KernelOptions options;
    options.exact = exact;
    options.max_rows = 16;
    options.max_cols = kWide;
    const auto set = kernels == cpu::KernelSet::Fast ? cpu::fast_kernels(options)
                                                     : cpu::reference_kernels(options);
    set->linear({copy.find("part")->view, nullptr, cut[0].data(), expected.data(),
                 static_cast<int64_t>(rows)});
    CHECK(cut[1] == expected);
  }
}

}  // namespace skald::test
