#include "engine/cpu/row_ops.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/cpu/product_observer.h"

namespace skald::cpu {

RowOps::RowOps(const Program& program, Kernels& kernels, int64_t most_rows,
               ProductObserver* observer)
    : program_(program), kernels_(kernels), most_rows_(most_rows), observer_(observer) {
  for (const ActSpec& act : program.acts) {
    acts_.emplace_back(most_rows * act.cols * int64_t{sizeof(float)}, "activations");
  }
  decode_vectors();
}

int64_t RowOps::bytes() const {
  int64_t bytes = 0;
  for (const Buffer& act : acts_) bytes += act.bytes();
  return bytes;
}

void RowOps::run(const Norm& op, int64_t rows) {
  const int64_t dim = cols(op.in);
  const float *in = data(op.in), *weight = vector(op.weight);
  switch (op.kind) {
    case NormKind::Rms:
      return kernels_.rms_norm({in, weight, data(op.out), rows, dim, op.eps});
    case NormKind::Layer:
      return kernels_.layer_norm({in, weight, vector(op.bias), data(op.out), rows, dim, op.eps});
  }
}

void RowOps::run(const HeadNorm& op, int64_t rows) {
  float* x = data(op.x);
  RmsNormArgs args = {x, vector(op.weight), x, rows * op.heads, op.head_dim, op.eps};
  if (op.weight != WeightId::None) {
    const TensorView& weight = program_.weight(op.weight).view;
    args.weights = weight.rows * weight.cols / op.head_dim;
  }
  kernels_.rms_norm(args);
}

void RowOps::run(const Linear& op, int64_t rows) {
  if (op.heads > 1) return run_heads(op, rows);
  if (observer_) observer_->see(program_.weight(op.weight), data(op.in), rows);
  kernels_.linear(
      {program_.weight(op.weight).view, vector(op.bias), data(op.in), data(op.out), rows});
}

void RowOps::run_heads(const Linear& op, int64_t rows) {
  const TensorView& weight = program_.weight(op.weight).view;
  const int64_t in_cols = cols(op.in), out_cols = cols(op.out);
  const int64_t outs = weight.rows / op.heads;
  head_in_.resize(static_cast<size_t>(most_rows_ * weight.cols));
  head_out_.resize(static_cast<size_t>(most_rows_ * outs));
  for (int head = 0; head < op.heads; ++head) {
    const float* in = data(op.in) + head * (in_cols / op.heads) + op.in_first;
    float* out = data(op.out) + head * (out_cols / op.heads) + op.out_first;
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(in + r * in_cols, weight.cols, head_in_.data() + r * weight.cols);
    }
    const TensorView own = slice_rows(weight, head * outs, outs);
    if (observer_) {
      Weight part = program_.weight(op.weight);
      part.whole = part.tensor();
      part.first_row += head * outs;
      part.view = own;
      observer_->see(part, head_in_.data(), rows);
    }
    kernels_.linear({own, nullptr, head_in_.data(), head_out_.data(), rows});
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(head_out_.data() + r * outs, outs, out + r * out_cols);
    }
  }
}

void RowOps::run(const HeadPart& op, int64_t rows) {
  kernels_.head_part({data(op.in), data(op.out), rows, cols(op.in), cols(op.out), op});
}

void RowOps::run(const GatedAct& op, int64_t rows) {
  kernels_.gated_act(
      {data(op.gate), data(op.up), data(op.out), rows * cols(op.out), op.activation});
}

void RowOps::run(const Activate& op, int64_t rows) {
  kernels_.activate({data(op.in), data(op.out), rows * cols(op.out), op.activation});
}

void RowOps::run(const RowGate& op, int64_t rows) {
  kernels_.row_gate({data(op.x), data(op.in), vector(op.weight), rows, cols(op.x), cols(op.in)});
}

void RowOps::run(const Experts& op, int64_t rows, const Choice& choice) {
  const auto first = [&](WeightId id) {
    return id == WeightId::None ? nullptr : &program_.weight(id);
  };
  if (observer_) observer_->see(program_.weight(op.router), data(op.route), rows);
  kernels_.experts({program_.weight(op.router).view, first(op.gate), first(op.up), first(op.down),
                    data(op.in), data(op.out), rows, op.spec, vector(op.router_bias),
                    vector(op.gate_bias), vector(op.up_bias), vector(op.down_bias),
                    vector(op.choice_bias), vector(op.expert_scale), data(op.route), choice.chosen,
                    choice.weights, observer_});
}

void RowOps::run(const Add& op, int64_t rows) {
  kernels_.add({data(op.x), data(op.y), rows * cols(op.x), op.scale, op.keep});
}

// Decodes norm weights, biases, convolutions and the numbers of heads to float32. Experts' biases
// have a row for each expert, convolutions one for each column.
void RowOps::decode_vectors() {
  vectors_.resize(program_.weights.size());
  std::set<WeightId> small;
  for (const Op& op : program_.ops) {
    const auto* experts = std::get_if<Experts>(&op);
    if (experts) small.insert({experts->gate_bias, experts->up_bias, experts->down_bias});
    if (const auto* conv = std::get_if<CausalConv>(&op)) small.insert(conv->weight);
    if (const auto* norm = std::get_if<HeadNorm>(&op)) small.insert(norm->weight);
    const auto* space = std::get_if<StateSpace>(&op);
    if (space) small.insert({space->rate, space->skip});
  }
  std::vector<std::byte> scratch;
  for (size_t i = 0; i < program_.weights.size(); ++i) {
    const TensorView& view = program_.weights[i].view;
    if (view.rows != 1 && !small.contains(static_cast<WeightId>(i))) continue;
    vectors_[i].resize(static_cast<size_t>(view.rows * view.cols));
    for (int64_t r = 0; r < view.rows; ++r) {
      view.decode_row(r, vectors_[i].data() + r * view.cols, scratch);
    }
    for (float& value : vectors_[i]) value += program_.weights[i].plus;
  }
  for (const Op& op : program_.ops) {
    WeightId log_rate = WeightId::None;
    const auto* net = std::get_if<DeltaNet>(&op);
    const auto* space = std::get_if<StateSpace>(&op);
    if (net && net->log_rate) log_rate = net->rate;
    if (space && space->log_rate) log_rate = space->rate;
    if (log_rate == WeightId::None) continue;
    for (float& value : vectors_[static_cast<size_t>(log_rate)]) value = -std::exp(value);
  }
}

}  // namespace skald::cpu
