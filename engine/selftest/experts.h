// The cases of routed experts on GPUs: few and many rows, experts that no row or every row chooses,
// equal logits, sizes that no fast kernel supports. Results in double precision cover the whole
// block, from the norm to the addition to the residual stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/program.h"
#include "engine/selftest/data.h"

namespace skald::selftest {

enum class Taste : uint8_t {
  Various,    // random logits
  OneForAll,  // every row prefers the same expert
  Ties,       // experts have equal logits in pairs
};

// An expert that every row has besides the chosen ones. Gated: its weight is a sigmoid.
enum class Shared : uint8_t { None, Plain, Gated };

struct ExpertsCase {
  DType type;  // format of the experts' matrices
  ExpertsSpec spec;
  int64_t dim, ffn_dim;
  int rows;
  Taste taste = Taste::Various;
  bool apart = false;   // true: up has another format than gate, Q8_0
  bool biased = false;  // router and products
  // The router's input has norm weights of its own, and each expert's weight a factor.
  bool own_route = false;
  bool gateless = false;  // relu² of up, without a gate
  Shared shared = Shared::None;

  // The type of activations: bf16 for block formats.
  DType activations() const { return info(type).block_elems > 1 ? DType::BF16 : type; }
  DType up_type() const { return apart ? DType::Q8_0 : type; }
};
std::vector<ExpertsCase> experts_cases(Extent extent);
std::string label(const ExpertsCase& c);

struct ExpertsData {
  std::vector<float> x;            // [rows, dim], the residual stream before
  std::vector<float> norm_weight;  // [dim]
  std::vector<float> router;       // [count, dim]
  // One per expert, and the shared expert's last; only the weights are used.
  std::vector<ProductData> gate, up, down;
  std::vector<float> shared_gate;  // [dim], with Shared::Gated
  // With biases: [count], [count, ffn_dim] twice, [count, dim].
  std::vector<float> router_bias, gate_bias, up_bias, down_bias;
  std::vector<float> choice_bias;  // [count], with sigmoids
  // With own_route: [dim], [count].
  std::vector<float> route_weight, expert_scale;
  std::vector<int32_t> chosen;  // [rows, used]
  Expected expected;            // [rows, dim]: x + kScale * sum of all experts
};
ExpertsData make_data(const ExpertsCase& c, uint64_t seed);

}  // namespace skald::selftest
