// Fuses layers with a recurrent state: delta nets, state spaces, short convolutions.
#include "cuda/plan/delta_layer.h"
#include "cuda/plan/fuser.h"

namespace skald::cuda {

bool Fuser::delta_net() {
  const Norm* norm = stream_norm(at_);
  const size_t first = at_ + (norm ? 1 : 0);
  std::optional<DeltaLayer> layer = find_delta_layer(program_, first);
  if (!layer || (norm && norm->out != layer->products_in) ||
      !absorbs(at_, layer->last, layer->net.out, layer->net.convolved)) {
    return false;
  }
  FusedLinear linear;
  take_input(norm, layer->products_in, linear);
  linear.out = layer->net.in = buffers_.delta;
  linear.parts = std::move(layer->parts);
  linear.biases = std::move(layer->biases);
  emit(std::move(linear), layer->products_end - at_);
  layer->net.index = states_++;
  emit(layer->net, layer->last + 1 - at_);
  return true;
}

std::optional<int> Fuser::SideBySide::find(ActId buffer) const {
  for (const auto& [out, col] : columns) {
    if (out == buffer) return col;
  }
  return {};
}

std::optional<Fuser::SideBySide> Fuser::side_by_side(const Norm* norm, size_t first, size_t count) {
  SideBySide products;
  const auto* linear = get<Linear>(first);
  if (!linear) return {};
  products.in = norm ? norm->out : linear->in;
  int col = 0;
  for (size_t i = first; i < first + count; ++i) {
    linear = get<Linear>(i);
    if (!linear || linear->in != products.in || linear->heads != 1) return {};
    products.columns.emplace_back(linear->out, col);
    products.linear.parts.push_back(linear->weight);
    products.linear.biases.push_back(linear->bias);
    col += static_cast<int>(program_.act(linear->out).cols);
  }
  products.linear.out = buffers_.delta;
  return products;
}

bool Fuser::state_space() {
  const Norm* norm = stream_norm(at_);
  const size_t first = at_ + (norm ? 1 : 0);
  constexpr size_t kProducts = 3;
  const auto* conv = get<CausalConv>(first + kProducts);
  const auto* space = get<StateSpace>(first + kProducts + 1);
  const auto* gate = get<GatedAct>(first + kProducts + 2);
  const auto* head_norm = get<HeadNorm>(first + kProducts + 3);
  const size_t last = first + kProducts + 3;
  if (!conv || !space || !gate || !head_norm || conv->activation != Activation::Silu ||
      conv->out != space->in || gate->up != space->out || gate->out != space->out ||
      gate->activation != Activation::Silu || head_norm->x != space->out ||
      head_norm->weight == WeightId::None || head_norm->heads != space->spec.groups ||
      program_.weight(head_norm->weight).view.rows * program_.weight(head_norm->weight).view.cols !=
          space->spec.values()) {
    return false;
  }
  std::optional<SideBySide> products = side_by_side(norm, first, kProducts);
  if (!products) return false;
  const std::optional<int> gates = products->find(gate->gate), mixed = products->find(conv->in),
                           step = products->find(space->step);
  if (!gates || !mixed || !step || !absorbs(at_, last, space->out, conv->out)) return false;
  FusedSpace fused = {space->out,        buffers_.delta,  conv->out,   conv->weight,
                      conv->bias,        space->rate,     space->bias, space->skip,
                      head_norm->weight, head_norm->eps,  space->spec, {*gates, *mixed, *step},
                      conv->taps,        space->log_rate, states_++};
  take_input(norm, products->in, products->linear);
  emit(std::move(products->linear), first + kProducts - at_);
  emit(fused, last + 1 - at_);
  return true;
}

bool Fuser::short_conv() {
  const Norm* norm = stream_norm(at_);
  const size_t first = at_ + (norm ? 1 : 0);
  constexpr size_t kThirds = 3;
  const auto* before = get<GatedAct>(first + kThirds);
  const auto* conv = get<CausalConv>(first + kThirds + 1);
  const auto* after = get<GatedAct>(first + kThirds + 2);
  const size_t last = first + kThirds + 2;
  if (!before || !conv || !after) return false;
  const auto multiplies = [](const GatedAct& gate) {
    return gate.activation == Activation::Identity && gate.out == gate.up;
  };
  if (!multiplies(*before) || !multiplies(*after) || before->out != conv->in ||
      after->out != conv->out || conv->activation != Activation::Identity ||
      conv->bias != WeightId::None) {
    return false;
  }
  std::optional<SideBySide> products = side_by_side(norm, first, kThirds);
  if (!products) return false;
  const std::optional<int> before_at = products->find(before->gate),
                           x_at = products->find(conv->in), after_at = products->find(after->gate);
  if (!before_at || !x_at || !after_at || !absorbs(at_, last, after->out)) return false;
  FusedShortConv fused = {after->out, buffers_.delta, conv->weight, {}, conv->taps, states_++};
  fused.columns.before = *before_at;
  fused.columns.x = *x_at;
  fused.columns.after = *after_at;
  take_input(norm, products->in, products->linear);
  emit(std::move(products->linear), first + kThirds - at_);
  emit(fused, last + 1 - at_);
  return true;
}

}  // namespace skald::cuda
