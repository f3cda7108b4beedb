#include "models/families/shared/experts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <string>

#include "engine/base/error.h"
#include "models/families/shared/gguf_fields.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr int64_t kMostDenseLayers = 1 << 16;
constexpr double kMostScale = 1e6;

// The parts "blk.3.ffn_gate" and 7 of "blk.3.ffn_gate.7.weight"; -1 for any other name.
struct SingleName {
  std::string stack;
  int expert = -1;
};

SingleName parse_single(std::string_view name) {
  constexpr std::string_view kEnd = ".weight";
  if (!name.ends_with(kEnd)) return {};
  name.remove_suffix(kEnd.size());
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return {};
  const std::string_view stack = name.substr(0, dot), number = name.substr(dot + 1);
  if (!stack.ends_with(".ffn_gate") && !stack.ends_with(".ffn_up") &&
      !stack.ends_with(".ffn_down")) {
    return {};
  }
  int expert = -1;
  const char* end = number.data() + number.size();
  const auto [rest, error] = std::from_chars(number.data(), end, expert);
  if (error != std::errc() || rest != end || expert < 0) return {};
  return {std::string(stack), expert};
}

void stack_experts(const ModelConfig& c, GgufExport& out) {
  const int count = c.experts.count;
  std::vector<MadeTensor> tensors;
  std::map<std::string, size_t> stacks;  // name → index in `tensors`
  for (MadeTensor& tensor : out.tensors) {
    const SingleName single = parse_single(tensor.name);
    if (single.expert < 0) {
      tensors.push_back(std::move(tensor));
      continue;
    }
    if (single.expert >= count) continue;  // unused
    const auto [found, is_new] = stacks.emplace(single.stack, tensors.size());
    if (is_new) {
      MadeTensor stack = tensor;
      stack.name = single.stack + "_exps.weight";
      stack.shape.insert(stack.shape.begin(), count);
      stack.stack.resize(static_cast<size_t>(count));
      tensors.push_back(std::move(stack));
    }
    tensors[found->second].stack[static_cast<size_t>(single.expert)] = tensor.source;
  }
  for (const auto& [name, place] : stacks) {
    MadeTensor& stack = tensors[place];
    stack.source = stack.stack.front();
    for (const TensorView& one : stack.stack) {
      check(one.rows == stack.source.rows && one.cols == stack.source.cols &&
                one.type == stack.source.type,
            "experts are alike, as the program has asked for");
    }
  }
  out.tensors = std::move(tensors);
}

}  // namespace

float checked_scale(double scale, std::string_view where, std::string_view key) {
  const auto value = std::isfinite(scale) && scale <= kMostScale ? static_cast<float>(scale) : 0;
  if (value > 0) return value;
  fail(Exit::Model, where, ": '", key, "' is ", scale, ", expected a number above 0, at most ",
       kMostScale);
}

ExpertsConfig read_hf_experts(const HfConfig& config, int count_unsaid, int used_unsaid) {
  const char* key = config.has("num_local_experts") ? "num_local_experts" : "num_experts";
  ExpertsConfig e;
  e.count = static_cast<int>(config.integer_or(key, count_unsaid, 1, kMostExperts));
  e.used = static_cast<int>(config.integer_or("num_experts_per_tok", used_unsaid, 1, kMostExperts));
  if (e.used > e.count) {
    fail(Exit::Model, config.where(), ": 'num_experts_per_tok' is ", e.used, ", expected at most ",
         e.count, ", the number of experts");
  }
  return e;
}

std::vector<bool> read_dense_layers(const HfConfig& config, int layers) {
  const int64_t step = config.integer_or("decoder_sparse_step", 1, 1, 1 << 20);
  std::vector<int64_t> listed;
  if (config.has("mlp_only_layers")) listed = config.integers("mlp_only_layers");
  std::vector<bool> dense;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const bool is_listed = std::find(listed.begin(), listed.end(), layer) != listed.end();
    dense.push_back(is_listed || (layer + 1) % step != 0);
  }
  if (std::find(dense.begin(), dense.end(), true) == dense.end()) dense.clear();
  return dense;
}

