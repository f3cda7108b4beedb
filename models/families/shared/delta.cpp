#include "models/families/shared/delta.h"

#include <cmath>
#include <functional>
#include <string>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr int64_t kMostTaps = 64, kMostInterval = 1 << 16;

void check_heads(const DeltaSpec& spec, std::string_view where) {
  if (spec.value_heads % spec.key_heads == 0) return;
  fail(Exit::Model, where, ": ", spec.value_heads, " heads of values cannot share ", spec.key_heads,
       " heads of keys evenly");
}

// Every n-th layer has attention, the others have a net.
std::vector<bool> by_interval(int layers, int64_t interval) {
  std::vector<bool> nets;
  nets.reserve(static_cast<size_t>(layers));
  for (int layer = 0; layer < layers; ++layer) nets.push_back((layer + 1) % interval != 0);
  return nets;
}

// Appends the rows from `first` on of all heads of values, `width` rows each, in GGUF's order.
void append_values(const DeltaSpec& s, HeadOrder order, int64_t first, int64_t width,
                   std::vector<int32_t>& rows) {
  const int shared = s.value_heads / s.key_heads;
  for (int head = 0; head < s.value_heads; ++head) {
    const int from =
        order == HeadOrder::Blocks ? head : head % s.key_heads * shared + head / s.key_heads;
    for (int64_t i = 0; i < width; ++i)
      rows.push_back(static_cast<int32_t>(first + from * width + i));
  }
}

std::vector<int32_t> value_order(const DeltaSpec& s, HeadOrder order, int64_t width) {
  std::vector<int32_t> rows;
  append_values(s, order, 0, width, rows);
  return rows;
}

// Queries and keys stay, values follow in GGUF's order.
std::vector<int32_t> mixed_order(const DeltaSpec& s, HeadOrder order) {
  std::vector<int32_t> rows;
  rows.reserve(static_cast<size_t>(2 * s.keys() + s.values()));
  for (int32_t row = 0; row < 2 * s.keys(); ++row) rows.push_back(row);
  append_values(s, order, 2 * s.keys(), s.value_dim, rows);
  return rows;
}

// A layer's vector of numbers for each head of values.
void reorder_heads(MadeTensor& tensor, const std::vector<int32_t>& order,
                   const std::function<float(float)>& changed) {
  std::vector<float> floats(order.size());
  std::vector<std::byte> scratch;
  tensor.source.decode_row(0, floats.data(), scratch);
  for (const int32_t from : order) {
    tensor.values.push_back(changed(floats[static_cast<size_t>(from)]));
  }
  tensor.shape = {std::ssize(order)};
  tensor.type = DType::F32;
  tensor.source = {};
}

// `ssm_in` holds, key head by key head, the rows of a query, a key, values and gates.
std::vector<MadeTensor> split_input(const MadeTensor& in, const DeltaSpec& s) {
  const int64_t values = int64_t{s.value_heads / s.key_heads} * s.value_dim;
  const int64_t whole = 2 * s.key_dim + 2 * values;
  const auto rows = [&](MadeTensor& tensor, int64_t first, int64_t count) {
    for (int64_t head = 0; head < s.key_heads; ++head) {
      for (int64_t i = 0; i < count; ++i) {
        tensor.row_order.push_back(static_cast<int32_t>(head * whole + first + i));
      }
    }
    tensor.shape.front() = std::ssize(tensor.row_order);
  };
  MadeTensor mixed = in, gate = in;
  const std::string layer = in.name.substr(0, in.name.rfind("ssm_in"));
  mixed.name = layer + "attn_qkv.weight";
  gate.name = layer + "attn_gate.weight";
  rows(mixed, 0, s.key_dim);
  rows(mixed, s.key_dim, s.key_dim);
  rows(mixed, 2 * s.key_dim, values);
  rows(gate, 2 * s.key_dim + values, values);
  return {std::move(mixed), std::move(gate)};
}

}  // namespace

