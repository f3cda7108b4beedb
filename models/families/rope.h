// The rotation frequencies of a model, scaled as its files ask: the formulas of Hugging Face's
// float32 code, so that long positions agree to the last digits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/program.h"

namespace skald {

class HfConfig;
class GgufFile;

struct RopeScaling {
  std::string type = "none";  // none, linear, llama3, dynamic, yarn, longrope
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  // Positions that the model knew before it was stretched; for all but linear.
  double original_context = 0;
  double beta_fast = 32, beta_slow = 1;          // yarn: turns within the original context
  bool truncate = true;                          // yarn: its ramp begins and ends at whole numbers
  double attention_factor = 1;                   // yarn, longrope: of cosines and sines
  std::vector<float> short_factor, long_factor;  // longrope: a divisor for each frequency
  std::vector<float> divisors;                   // the same of any type, as GGUF keeps llama3's
};

// dims / 2 frequencies. dynamic and longrope need to know how many tokens a text may have.
std::vector<float> rope_frequencies(double base, int dims, const RopeScaling& scaling,
                                    int64_t context = 0);

struct RopeConfig {
  double base = 10000;
  int dims = 0;  // of a head's, that rotate
  RopeScaling scaling;

  // Up to so many tokens of context the frequencies do not depend on it; 0: they never do.
  int64_t short_context() const;
  // What the model was stretched to, where its files give the length before that.
  int64_t stretched(int64_t context) const;
  RopeSpec spec() const;
};

// What a family has where its configuration says nothing.
struct HfRopeDefaults {
  double base = 10000;
  double original_context = 0;    // 0: max_position_embeddings
  bool partial = false;           // partial_rotary_factor may be other than 1
  bool yarn_is_longrope = false;  // "yarn" and "su" are old names of it
};

// Reads rope_parameters (transformers 5), or rope_theta with rope_scaling (4.x), where `type` and
// `rope_type` are the same. An unknown type or key is an error: it would change the result.
RopeConfig read_hf_rope(const HfConfig& config, int head_dim, const HfRopeDefaults& defaults = {});

// Reads <architecture>.rope.* and the tensors rope_freqs and rope_factors_{short,long}.
RopeConfig read_gguf_rope(const GgufFile& file, int head_dim);

}  // namespace skald
