// Shared by the families with routed experts: reads their configuration from both kinds of files,
// and stacks the single experts of a Hugging Face folder for a GGUF.
#pragma once

#include <cstdint>

#include "engine/program/model.h"

namespace skald {

class GgufFile;
class HfConfig;
struct GgufExport;

inline constexpr int64_t kMostFfnDim = 1 << 20;  // of one expert

inline constexpr int64_t kMostExperts = 4096;  // far above every published model

// Reads num_local_experts or num_experts, and num_experts_per_tok.
ExpertsConfig read_hf_experts(const HfConfig& config, int count_unsaid, int used_unsaid);

// Qwen: every decoder_sparse_step-th layer has experts, if mlp_only_layers does not list it.
// Returns ExpertsConfig::dense.
std::vector<bool> read_dense_layers(const HfConfig& config, int layers);

// Qwen: read_hf_experts(), moe_intermediate_size, norm_topk_prob and read_dense_layers().
struct QwenExpertsUnsaid {
  int count, used;
  bool normalized;
};
ExpertsConfig read_qwen_experts(const HfConfig& config, int layers,
                                const QwenExpertsUnsaid& unsaid);
// The shared expert of Qwen's models, which has a gate: shared_expert_intermediate_size, or
// <architecture>.expert_shared_feed_forward_length, which may be missing.
void read_qwen_shared_expert(const HfConfig& config, ExpertsConfig& e);
void read_qwen_shared_expert(const GgufFile& file, int64_t unsaid, ExpertsConfig& e);
// <architecture>.expert_shared_feed_forward_length, or `unsaid` where it is missing.
int64_t gguf_shared_width(const GgufFile& file, int64_t unsaid);

// A factor of experts' weights from a file. Throws if it is not a number above 0.
float checked_scale(double scale, std::string_view where, std::string_view key);

// What a family's GGUFs may say besides a choice by softmax and experts in all layers.
struct GgufExpertsReads {
  bool sigmoids = false;  // experts are chosen by sigmoids; expert_weights_scale
  // expert_shared_count experts that every token passes through, and leading_dense_block_count
  // layers without experts.
  bool shared_and_dense = false;
  // expert_gating_func says which; softmax if it says nothing. With expert_weights_scale.
  bool either_gating = false;
  bool groups = false;  // expert_group_count, expert_group_used_count
};

// Reads <architecture>.expert_*. No experts if expert_count is 0 or missing. Throws if the keys ask
// for a routing other than the best experts of a softmax. `ffn_dim` is used if the file has no
// width for experts.
ExpertsConfig read_gguf_experts(const GgufFile& file, int64_t ffn_dim,
                                const GgufExpertsReads& reads = {});

// For Family::to_gguf: replaces a stack of gates and ups, each expert's gate before its up, by two
// stacks.
void split_gate_up_experts(const ModelConfig& c, GgufExport& out);

// For Family::to_gguf: adds the keys, and replaces single experts by stacks.
void export_experts(const ModelConfig& c, std::string_view architecture, GgufExport& out);

}  // namespace skald