ExpertsConfig read_qwen_experts(const HfConfig& config, int layers,
                                const QwenExpertsUnsaid& unsaid) {
  ExpertsConfig e = read_hf_experts(config, unsaid.count, unsaid.used);
  e.ffn_dim = config.integer("moe_intermediate_size", 1, kMostFfnDim);
  e.normalized = config.boolean_or("norm_topk_prob", unsaid.normalized);
  e.dense = read_dense_layers(config, layers);
  return e;
}

void read_qwen_shared_expert(const HfConfig& config, ExpertsConfig& e) {
  e.shared_dim = config.integer("shared_expert_intermediate_size", 1, kMostFfnDim);
  e.shared_gate = true;
}

int64_t gguf_shared_width(const GgufFile& file, int64_t unsaid) {
  const GgufMetadata& metadata = file.metadata();
  const std::string key =
      concat(metadata.text("general.architecture"), ".expert_shared_feed_forward_length");
  const uint64_t width = metadata.uint_or(key, static_cast<uint64_t>(unsaid));
  if (width == 0 || width > static_cast<uint64_t>(kMostFfnDim)) {
    fail(Exit::Model, file.path(), ": '", key, "' is ", width, ", expected 1 to ", kMostFfnDim);
  }
  return static_cast<int64_t>(width);
}

void read_qwen_shared_expert(const GgufFile& file, int64_t unsaid, ExpertsConfig& e) {
  e.shared_dim = gguf_shared_width(file, unsaid);
  e.shared_gate = true;
}

