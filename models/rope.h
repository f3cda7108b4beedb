// The rotation frequencies of a model, scaled as its files ask: the formulas of Hugging Face's
// float32 code, so that long positions agree to the last digits.
#pragma once

#include <string>
#include <vector>

namespace skald {

class HfConfig;

struct RopeScaling {
  std::string type = "none";  // none, linear, llama3
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double original_context = 0;                       // llama3
};

// Reads rope_parameters (transformers 5), or rope_theta with rope_scaling (4.x), where `type` and
// `rope_type` are the same. An unknown type is an error: it would change the result.
struct HfRope {
  double base;
  RopeScaling scaling;
};
HfRope read_hf_rope(const HfConfig& config, double default_base);

// dims / 2 frequencies.
std::vector<float> rope_frequencies(double base, int dims, const RopeScaling& scaling);

}  // namespace skald
