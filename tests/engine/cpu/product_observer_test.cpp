// An observer of products sees the inputs that the ops before them made.
#include "engine/cpu/product_observer.h"

#include <map>

#include "engine/base/error.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

struct Seen {
  int64_t rows = 0;
  double squares = 0;
};

double squares(const float* values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += double{values[i]} * values[i];
  return sum;
}

class Counting final : public cpu::ProductObserver {
 public:
  void see(const Weight& weight, const float* in, int64_t rows) override {
    Seen& seen = by_tensor[weight.tensor()];
    seen.rows += rows;
    seen.squares += squares(in, rows * weight.view.cols);
    rows_of_expert[{weight.tensor(), weight.first_row / weight.view.rows}] += rows;
  }
  std::map<std::string, Seen> by_tensor;
  std::map<std::pair<std::string, int64_t>, int64_t> rows_of_expert;
};

constexpr int64_t kRows = 37;

// The observer's sums, and those of each buffer that an op of the program has filled.
Counting observed(const Model& model, cpu::KernelSet kernels,
                  std::map<std::string, double>* buffers = nullptr) {
  Counting counting;
  const auto executor =
      cpu::make_observed_executor(model, {.rows = 20, .threads = 2}, counting, kernels);
  if (buffers) {
    executor->observe([&](const OpOutput& seen) {
      (*buffers)[std::string(seen.name)] += squares(seen.values.data(), std::ssize(seen.values));
    });
  }
  Sequence sequence = executor->new_sequence();
  const std::vector<int32_t> tokens = random_tokens(kRows, 1);
  for (size_t at = 0; at < tokens.size(); at += 20) {
    const SeqRows step{&sequence, std::span(tokens).subspan(at, std::min<size_t>(20, kRows - at)),
                       Want::Nothing};
    executor->run({&step, 1});
  }
  return counting;
}

}  // namespace

TEST_CASE("the observer sees all rows of each product once") {
  const Model model = random_llama({.layers = 1});
  const Counting counting = observed(model, cpu::KernelSet::Fast);
  size_t products = 0;
  for (const Op& op : model.program().ops) products += std::holds_alternative<Linear>(op);
  CHECK(counting.by_tensor.size() == products + 1);  // and the output's
  for (const auto& [tensor, seen] : counting.by_tensor) {
    CAPTURE(tensor);
    CHECK(seen.rows == kRows);
    CHECK(seen.squares > 0);
  }
  const auto of = [&](const char* tensor) { return counting.by_tensor.at(tensor).squares; };
  CHECK(of("blk.0.attn_q.weight") == of("blk.0.attn_v.weight"));
  CHECK(of("blk.0.ffn_gate.weight") == of("blk.0.ffn_up.weight"));
  CHECK(of("blk.0.attn_q.weight") != of("blk.0.ffn_up.weight"));
}

TEST_CASE("the observer sees the buffer that a product reads") {
  const Model model = random_llama({.layers = 1});
  std::map<std::string, double> buffers;
  const Counting counting = observed(model, cpu::KernelSet::Fast, &buffers);
  const Program program = model.program();
  int compared = 0;
  for (const Op& op : program.ops) {
    const auto* linear = std::get_if<Linear>(&op);
    if (!linear) continue;
    // Buffers that several ops fill have other sums.
    int fillers = 0;
    for (const Op& other : program.ops) {
      const auto out = op_output(other);
      fillers += out && *out == linear->in;
    }
    if (fillers != 1) continue;
    ++compared;
    const std::string& tensor = program.weight(linear->weight).tensor();
    CAPTURE(tensor);
    CHECK(counting.by_tensor.at(tensor).squares ==
          Approx(buffers.at(program.act(linear->in).name)).epsilon(1e-9));
  }
  CHECK(compared > 0);
}

TEST_CASE("the observer sees the rows of each expert, the same from both sets of kernels") {
  const Model model = random_llama({.layers = 1, .experts = {8, 3, 64, true, {}}});
  const Counting fast = observed(model, cpu::KernelSet::Fast);
  const Counting plain = observed(model, cpu::KernelSet::Reference);
  for (const char* part : {"gate", "up", "down"}) {
    const std::string tensor = concat("blk.0.ffn_", part, "_exps.weight");
    CAPTURE(tensor);
    CHECK(fast.by_tensor.at(tensor).rows == 3 * kRows);
    CHECK(fast.by_tensor.at(tensor).squares ==
          Approx(plain.by_tensor.at(tensor).squares).epsilon(0.01));
  }
  CHECK(fast.rows_of_expert == plain.rows_of_expert);
  CHECK(fast.by_tensor.at("blk.0.ffn_gate_inp.weight").rows == kRows);
  // Three experts of each row read it.
  CHECK(fast.by_tensor.at("blk.0.ffn_gate_exps.weight").squares ==
        Approx(3 * fast.by_tensor.at("blk.0.ffn_gate_inp.weight").squares));
}

}  // namespace skald::test
