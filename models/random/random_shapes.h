// The published shapes that random models can have: the numbers of their configuration files.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "engine/program/model.h"
#include "models/families/families.h"

namespace skald {

struct RandomShape {
  std::string_view name;
  int layers;
  int64_t dim, ffn_dim;
  int heads, kv_heads, head_dim;
  int64_t vocab, context;
  bool tied;
  // The factor scales as llama3 does (Gemma 3: linear; gpt-oss, Mistral: yarn). 1: no scaling.
  double rope_base, rope_factor;
  const Family* family = &kLlama;
  int window = 0, period = 1;  // every period-th layer has no window
  ExpertsConfig experts = {};
  DeltaSpec delta = {};  // of the layers with a gated delta net, three of four; without heads: none
  FullLayersConfig full = {};
  LatentConfig latent = {};  // then the first layer has no experts
  // The layers that `pattern` names have a state space; without a pattern, all but layers 5, 15, 25
  // and so on. Without heads no layer has one.
  SpaceSpec space = {};
  // Layers of one half each have a letter each: M is a state space, * attention, - a feed-forward
  // and E experts.
  std::string_view pattern = {};
};

// Qwen3.5 and Qwen3-Next: the published sizes have the same heads but for their numbers.
struct DeltaShape {
  std::string_view name;
  int layers;
  int64_t dim, ffn_dim;
  int heads, kv_heads, value_heads;
  int64_t vocab;
  ExpertsConfig experts = {};
};
inline RandomShape delta_shape(const DeltaShape& s) {
  return {.name = s.name,
          .layers = s.layers,
          .dim = s.dim,
          .ffn_dim = s.ffn_dim,
          .heads = s.heads,
          .kv_heads = s.kv_heads,
          .head_dim = 256,
          .vocab = s.vocab,
          .context = 262144,
          .tied = false,
          .rope_base = 1e7,
          .rope_factor = 1,
          .family = &kQwen35,
          .experts = s.experts,
          .delta = {16, s.value_heads, 128, 128}};
}

// The published sizes differ by the number of layers, and of experts in a layer.
inline RandomShape gpt_oss_shape(std::string_view name, int layers, int experts) {
  return {
      .name = name,
      .layers = layers,
      .dim = 2880,
      .ffn_dim = 2880,
      .heads = 64,
      .kv_heads = 8,
      .head_dim = 64,
      .vocab = 201088,
      .context = 131072,
      .tied = false,
      .rope_base = 150000,
      .rope_factor = 32,
      .family = &kGptOss,
      .window = 128,
      .period = 2,
      .experts = {.count = experts, .used = 4, .ffn_dim = 2880, .normalized = true, .bias = true}};
}

struct Gemma4Shape {
  std::string_view name;
  int layers;
  int64_t dim, ffn_dim;
  int heads, kv_heads, full_kv_heads;
  ExpertsConfig experts = {};
};
inline RandomShape gemma4_shape(const Gemma4Shape& s) {
  return {.name = s.name,
          .layers = s.layers,
          .dim = s.dim,
          .ffn_dim = s.ffn_dim,
          .heads = s.heads,
          .kv_heads = s.kv_heads,
          .head_dim = 256,
          .vocab = 262144,
          .context = 262144,
          .tied = true,
          .rope_base = 1e6,
          .rope_factor = 1,
          .family = &kGemma4,
          .window = 1024,
          .period = 6,
          .experts = s.experts,
          .full = {512, s.full_kv_heads, true}};
}

struct NemotronHShape {
  std::string_view name, pattern;
  int64_t dim, ffn_dim;
  int kv_heads, space_heads;
  int64_t context;
  ExpertsConfig experts = {};
};
inline RandomShape nemotron_h_shape(const NemotronHShape& s) {
  return {.name = s.name,
          .layers = static_cast<int>(s.pattern.size()),
          .dim = s.dim,
          .ffn_dim = s.ffn_dim,
          .heads = 32,
          .kv_heads = s.kv_heads,
          .head_dim = 128,
          .vocab = 131072,
          .context = s.context,
          .tied = false,
          .rope_base = 1e4,
          .rope_factor = 1,
          .family = &kNemotronH,
          .experts = s.experts,
          .space = {.heads = s.space_heads, .head_dim = 64, .groups = 8, .state_dim = 128},
          .pattern = s.pattern};
}

// Granite 4's hybrid models. The feed-forward that every token passes through counts as a shared
// expert, as in GGUFs.
struct GraniteShape {
  std::string_view name;
  int64_t dim;
  int heads, kv_heads, space_heads;
  ExpertsConfig experts;
};
inline RandomShape granite_shape(const GraniteShape& s) {
  return {.name = s.name,
          .layers = 40,
          .dim = s.dim,
          .ffn_dim = s.experts.shared_dim,
          .heads = s.heads,
          .kv_heads = s.kv_heads,
          .head_dim = 128,
          .vocab = 100352,
          .context = 131072,
          .tied = true,
          .rope_base = 1e4,
          .rope_factor = 1,
          .family = &kGranite,
          .experts = s.experts,
          .space = {.heads = s.space_heads, .head_dim = 64, .groups = 1, .state_dim = 128}};
}

inline const RandomShape kRandomShapes[] = {
    {"smollm2-135m", 30, 576, 1536, 9, 3, 64, 49152, 8192, true, 1e5, 1},
    {"tinyllama-1.1b", 22, 2048, 5632, 32, 4, 64, 32000, 2048, false, 1e4, 1},
    {"llama-3.2-1b", 16, 2048, 8192, 32, 8, 64, 128256, 131072, true, 5e5, 32},
    {"llama-3.2-3b", 28, 3072, 8192, 24, 8, 128, 128256, 131072, true, 5e5, 32},
    {"llama-2-7b", 32, 4096, 11008, 32, 32, 128, 32000, 4096, false, 1e4, 1},
    {"mistral-7b", 32, 4096, 14336, 32, 8, 128, 32768, 32768, false, 1e6, 1},
    {"llama-3.1-8b", 32, 4096, 14336, 32, 8, 128, 128256, 131072, false, 5e5, 8},
    {"llama-2-13b", 40, 5120, 13824, 40, 40, 128, 32000, 4096, false, 1e4, 1},
    {"llama-3.1-70b", 80, 8192, 28672, 64, 8, 128, 128256, 131072, false, 5e5, 8},
    {"llama-3.1-405b", 126, 16384, 53248, 128, 8, 128, 128256, 131072, false, 5e5, 8},
    {"qwen3-0.6b", 28, 1024, 3072, 16, 8, 128, 151936, 40960, true, 1e6, 1, &kQwen3},
    {"qwen3-8b", 36, 4096, 12288, 32, 8, 128, 151936, 40960, false, 1e6, 1, &kQwen3},
    {"qwen3-32b", 64, 5120, 25600, 64, 8, 128, 151936, 40960, false, 1e6, 1, &kQwen3},
    {.name = "mixtral-8x7b",
     .layers = 32,
     .dim = 4096,
     .ffn_dim = 14336,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 128,
     .vocab = 32000,
     .context = 32768,
     .tied = false,
     .rope_base = 1e6,
     .rope_factor = 1,
     .experts = {8, 2, 14336, true, {}}},
    {.name = "qwen3-30b-a3b",
     .layers = 48,
     .dim = 2048,
     .ffn_dim = 6144,
     .heads = 32,
     .kv_heads = 4,
     .head_dim = 128,
     .vocab = 151936,
     .context = 40960,
     .tied = false,
     .rope_base = 1e6,
     .rope_factor = 1,
     .family = &kQwen3Moe,
     .experts = {128, 8, 768, true, {}}},
    {"ministral-3-8b", 34, 4096, 14336, 32, 8, 128, 131072, 262144, false, 1e6, 16, &kMistral},
    {"nanbeige4.2-3b", 22, 3072, 10752, 48, 8, 128, 166144, 262144, false, 7e7, 1, &kNanbeige},
    {.name = "qwen1.5-moe-a2.7b",
     .layers = 24,
     .dim = 2048,
     .ffn_dim = 5632,
     .heads = 16,
     .kv_heads = 16,
     .head_dim = 128,
     .vocab = 151936,
     .context = 8192,
     .tied = false,
     .rope_base = 1e6,
     .rope_factor = 1,
     .family = &kQwen2Moe,
     .experts = {60, 4, 1408, false, {}, 5632, true}},
    {"starcoder2-3b", 30, 3072, 12288, 24, 2, 128, 49152, 16384, true, 1e6, 1, &kStarcoder2, 4096},
    delta_shape({"qwen3.5-27b", 64, 5120, 17408, 24, 4, 48, 248320}),
    delta_shape(
        {"qwen3.5-35b-a3b", 40, 2048, 512, 16, 2, 32, 248320, {256, 8, 512, true, {}, 512, true}}),
    delta_shape({"qwen3-next-80b-a3b",
                 48,
                 2048,
                 512,
                 16,
                 2,
                 32,
                 151936,
                 {512, 10, 512, true, {}, 512, true}}),
    gpt_oss_shape("gpt-oss-20b", 24, 32),
    gpt_oss_shape("gpt-oss-120b", 36, 128),
    {.name = "glm-4.7-flash",
     .layers = 47,
     .dim = 2048,
     .ffn_dim = 10240,
     .heads = 20,
     .kv_heads = 1,
     .head_dim = 576,
     .vocab = 154880,
     .context = 202752,
     .tied = false,
     .rope_base = 1e6,
     .rope_factor = 1,
     .family = &kDeepSeek,
     .experts = {.count = 64,
                 .used = 4,
                 .ffn_dim = 1536,
                 .normalized = true,
                 .shared_dim = 1536,
                 .choice_bias = true,
                 .gating = Gating::Sigmoid,
                 .scale = 1.8f},
     .latent = {512, 768, 64, 192, 256}},
    {"command-r7b", 32, 4096, 14336, 32, 8, 128, 256000, 132096, true, 5e4, 1, &kCohere2, 4096, 4},
    {"gemma-2-2b", 26, 2304, 9216, 8, 4, 256, 256000, 8192, true, 1e4, 1, &kGemma2, 4096, 2},
    {"gemma-2-9b", 42, 3584, 14336, 16, 8, 256, 256000, 8192, true, 1e4, 1, &kGemma2, 4096, 2},
    {"gemma-3-1b", 26, 1152, 6912, 4, 1, 256, 262144, 32768, true, 1e6, 1, &kGemma3, 512, 6},
    {"gemma-3-4b", 34, 2560, 10240, 8, 4, 256, 262208, 131072, true, 1e6, 8, &kGemma3, 1024, 6},
    gemma4_shape({"gemma-4-31b", 60, 5376, 21504, 32, 16, 4}),
    gemma4_shape({"gemma-4-26b-a4b",
                  30,
                  2816,
                  2112,
                  16,
                  8,
                  2,
                  {.count = 128,
                   .used = 8,
                   .ffn_dim = 704,
                   .normalized = true,
                   .router_scale = 1 / std::sqrt(2816.0f),
                   .expert_scale = true}}),
    nemotron_h_shape({"nemotron-h-8b", "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", 4096,
                      21504, 8, 128, 8192}),
    nemotron_h_shape({"nemotron-3-nano-30b-a3b",
                      "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
                      2688,
                      1856,
                      2,
                      64,
                      262144,
                      {.count = 128,
                       .used = 6,
                       .ffn_dim = 1856,
                       .normalized = true,
                       .shared_dim = 3712,
                       .choice_bias = true,
                       .gating = Gating::Sigmoid,
                       .scale = 2.5f}}),
    granite_shape({"granite-4.0-h-tiny", 1536, 12, 4, 48, {64, 6, 512, true, {}, 1024}}),
    granite_shape({"granite-4.0-h-small", 4096, 32, 8, 128, {72, 10, 768, true, {}, 1536}}),
};

}  // namespace skald
