// The rope frequencies of a model, with rope scaling. Uses the formulas of transformers' float32
// code, so that even long positions agree to the last digits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/program.h"

namespace skald {

class HfConfig;
class GgufFile;

struct RopeScaling {
  std::string type = "none";  // none, linear, llama3, dynamic, yarn, longrope, proportional
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  // Context that the model was first trained with, before scaling; not for linear.
  double original_context = 0;
  double beta_fast = 32, beta_slow = 1;          // yarn: turns within the original context
  bool truncate = true;                          // yarn: the ramp's ends are rounded to integers
  double attention_factor = 1;                   // yarn, longrope: multiplies cosines and sines
  std::vector<float> short_factor, long_factor;  // longrope: a divisor per frequency
  // Any type: a divisor per frequency (rope_freqs). Infinity: the pair does not turn, as most pairs
  // of type proportional.
  std::vector<float> divisors;
};

// The divisor that GGUF's writers give to pairs that do not turn.
inline constexpr float kStillDivisor = 1e30f;

// Returns dims / 2 frequencies. dynamic and longrope depend on `context`, in tokens.
std::vector<float> rope_frequencies(double base, int dims, const RopeScaling& scaling,
                                    int64_t context = 0);

struct RopeConfig {
  double base = 10000;
  int dims = 0;  // dimensions of a head that rotate
  RopeScaling scaling;

  // The largest context that leaves the frequencies unscaled; 0: they never depend on the context.
  int64_t short_context() const;
  // The context after scaling, for files that give only the context before it.
  int64_t stretched(int64_t context) const;
  RopeSpec spec() const;
};

// A family's values for keys that its config.json may omit.
struct HfRopeDefaults {
  double base = 10000;
  double original_context = 0;    // 0: max_position_embeddings
  bool partial = false;           // partial_rotary_factor may be other than 1
  bool yarn_is_longrope = false;  // "yarn" and "su" are old names of longrope
  // Models with a vision part: mrope_section gives parts of a head the row and column of an image.
  // A text token has one position for all parts, so the rope is a plain one.
  bool sections = false;
  // Scaling "dynamic" with a key alpha raises the base once, for every context.
  bool alpha = false;
  // Scaling "proportional": only the first pairs of a head turn, a share of partial_rotary_factor.
  bool proportional = false;
  std::string_view reads = {};  // a key of the rope's object that the family itself reads
};

// Reads rope_parameters (transformers 5), or rope_theta with rope_scaling (transformers 4), which
// may write `type` for `rope_type`. Throws at an unknown type or key, since it may change the
// result.
RopeConfig read_hf_rope(const HfConfig& config, int head_dim, const HfRopeDefaults& defaults = {});

// Reads <architecture>.rope.* and the tensors rope_freqs and rope_factors_{short,long}.
RopeConfig read_gguf_rope(const GgufFile& file, int head_dim);

}  // namespace skald
