// Shared by the generations of Gemma: norm weights are stored minus 1, embeddings are multiplied by
// the square root of their width, and GELU is its tanh approximation. From Gemma 2 on, norms stand
// before and after each half of a layer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/program/model.h"
#include "models/families/shared/config.h"

namespace skald {

class HfConfig;
class GgufFile;

// `reads`: as HfDefaults::reads.
ModelConfig read_gemma_hf(const HfConfig& config, std::span<const std::string_view> reads = {});
// The caps of Gemma 2 and 3.
inline constexpr std::string_view kGemmaCaps[] = {"attn_logit_softcapping",
                                                  "final_logit_softcapping"};
// A GGUF's norm weights include the 1. `reads`: as for read_common_gguf().
ModelConfig read_gemma_gguf(const GgufFile& file, const GgufReads& reads);

// From Gemma 2 on, scores are divided by the square root of query_pre_attn_scalar.
void read_gemma2_scale(const HfConfig& config, ModelConfig& c);
// A GGUF does not store query_pre_attn_scalar: it is the head dimension in all but the largest
// model.
void guess_gemma2_scale(ModelConfig& c, int layers_of_largest);
// What all generations have, whatever the file: GELU, embeddings times the root of their width.
void complete_gemma(ModelConfig& c);
float read_softcap(const HfConfig& config, std::string_view key);  // 0: none
float read_softcap(const GgufFile& file, std::string_view key, double otherwise);

std::string gemma2_tensor_name(std::string_view hf_name);
Program build_gemma2(const ModelConfig& c, const WeightFile& file);
Program build_gemma4(const ModelConfig& c, const WeightFile& file);

}  // namespace skald
