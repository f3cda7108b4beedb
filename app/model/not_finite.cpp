#include "app/model/not_finite.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "app/model/op_label.h"
#include "engine/base/error.h"

namespace skald {

std::string first_not_finite(Executor& executor, std::span<const int32_t> ids) {
  if (!executor.observable()) return "the model (run by one process, skald says in which part)";
  std::optional<size_t> first;
  executor.observe([&](const OpOutput& output) {
    const auto bad = [](float x) { return !std::isfinite(x); };
    if (!first && std::any_of(output.values.begin(), output.values.end(), bad)) first = output.op;
  });
  Sequence sequence = executor.new_sequence();
  while (!ids.empty() && !first) {
    const auto part = ids.first(std::min(ids.size(), static_cast<size_t>(executor.max_rows())));
    ids = ids.subspan(part.size());
    const SeqRows rows{&sequence, part, Want::EveryRow};
    const int64_t wanted = executor.run({&rows, 1});
    for (int64_t row = 0; row < wanted && !first; ++row) executor.logits(row);
  }
  executor.observe({});
  if (!first) return "the model's last rows, but a second run gave finite numbers";
  const Program& program = executor.program();
  const int layer = op_layer(program, *first);
  return concat(layer >= 0                         ? concat("layer ", layer)
                : *first + 1 == program.ops.size() ? "the logits"
                : *first == 0                      ? "the embedding"
                                                   : "the head",
                " (", op_label(program, *first), ")");
}

}  // namespace skald
