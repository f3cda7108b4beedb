// Plain structs that ops, kernels and plans share. No container and no string: every .cu file
// parses this header.
#pragma once

#include <cstdint>

namespace skald {

enum class NormKind : uint8_t { Rms, Layer };
enum class Activation : uint8_t { Silu, GeluTanh };

struct AttentionSpec {
  int heads = 0;
  int kv_heads = 0;  // divides heads; query head h reads kv head h / (heads / kv_heads)
  int head_dim = 0;
  float scale = 1;
  int window = 0;     // a query sees keys at positions > its own - window; 0: all before it
  float softcap = 0;  // a score s becomes softcap * tanh(s / softcap) before the mask; 0: stays

  bool operator==(const AttentionSpec&) const = default;
};

// How rows are shared out: a row goes to the `used` experts whose router logits are largest.
struct ExpertsSpec {
  int count = 0;
  int used = 0;
  bool normalized = false;  // the weights of the used experts add up to 1
  Activation activation = Activation::Silu;

  bool operator==(const ExpertsSpec&) const = default;
};

}  // namespace skald
