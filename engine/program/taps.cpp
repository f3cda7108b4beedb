#include "engine/program/taps.h"

#include <algorithm>
#include <string>

#include "engine/base/error.h"

namespace skald {
namespace {

// The weight that names the layer of an op which reads the residual stream; None for other ops.
WeightId first_weight(const Op& op) {
  if (const auto* norm = std::get_if<Norm>(&op)) return norm->weight;
  if (const auto* linear = std::get_if<Linear>(&op)) return linear->weight;
  return WeightId::None;
}

// The first op of a layer.
size_t begin_of(const Program& program, int layer) {
  const std::string prefix = concat("blk.", layer, ".");
  const auto found = std::find_if(program.ops.begin(), program.ops.end(), [&](const Op& op) {
    const WeightId weight = first_weight(op);
    return weight != WeightId::None && program.weight(weight).tensor().starts_with(prefix);
  });
  if (found == program.ops.end()) {
    fail(Exit::Model, "the model has no layer ", layer, ", which the guessing head reads");
  }
  return static_cast<size_t>(found - program.ops.begin());
}

}  // namespace

Program add_taps(Program program, std::span<const int> layers) {
  const ActId stream = program.stream();
  const auto dim = static_cast<int>(program.act(stream).cols);
  program.acts.push_back({"taps", std::ssize(layers) * dim});
  program.taps = static_cast<ActId>(program.acts.size() - 1);
  for (size_t i = 0; i < layers.size(); ++i) {
    const HeadPart copy = {*program.taps, stream, 1, dim, 0, static_cast<int>(i) * dim};
    const auto at = static_cast<std::ptrdiff_t>(begin_of(program, layers[i]));
    program.ops.insert(program.ops.begin() + at, copy);
  }
  check_program(program);
  return program;
}

}  // namespace skald
