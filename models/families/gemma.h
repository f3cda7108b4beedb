// What Gemma's generations share: norm weights that hold what is beyond 1, embeddings times the
// root of their width, a tanh-shaped GELU; and from the second on, norms around each half of a
// layer.
#pragma once

#include <string>
#include <string_view>

#include "engine/program/model.h"

namespace skald {

class HfConfig;
class GgufFile;

ModelConfig read_gemma_hf(const HfConfig& config);
ModelConfig read_gemma_gguf(const GgufFile& file);  // where norm weights are whole

// From the second on: scores are divided by the root of query_pre_attn_scalar.
void read_gemma2_scale(const HfConfig& config, ModelConfig& c);
// GGUF does not keep it: it is the head's dimension in all but the largest model.
void guess_gemma2_scale(ModelConfig& c, int layers_of_largest);
float read_softcap(const HfConfig& config, std::string_view key);  // 0: none
float read_softcap(const GgufFile& file, std::string_view key, double otherwise);

std::string gemma2_tensor_name(std::string_view hf_name);
Program build_gemma2(const ModelConfig& c, const WeightFile& file);

}  // namespace skald
