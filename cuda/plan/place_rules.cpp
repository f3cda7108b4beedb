#include "cuda/plan/place_rules.h"

#include <algorithm>
#include <set>
#include <string>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald::cuda {
namespace {

// The tensor of a weight: "blk.0.ffn_up_exps.weight" for "blk.0.ffn_up_exps.weight[3][0:768]".
std::string tensor_of(const FusedProgram& fused, WeightId id) {
  const std::string& name = fused.program.weight(id).name;
  return name.substr(0, name.find('['));
}

// "blk.0.ffn_up_exps.weight" for "blk.0.ffn_up.3.weight"; empty for any other name.
std::string stack_of(const std::string& tensor) {
  const size_t last = tensor.rfind('.');
  if (last == tensor.npos || last == 0) return "";
  const size_t before = tensor.rfind('.', last - 1);
  if (before == tensor.npos || !tensor.starts_with("blk.")) return "";
  const std::string number = tensor.substr(before + 1, last - before - 1);
  const bool digits = !number.empty() && number.find_first_not_of("0123456789") == number.npos;
  return digits ? tensor.substr(0, before) + "_exps" + tensor.substr(last) : "";
}

// The names of an op's matrices, each once.
std::set<std::string> tensors_of(const FusedProgram& fused, const FusedOp& op) {
  std::set<std::string> names;
  const auto add = [&](WeightId id) {
    const std::string name = tensor_of(fused, id), stack = stack_of(name);
    names.insert(name);
    if (!stack.empty()) names.insert(stack);
  };
  if (const auto* embed = std::get_if<Embed>(&op.op)) add(embed->weight);
  if (const auto* linear = std::get_if<FusedLinear>(&op.op)) {
    for (WeightId part : linear->parts) add(part);
  }
  if (const auto* experts = std::get_if<FusedExperts>(&op.op)) {
    for (const ExpertStack& stack : fused.stacks(*experts)) {
      for (WeightId first : stack.parts) {
        for (int e = 0; e < experts->spec.count; ++e) {
          add(static_cast<WeightId>(static_cast<int32_t>(first) + e));
        }
      }
    }
  }
  return names;
}

// Up to three names that show how this model's tensors are called.
std::string examples(const FusedProgram& fused) {
  constexpr size_t kMost = 3;
  std::set<std::string> parts;  // one tensor of each kind: that of the first layer
  std::string text;
  for (size_t i = 0; i < fused.ops.size() && parts.size() < kMost; ++i) {
    if (!can_leave(fused, i, HostMemoryKind::Auto)) continue;
    const std::string name = *tensors_of(fused, fused.ops[i]).begin();
    if (parts.insert(name).second) text += concat(text.empty() ? "" : ", ", printable(name));
  }
  return text;
}

bool matches_any(const WeightRule& rule, const std::set<std::string>& names) {
  return std::any_of(names.begin(), names.end(), rule.matches);
}

// The first tensor, of any kind, that the rule matches; empty if there is none.
std::string first_match(const FusedProgram& fused, const WeightRule& rule) {
  for (size_t i = 0; i < fused.program.weights.size(); ++i) {
    std::string name = tensor_of(fused, static_cast<WeightId>(i));
    if (rule.matches(name)) return name;
  }
  return "";
}

}  // namespace

PlaceRules place_rules(const FusedProgram& fused, const RunOptions& options) {
  const std::vector<WeightRule>& rules = options.weight_rules;
  if (rules.empty()) return {};
  PlaceRules places(fused.ops.size());
  std::vector<bool> useful(rules.size());
  for (size_t i = 0; i < fused.ops.size(); ++i) {
    if (!can_leave(fused, i, options.host_memory)) continue;
    const std::set<std::string> names = tensors_of(fused, fused.ops[i]);
    for (size_t r = 0; r < rules.size(); ++r) {
      if (!matches_any(rules[r], names)) continue;
      if (!places[i]) places[i] = rules[r].place;
      useful[r] = true;
    }
  }
  for (size_t r = 0; r < rules.size(); ++r) {
    if (useful[r]) continue;
    const std::string stays = first_match(fused, rules[r]);
    if (stays.empty()) {
      fail(Exit::Usage, rules[r].text,
           " matches no tensor of this model; its tensors have names "
           "such as ",
           examples(fused));
    }
    if (rules[r].place == WeightPlace::Gpu) continue;
    const bool pageable = options.host_memory == HostMemoryKind::Pageable;
    fail(Exit::Usage, rules[r].text, ": what it matches (", printable(stays),
         ") cannot leave the GPU's memory, as the head, norms, biases",
         pageable ? ", with --host-memory pageable embeddings," : "",
         " and the layers of a looped model cannot; leave it out");
  }
  return places;
}

}  // namespace skald::cuda
