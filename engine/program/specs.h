// Plain structs that ops, kernels and plans share. No container and no string: every .cu file
// parses this header.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/base/half.h"

namespace skald {

enum class NormKind : uint8_t { Rms, Layer };
// How a gate and an up become one number. Silu and GeluTanh: activation(gate) * up. ClampedSwiglu
// (gpt-oss), for experts alone: gate is at most kSwigluLimit, up within it, and the result is
// gate / (1 + exp(-kSwigluSlope * gate)) * (up + 1).
// Sigmoid, for gates of attention: sigmoid(gate) * up. Identity: gate * up. SquaredRelu, without a
// gate: relu(up)².
enum class Activation : uint8_t { Silu, GeluTanh, ClampedSwiglu, Sigmoid, Identity, SquaredRelu };
inline constexpr float kSwigluLimit = 7, kSwigluSlope = 1.702f;

// Queries grow with their position, so that attention stays sharp in a long context: the query at
// position p is multiplied by at(p).
struct QueryGrowth {
  float rate = 0;  // 0: queries do not grow
  int length = 1;  // positions of one step of the growth

  SKALD_HD float at(int64_t position) const {
    return rate == 0 ? 1 : 1 + rate * logf(1 + static_cast<float>(position / length));
  }
  bool operator==(const QueryGrowth&) const = default;
};

struct AttentionSpec {
  int heads = 0;
  int kv_heads = 0;  // divides heads; query head h reads kv head h / (heads / kv_heads)
  int head_dim = 0;
  float scale = 1;
  int window = 0;     // a query sees keys at positions > its own - window; 0: all before it
  float softcap = 0;  // a score s becomes softcap * tanh(s / softcap) before the mask; 0: stays
  QueryGrowth growth = {};
  // The keys in the cache serve as values too. A backend may set this where an op's keys and values
  // are one buffer, so that it reads each once.
  bool keys_serve = false;

  bool operator==(const AttentionSpec&) const = default;
};

// Which key head a value head reads. Blocks: value head h reads key head h / (value_heads /
// key_heads), as in Hugging Face's files. Turns: h % key_heads, as in GGUF.
enum class HeadOrder : uint8_t { Blocks, Turns };

struct DeltaSpec {
  int key_heads = 0;
  int value_heads = 0;  // a multiple of key_heads
  int key_dim = 0;      // of a head
  int value_dim = 0;    // of a head
  HeadOrder order = HeadOrder::Blocks;

  int key_head(int value_head) const {
    return order == HeadOrder::Blocks ? value_head / (value_heads / key_heads)
                                      : value_head % key_heads;
  }
  int64_t keys() const { return int64_t{key_heads} * key_dim; }  // columns of all keys
  int64_t values() const { return int64_t{value_heads} * value_dim; }
  int64_t state_floats() const { return values() * key_dim; }
  bool operator==(const DeltaSpec&) const = default;
};
inline constexpr float kDeltaNormEps = 1e-6f;  // added to a key's and a query's squared length

// The heads of a state-space layer. Head h reads the keys and queries of group h / (heads /
// groups).
struct SpaceSpec {
  int heads = 0;  // a multiple of groups
  int head_dim = 0;
  int groups = 0;
  int state_dim = 0;  // of a key and of a query
  // A token's step is at least and at most this.
  float least_step = 0, most_step = HUGE_VALF;

  int64_t values() const { return int64_t{heads} * head_dim; }  // columns of all heads
  int64_t keys() const { return int64_t{groups} * state_dim; }  // columns of all keys
  int64_t inputs() const { return values() + 2 * keys(); }      // values, keys, queries
  int64_t state_floats() const { return values() * state_dim; }
  bool operator==(const SpaceSpec&) const = default;
};

// How an expert's router logit becomes its weight: a softmax over all experts, or a sigmoid.
enum class Gating : uint8_t { Softmax, Sigmoid };

// Each row goes to the `used` experts whose router logits are largest. With Sigmoid the choice
// goes by the sigmoids of the logits. A bias may be added to them for the choice; the experts'
// weights are the sigmoids without the bias.
struct ExpertsSpec {
  int count = 0;
  int used = 0;
  bool normalized = false;  // the weights of the used experts add up to 1
  Activation activation = Activation::Silu;
  Gating gating = Gating::Softmax;
  float scale = 1;         // multiplies the weights in the end
  float router_scale = 1;  // multiplies the router's logits
  // The experts stand in groups of equal size, and a row's experts come from its used_groups best
  // groups. The score of a group is its largest logit; with Sigmoid, the sum of its two largest
  // sigmoids, biases included.
  int groups = 1, used_groups = 1;

  bool operator==(const ExpertsSpec&) const = default;
};

}  // namespace skald