DeltaConfig read_hf_delta(const HfConfig& config, int layers) {
  DeltaConfig d;
  const auto number = [&](std::string_view key, int64_t most) {
    return static_cast<int>(config.integer(key, 1, most));
  };
  d.spec.key_heads = number("linear_num_key_heads", kMostHeads);
  d.spec.value_heads = number("linear_num_value_heads", kMostHeads);
  d.spec.key_dim = number("linear_key_head_dim", kMostHeadDim);
  d.spec.value_dim = number("linear_value_head_dim", kMostHeadDim);
  d.spec.order = HeadOrder::Blocks;
  d.taps = static_cast<int>(config.integer("linear_conv_kernel_dim", 2, kMostTaps));
  check_heads(d.spec, config.where());
  if (!config.has("layer_types")) {
    d.layers = by_interval(layers, config.integer("full_attention_interval", 1, kMostInterval));
    return d;
  }
  for (const std::string& type : config.texts("layer_types")) {
    const bool net = type == "linear_attention";
    if (!net && type != "full_attention") {
      fail(Exit::Model, config.where(), ": 'layer_types' has '", printable(type, 80),
           "', expected 'full_attention' or 'linear_attention'");
    }
    d.layers.push_back(net);
  }
  if (std::ssize(d.layers) < layers) {
    fail(Exit::Model, config.where(), ": 'layer_types' has ", d.layers.size(),
         " values, expected one for each of ", layers, " layers");
  }
  d.layers.resize(static_cast<size_t>(layers));
  return d;
}

DeltaConfig read_gguf_delta(const GgufFile& file, int layers, HeadOrder order) {
  const GgufMetadata& metadata = file.metadata();
  const std::string prefix = std::string(metadata.text("general.architecture")) + ".";
  const auto number = [&](std::string_view key, int64_t least, int64_t most) {
    return gguf_integer(file, key, least, most);
  };
  DeltaConfig d;
  d.spec.key_heads = number("ssm.group_count", 1, kMostHeads);
  d.spec.value_heads = number("ssm.time_step_rank", 1, kMostHeads);
  d.spec.key_dim = number("ssm.state_size", 1, kMostHeadDim);
  const int inner = number("ssm.inner_size", 1, kMostHeads * kMostHeadDim);
  d.spec.value_dim = inner / d.spec.value_heads;
  d.spec.order = order;
  d.taps = number("ssm.conv_kernel", 2, kMostTaps);
  check_heads(d.spec, file.path());
  if (inner % d.spec.value_heads != 0 || d.spec.value_dim > kMostHeadDim) {
    fail(Exit::Model, file.path(), ": '", prefix, "ssm.inner_size' is ", inner,
         ", expected a multiple of the ", d.spec.value_heads, " heads of values");
  }
  // The tensors decide: files differ in how they say which layers have a net.
  for (int layer = 0; layer < layers; ++layer) {
    d.layers.push_back(file.find(concat("blk.", layer, ".ssm_conv1d.weight")) != nullptr);
  }
  return d;
}

void export_delta(const ModelConfig& c, std::string_view architecture, HeadOrder order,
                  GgufExport& out) {
  const DeltaSpec& s = c.delta.spec;
  const std::string prefix = concat(architecture, ".");
  out.head.put_u32(prefix + "ssm.conv_kernel", c.delta.taps);
  out.head.put_u32(prefix + "ssm.state_size", s.key_dim);
  out.head.put_u32(prefix + "ssm.group_count", s.key_heads);
  out.head.put_u32(prefix + "ssm.time_step_rank", s.value_heads);
  out.head.put_u32(prefix + "ssm.inner_size", s.values());
  out.head.put_bools(prefix + "attention.recurrent_layers", c.delta.layers);
  for (int interval = 1; interval <= c.layers; ++interval) {
    if (c.delta.layers != by_interval(c.layers, interval)) continue;
    out.head.put_u32(prefix + "full_attention_interval", interval);
    break;
  }
  const auto same = [](float x) { return x; };
  const bool turns = order == HeadOrder::Turns;
  std::vector<MadeTensor> tensors;
  for (MadeTensor& tensor : out.tensors) {
    const std::string_view name = tensor.name;
    const size_t dot = layer_of(name) < 0 ? 0 : name.find('.', name.find('.') + 1) + 1;
    const std::string_view part = name.substr(dot);
    if (part == "ssm_in.weight") {
      for (MadeTensor& half : split_input(tensor, s)) tensors.push_back(std::move(half));
      continue;
    }
    if (part == "attn_qkv.weight" && turns) tensor.row_order = mixed_order(s, order);
    if (part == "attn_gate.weight" && turns) tensor.row_order = value_order(s, order, s.value_dim);
    if (part == "ssm_out.weight" && turns) tensor.col_order = value_order(s, order, s.value_dim);
    if (part == "ssm_beta.weight" || part == "ssm_alpha.weight") {
      tensor.row_order = value_order(s, order, 1);
    }
    if (part == "ssm_conv1d.weight") {
      tensor.shape = {tensor.source.rows, tensor.source.cols};  // without the middle 1
      tensor.row_order = mixed_order(s, order);
    }
    if (part == "ssm_dt.bias") reorder_heads(tensor, value_order(s, order, 1), same);
    if (part == "ssm_a.log") {
      reorder_heads(tensor, value_order(s, order, 1), [](float a) { return -std::exp(a); });
      tensor.name.resize(tensor.name.size() - std::string_view(".log").size());
    }
    tensors.push_back(std::move(tensor));
  }
  out.tensors = std::move(tensors);
}

