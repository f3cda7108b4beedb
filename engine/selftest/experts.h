// The cases of routed experts on GPUs: few and many rows, experts that nobody and that everybody
// chooses, equal logits, sizes that no fast kernel takes; and what they come to in double
// precision, from the norm to the sum on the residual stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/program.h"
#include "engine/selftest/data.h"

namespace skald::selftest {

enum class Taste : uint8_t {
  Various,
  OneForAll,  // one expert is every row's best
  Ties,       // two experts each have equal logits
};

struct ExpertsCase {
  DType type;  // of the experts' matrices
  ExpertsSpec spec;
  int64_t dim, ffn_dim;
  int rows;
  Taste taste = Taste::Various;
  bool apart = false;  // up has a format of its own, Q8_0

  // Of activations: block formats have bf16.
  DType activations() const { return info(type).block_elems > 1 ? DType::BF16 : type; }
  DType up_type() const { return apart ? DType::Q8_0 : type; }
};
std::vector<ExpertsCase> experts_cases(Extent extent);
std::string label(const ExpertsCase& c);

struct ExpertsData {
  std::vector<float> x;                     // [rows, dim], the residual stream before
  std::vector<float> norm_weight;           // [dim]
  std::vector<float> router;                // [count, dim]
  std::vector<ProductData> gate, up, down;  // of each expert; the weights alone
  std::vector<int32_t> chosen;              // [rows, used]
  Expected expected;                        // [rows, dim]: x + kScale * the experts' sum
};
ExpertsData make_data(const ExpertsCase& c, uint64_t seed);

}  // namespace skald::selftest
