#include "models/families/shared/space.h"

#include <cmath>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "models/families/shared/config.h"
#include "models/families/shared/gguf_fields.h"
#include "models/families/shared/names.h"
#include "models/files/gguf.h"

namespace skald {
namespace {

// A folder has these numbers in one row. GGUF has them as float32 of another shape.
void reshape(MadeTensor& tensor, std::vector<int64_t> shape, bool is_log_rate = false) {
  tensor.values.resize(static_cast<size_t>(tensor.source.cols));
  std::vector<std::byte> scratch;
  tensor.source.decode_row(0, tensor.values.data(), scratch);
  for (float& x : tensor.values) {
    if (is_log_rate) x = -std::exp(x);
  }
  tensor.shape = std::move(shape);
  tensor.type = DType::F32;
  tensor.source = {};
}

}  // namespace

void check_space(const SpaceSpec& s, std::string_view where) {
  if (s.heads % s.groups != 0) {
    fail(Exit::Model, where, ": ", s.heads, " heads of a state space cannot share ", s.groups,
         " groups evenly");
  }
  if (s.head_dim < 1 || s.head_dim > kMostHeadDim) {
    fail(Exit::Model, where, ": a head of a state space has ", s.head_dim,
         " dimensions, expected 1 to ", kMostHeadDim);
  }
}

SpaceConfig read_gguf_space(const GgufFile& file, int layers) {
  const auto number = [&](std::string_view key, int64_t least, int64_t most) {
    return gguf_integer(file, key, least, most);
  };
  SpaceConfig space;
  SpaceSpec& s = space.spec;
  s.heads = number("ssm.time_step_rank", 1, kMostHeads);
  s.groups = number("ssm.group_count", 1, kMostHeads);
  s.state_dim = number("ssm.state_size", 1, kMostHeadDim);
  const int inner = number("ssm.inner_size", 1, kMostHeads * kMostHeadDim);
  s.head_dim = inner / s.heads;
  space.taps = number("ssm.conv_kernel", 2, kMostConvTaps);
  if (inner % s.heads != 0) {
    fail(Exit::Model, file.path(), ": 'ssm.inner_size' is ", inner, ", expected a multiple of the ",
         s.heads, " heads of 'ssm.time_step_rank'");
  }
  check_space(s, file.path());
  for (int layer = 0; layer < layers; ++layer) {
    space.layers.push_back(file.find(concat("blk.", layer, ".ssm_in.weight")) != nullptr);
    space.conv_bias &= !space.layers.back() || file.find(concat("blk.", layer, ".ssm_conv1d.bias"));
  }
  return space;
}

void export_space(const ModelConfig& c, std::string_view architecture, GgufExport& out) {
  const SpaceSpec& s = c.space.spec;
  const std::string prefix = concat(architecture, ".ssm.");
  out.head.put_u32(prefix + "conv_kernel", c.space.taps);
  out.head.put_u32(prefix + "state_size", s.state_dim);
  out.head.put_u32(prefix + "group_count", s.groups);
  out.head.put_u32(prefix + "inner_size", s.values());
  out.head.put_u32(prefix + "time_step_rank", s.heads);
  for (MadeTensor& tensor : out.tensors) {
    if (tensor.name.ends_with(".ssm_conv1d.weight")) {
      tensor.shape = {tensor.source.rows, tensor.source.cols};  // without the middle 1
    } else if (tensor.name.ends_with(".ssm_norm.weight")) {
      reshape(tensor, {s.groups, s.values() / s.groups});
    } else if (tensor.name.ends_with(".ssm_d")) {
      reshape(tensor, {s.heads, 1});
    } else if (tensor.name.ends_with(".ssm_a.log")) {
      reshape(tensor, {s.heads, 1}, true);
      tensor.name.resize(tensor.name.size() - std::string_view(".log").size());
    }
  }
}

SpaceLayers::SpaceLayers(const ModelConfig& config, const WeightFile& file, Blocks& blocks)
    : config_(config), file_(file), blocks_(blocks) {
  const SpaceSpec& s = config.space.spec;
  ProgramBuilder& b = blocks.builder();
  gate_ = b.act("space_gate", s.values());
  mixed_ = b.act("space_mixed", s.inputs());
  convolved_ = b.act("space_convolved", s.inputs());
  step_ = b.act("space_step", s.heads);
  out_ = b.act("space_out", s.values());
}

WeightId SpaceLayers::numbers(const std::string& name, int64_t count, int64_t rows) {
  const Tensor* tensor = file_.find(name);
  const bool row = !tensor || tensor->view.rows == 1;
  return blocks_.builder().weight(name, row ? 1 : rows, row ? count : count / rows);
}

void SpaceLayers::add(int layer, ActId in) {
  const SpaceSpec& s = config_.space.spec;
  ProgramBuilder& b = blocks_.builder();
  const auto name = [&](std::string_view part) { return concat("blk.", layer, ".", part); };
  const int64_t rows = s.values() + s.inputs() + s.heads;
  int64_t first = 0;
  for (const ActId part : {gate_, mixed_, step_}) {
    const WeightId weight =
        b.weight_rows(name("ssm_in.weight"), rows, b.cols(in), first, b.cols(part));
    b.add(Linear{part, in, weight, WeightId::None});
    first += b.cols(part);
  }

  const int taps = config_.space.taps;
  CausalConv conv{convolved_, mixed_, b.weight(name("ssm_conv1d.weight"), s.inputs(), taps), taps,
                  b.state({(taps - 1) * s.inputs()})};
  if (config_.space.conv_bias) conv.bias = b.weight(name("ssm_conv1d.bias"), 1, s.inputs());
  b.add(conv);

  StateSpace space = {out_, convolved_, step_};
  space.log_rate = file_.find(name("ssm_a.log")) != nullptr;
  space.rate = numbers(name(space.log_rate ? "ssm_a.log" : "ssm_a"), s.heads, s.heads);
  space.bias = b.weight(name("ssm_dt.bias"), 1, s.heads);
  space.skip = numbers(name("ssm_d"), s.heads, s.heads);
  space.spec = s;
  space.state = b.state({s.state_floats()});
  b.add(space);

  b.add(GatedAct{out_, gate_, out_, Activation::Silu});
  const WeightId norm = numbers(name("ssm_norm.weight"), s.values(), s.groups);
  b.add(HeadNorm{out_, norm, s.groups, static_cast<int>(s.values() / s.groups), config_.norm_eps});
  blocks_.linear(blocks_.h(), out_, layer, "ssm_out", false);
}

}  // namespace skald