DeltaLayers::DeltaLayers(const ModelConfig& config, const WeightFile& file, Blocks& blocks)
    : config_(config), file_(file), blocks_(blocks) {
  const DeltaSpec& s = config.delta.spec;
  ProgramBuilder& b = blocks.builder();
  mixed_ = b.act("delta_mixed", 2 * s.keys() + s.values());
  convolved_ = b.act("delta_convolved", b.cols(mixed_));
  gate_ = b.act("delta_gate", s.values());
  decay_ = b.act("delta_decay", s.value_heads);
  beta_ = b.act("delta_beta", s.value_heads);
  out_ = b.act("delta_out", s.values());
}

void DeltaLayers::projections(int layer, ActId in) {
  const DeltaSpec& s = config_.delta.spec;
  ProgramBuilder& b = blocks_.builder();
  const int shared = s.value_heads / s.key_heads;  // heads of values for each head of keys
  const auto has = [&](std::string_view part) {
    return file_.find(concat("blk.", layer, ".", part)) != nullptr;
  };
  if (has("ssm_in.weight")) {
    const int values = shared * s.value_dim, keys = static_cast<int>(s.keys());
    if (!all_) all_ = b.act("delta_all", b.cols(mixed_) + b.cols(gate_));
    blocks_.linear(*all_, in, layer, "ssm_in", false);
    b.add(HeadPart{mixed_, *all_, s.key_heads, s.key_dim, 0, 0});
    b.add(HeadPart{mixed_, *all_, s.key_heads, s.key_dim, s.key_dim, keys});
    b.add(HeadPart{mixed_, *all_, s.key_heads, values, 2 * s.key_dim, 2 * keys});
    b.add(HeadPart{gate_, *all_, s.key_heads, values, 2 * s.key_dim + values, 0});
  } else {
    blocks_.linear(mixed_, in, layer, "attn_qkv", false);
    blocks_.linear(gate_, in, layer, "attn_gate", false);
  }
  if (has("ssm_ba.weight")) {
    if (!both_) both_ = b.act("delta_beta_and_decay", 2 * s.value_heads);
    blocks_.linear(*both_, in, layer, "ssm_ba", false);
    b.add(HeadPart{beta_, *both_, s.key_heads, shared, 0, 0});
    b.add(HeadPart{decay_, *both_, s.key_heads, shared, shared, 0});
  } else {
    blocks_.linear(beta_, in, layer, "ssm_beta", false);
    blocks_.linear(decay_, in, layer, "ssm_alpha", false);
  }
}

void DeltaLayers::add(int layer, ActId in) {
  const DeltaConfig& d = config_.delta;
  const DeltaSpec& s = d.spec;
  ProgramBuilder& b = blocks_.builder();
  const auto name = [&](std::string_view part) { return concat("blk.", layer, ".", part); };
  projections(layer, in);

  const int64_t cols = b.cols(mixed_);
  CausalConv conv{convolved_, mixed_, b.weight(name("ssm_conv1d.weight"), cols, d.taps), d.taps, 0};
  conv.state = b.state({(d.taps - 1) * cols});
  b.add(conv);

  DeltaNet net{out_, convolved_, decay_, beta_, WeightId::None, WeightId::None, s, false, 0};
  net.log_rate = file_.find(name("ssm_a.log")) != nullptr;
  net.rate = b.weight(name(net.log_rate ? "ssm_a.log" : "ssm_a"), 1, s.value_heads);
  net.bias = b.weight(name("ssm_dt.bias"), 1, s.value_heads);
  net.state = b.state({s.state_floats()});
  b.add(net);

  const WeightId norm = b.weight(name("ssm_norm.weight"), 1, s.value_dim);
  b.add(HeadNorm{out_, norm, s.value_heads, s.value_dim, config_.norm_eps});
  b.add(GatedAct{out_, gate_, out_, Activation::Silu});
  blocks_.linear(blocks_.h(), out_, layer, "ssm_out", false);
}

}  // namespace skald
