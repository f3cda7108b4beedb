// What the families with routed experts share: their configuration's keys in both file kinds, and a
// GGUF's stacks of what a Hugging Face folder has one by one.
#pragma once

#include <cstdint>

#include "engine/program/model.h"

namespace skald {

class GgufFile;
class HfConfig;
struct GgufExport;

// num_local_experts or num_experts, and num_experts_per_tok.
ExpertsConfig read_hf_experts(const HfConfig& config, int count_unsaid, int used_unsaid);

// <architecture>.expert_*; none where expert_count is 0 or missing. What the keys ask for beyond a
// softmax and its best experts is an error. ffn_dim: where the file does not say it of experts.
ExpertsConfig read_gguf_experts(const GgufFile& file, int64_t ffn_dim);

// For a family's to_gguf: the keys, and stacks of experts in place of single ones.
void export_experts(const ModelConfig& c, std::string_view architecture, GgufExport& out);

}  // namespace skald
