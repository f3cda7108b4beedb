#include "models/rope.h"

#include <cmath>

#include "engine/error.h"
#include "models/hf_config.h"

namespace skald {
namespace {

double positive(const HfConfig& config, std::string_view key) {
  const double value = config.number(key);
  if (!(value > 0)) {
    fail(Exit::Model, config.where(), ": '", key, "' is ", value, ", expected more than 0");
  }
  return value;
}

RopeScaling read_scaling(const HfConfig& config) {
  RopeScaling scaling;
  const std::string type =
      config.has("rope_type") ? config.text("rope_type") : config.text_or("type", "default");
  if (type == "default") return scaling;
  if (type != "linear" && type != "llama3") {
    fail(Exit::Model, config.where(), ": rope type '", type,
         "' is not supported; these are: default, linear, llama3");
  }
  scaling.type = type;
  scaling.factor = positive(config, "factor");
  if (type == "llama3") {
    scaling.low_freq_factor = positive(config, "low_freq_factor");
    scaling.high_freq_factor = positive(config, "high_freq_factor");
    scaling.original_context = positive(config, "original_max_position_embeddings");
    if (scaling.high_freq_factor <= scaling.low_freq_factor) {
      fail(Exit::Model, config.where(), ": 'high_freq_factor' is ", scaling.high_freq_factor,
           ", expected more than 'low_freq_factor', ", scaling.low_freq_factor);
    }
  }
  return scaling;
}

}  // namespace

HfRope read_hf_rope(const HfConfig& config, double default_base) {
  HfRope rope{config.has("rope_theta") ? positive(config, "rope_theta") : default_base, {}};
  if (config.has("rope_parameters")) {
    const HfConfig parameters = config.object("rope_parameters");
    if (parameters.has("rope_theta")) rope.base = positive(parameters, "rope_theta");
    rope.scaling = read_scaling(parameters);
  } else if (config.has("rope_scaling")) {
    rope.scaling = read_scaling(config.object("rope_scaling"));
  }
  return rope;
}

std::vector<float> rope_frequencies(double base, int dims, const RopeScaling& scaling) {
  std::vector<float> frequencies(static_cast<size_t>(dims / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dims);
    float frequency = 1 / static_cast<float>(std::pow(base, double{exponent}));
    if (scaling.type == "linear") {
      frequency /= static_cast<float>(scaling.factor);
    } else if (scaling.type == "llama3") {
      const float factor = static_cast<float>(scaling.factor);
      const float wavelength = static_cast<float>(2 * M_PI) / frequency;
      const float longest = static_cast<float>(scaling.original_context / scaling.low_freq_factor);
      const float shortest =
          static_cast<float>(scaling.original_context / scaling.high_freq_factor);
      if (wavelength > longest) {
        frequency /= factor;
      } else if (wavelength >= shortest) {
        const float low = static_cast<float>(scaling.low_freq_factor);
        const float high = static_cast<float>(scaling.high_freq_factor);
        const float smooth =
            (static_cast<float>(scaling.original_context) / wavelength - low) / (high - low);
        frequency = (1 - smooth) * frequency / factor + smooth * frequency;
      }
    }
    frequencies[i] = frequency;
  }
  return frequencies;
}

}  // namespace skald
