#include "app/model/op_label.h"

#include <charconv>

#include "engine/base/error.h"

namespace skald {
namespace {

// The layer in a name such as "blk.12.attn_q.weight", else -1.
int layer_in(std::string_view name) {
  constexpr std::string_view kBlock = "blk.";
  int layer = -1;
  if (name.starts_with(kBlock)) {
    std::from_chars(name.data() + kBlock.size(), name.data() + name.size(), layer);
  }
  return layer;
}

std::string_view weight_name(const Program& program, const Op& op) {
  return std::visit(
      [&](const auto& o) -> std::string_view {
        if constexpr (requires { o.weight; }) return program.weight(o.weight).name;
        if constexpr (requires { o.router; }) return program.weight(o.router).name;
        return "";
      },
      op);
}

}  // namespace

std::string op_label(const Program& program, size_t op) {
  const Op& o = program.ops[op];
  std::string label(op_name(o));
  if (const auto* attention = std::get_if<Attention>(&o)) {
    return label + concat(" of layer ", attention->layer);
  }
  const bool ends = std::holds_alternative<Embed>(o) || std::holds_alternative<Logits>(o);
  return !ends && !weight_name(program, o).empty() ? label + concat(" ", weight_name(program, o))
                                                   : label;
}

int op_layer(const Program& program, size_t op) {
  // Rope and Add have no weight: they belong to the layer of the op before them.
  for (size_t i = op + 1; i-- > 0;) {
    if (const auto* attention = std::get_if<Attention>(&program.ops[i])) return attention->layer;
    const std::string_view name = weight_name(program, program.ops[i]);
    if (!name.empty()) return layer_in(name);
  }
  return -1;
}

}  // namespace skald