ExpertsConfig read_gguf_experts(const GgufFile& file, int64_t ffn_dim,
                                const GgufExpertsReads& reads) {
  const GgufMetadata& metadata = file.metadata();
  const std::string prefix = std::string(metadata.text("general.architecture")) + ".";
  ExpertsConfig e;
  if (metadata.uint_or(prefix + "expert_count", 0) == 0) return e;

  const auto bounded = [&](const char* key, uint64_t value, int64_t most) {
    if (value >= 1 && value <= static_cast<uint64_t>(most)) return static_cast<int64_t>(value);
    fail(Exit::Model, file.path(), ": '", prefix, key, "' is ", value, ", expected 1 to ", most);
  };
  const auto number = [&](const char* key, int64_t most) {
    return bounded(key, metadata.uint(prefix + key), most);
  };
  e.count = static_cast<int>(number("expert_count", kMostExperts));
  e.used = static_cast<int>(number("expert_used_count", e.count));
  constexpr const char* kFfnDim = "expert_feed_forward_length";
  e.ffn_dim = bounded(kFfnDim, metadata.uint_or(prefix + kFfnDim, static_cast<uint64_t>(ffn_dim)),
                      kMostFfnDim);
  e.normalized = metadata.boolean_or(prefix + "expert_weights_norm", true);
  if (reads.sigmoids || reads.either_gating) {
    constexpr uint64_t kUnsaid = 0, kSoftmax = 1, kSigmoid = 2;
    const uint64_t gating = metadata.uint_or(prefix + "expert_gating_func", kUnsaid);
    const bool softmax = reads.either_gating && (gating == kSoftmax || gating == kUnsaid);
    if (!softmax && gating != kSigmoid && (gating != kUnsaid || reads.either_gating)) {
      fail(Exit::Model, file.path(), ": '", prefix, "expert_gating_func' is ", gating,
           reads.either_gating ? ", expected 1 (softmax) or 2 (sigmoids)"
                               : ", expected 2 (sigmoids)");
    }
    e.gating = softmax ? Gating::Softmax : Gating::Sigmoid;
    const double scale = metadata.number_or(prefix + "expert_weights_scale", 0);
    if (scale != 0) e.scale = checked_scale(scale, file.path(), prefix + "expert_weights_scale");
  }
  if (reads.shared_and_dense) {
    const auto up_to = [&](const char* key, int64_t most) {
      const uint64_t value = metadata.uint_or(prefix + key, 0);
      return value == 0 ? 0 : bounded(key, value, most);
    };
    e.shared_dim = up_to("expert_shared_count", kMostExperts) * e.ffn_dim;
    const int64_t dense = up_to("leading_dense_block_count", kMostDenseLayers);
    const auto layers = static_cast<int64_t>(metadata.uint(prefix + "block_count"));
    for (int64_t layer = 0; dense > 0 && layer < layers; ++layer) e.dense.push_back(layer < dense);
  }

  if (reads.groups && metadata.uint_or(prefix + "expert_group_count", 1) > 1) {
    e.groups = static_cast<int>(number("expert_group_count", e.count));
    e.used_groups = static_cast<int>(number("expert_group_used_count", e.groups));
    if (e.used_groups == e.groups) e.groups = e.used_groups = 1;  // all groups count
  }

  // Keys of other architectures. The values listed here are those that change nothing.
  struct Unknown {
    const char* key;
    double harmless;
  };
  constexpr Unknown kUnknown[] = {
      {"expert_gating_func", 1},        {"expert_shared_count", 0},
      {"expert_group_count", 1},        {"expert_weights_scale", 1},
      {"leading_dense_block_count", 0}, {"interleave_moe_layer_step", 1}};
  constexpr std::string_view kOfSigmoids[] = {"expert_gating_func", "expert_weights_scale"};
  constexpr std::string_view kOfLayers[] = {"expert_shared_count", "leading_dense_block_count"};
  const auto has = [](std::span<const std::string_view> keys, std::string_view key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  for (const auto& [key, harmless] : kUnknown) {
    if ((reads.sigmoids || reads.either_gating) && has(kOfSigmoids, key)) continue;
    if (reads.groups && std::string_view(key) == "expert_group_count") continue;
    if (reads.shared_and_dense && has(kOfLayers, key)) continue;
    const double value = metadata.number_or(prefix + key, 0);
    if (value == 0 || value == harmless) continue;
    fail(Exit::Model, file.path(), ": '", prefix, key, "' is ", value,
         ", which skald does not support");
  }
  return e;
}

void split_gate_up_experts(const ModelConfig& c, GgufExport& out) {
  constexpr std::string_view kBoth = "ffn_gate_up_exps.weight";
  const int64_t rows = c.experts.ffn_dim;
  std::vector<MadeTensor> tensors;
  for (MadeTensor& tensor : out.tensors) {
    if (!tensor.name.ends_with(kBoth)) {
      tensors.push_back(std::move(tensor));
      continue;
    }
    const std::string layer = tensor.name.substr(0, tensor.name.size() - kBoth.size());
    for (const bool is_up : {false, true}) {
      MadeTensor part = tensor;
      part.name = concat(layer, is_up ? "ffn_up_exps.weight" : "ffn_gate_exps.weight");
      part.shape = {c.experts.count, rows, c.dim};
      for (int64_t expert = 0; expert < c.experts.count; ++expert) {
        const int64_t first = (2 * expert + (is_up ? 1 : 0)) * rows;
        part.stack.push_back(slice_rows(tensor.source, first, rows));
      }
      part.source = part.stack.front();
      tensors.push_back(std::move(part));
    }
  }
  out.tensors = std::move(tensors);
}

void export_experts(const ModelConfig& c, std::string_view architecture, GgufExport& out) {
  const ExpertsConfig& e = c.experts;
  const std::string prefix = concat(architecture, ".expert_");
  out.head.put_u32(prefix + "count", e.count);
  out.head.put_u32(prefix + "used_count", e.used);
  // "llama" has one width for both; readers of the others ask for it.
  if (e.ffn_dim != c.ffn_dim || architecture != "llama") {
    out.head.put_u32(prefix + "feed_forward_length", e.ffn_dim);
  }
  // Other readers take sigmoids as they are where this key is missing.
  if (!e.normalized || e.gating == Gating::Sigmoid) {
    out.head.put_bool(prefix + "weights_norm", e.normalized);
  }
  if (e.gating == Gating::Sigmoid) out.head.put_u32(prefix + "gating_func", 2);
  if (e.scale != 1 || e.gating == Gating::Sigmoid) {
    out.head.put_f32(prefix + "weights_scale", e.scale);
  }
  stack_experts(c, out);
}

}  // namespace skald
