#include "engine/program/program.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/base/error.h"
#include "engine/base/overloaded.h"

namespace skald {
namespace {

std::string shape_text(int64_t rows, int64_t cols) {
  return rows == 1 ? concat("[", cols, "]") : concat("[", rows, ", ", cols, "]");
}

}  // namespace

void Program::bind_context(int64_t context) {
  for (RopeSpec& rope : ropes) {
    if (rope.by_context) rope.inv_freq = rope.by_context(context);
  }
}

int64_t Program::vocab() const {
  return logits().is_part() ? logits().of : weight(logits().weight).view.rows;
}

int64_t Program::tokens() const { return weight(std::get<Embed>(ops.front()).weight).view.rows; }

int64_t Program::given_cols() const {
  int64_t cols = 0;
  for (const Op& op : ops) {
    if (const auto* given = std::get_if<Given>(&op)) cols += act(given->out).cols;
  }
  return cols;
}

ActId Program::stream() const { return *op_output(ops.front()); }

ActId Program::features(Features kind) const {
  switch (kind) {
    case Features::Stream:
      return stream();
    case Features::Normed:
      return logits().in;
    case Features::Taps:
      break;
  }
  check(taps.has_value(), "a program whose taps are read has some");
  return *taps;
}

int64_t Program::state_floats() const {
  int64_t floats = 0;
  for (const StateSpec& state : states) floats += state.floats;
  return floats;
}

int64_t Program::weight_bytes(int sequences) const {
  const auto chosen = [&](const ExpertsSpec& spec, int64_t bytes) {
    const double left_out = std::pow(1 - static_cast<double>(spec.used) / spec.count, sequences);
    return std::llround(spec.count * (1 - left_out) * static_cast<double>(bytes));
  };
  int64_t bytes = 0;
  auto count = [&](WeightId id) {
    if (id != WeightId::None) bytes += weight(id).view.bytes();
  };
  for (const Op& op : ops) {
    std::visit(
        Overloaded{
            [&](const Embed& o) { bytes += sequences * weight(o.weight).view.own_row_bytes(); },
            [](const Given&) {},
            [&](const Norm& o) { count(o.weight), count(o.bias); },
            [&](const HeadNorm& o) { count(o.weight); },
            [&](const Linear& o) { count(o.weight), count(o.bias); },
            [&](const Delta& o) {
              const AdaptedMatrix& m = adapted[static_cast<size_t>(o.matrix)];
              int64_t most = 0;  // of the adapters
              for (size_t a = 0; a < m.down.size(); ++a) {
                if (m.down[a] == WeightId::None) continue;
                most =
                    std::max(most, weight(m.down[a]).view.bytes() + weight(m.up[a]).view.bytes());
              }
              bytes += most;
            },
            [&](const RowGate& o) { count(o.weight); },
            [&](const Experts& o) {
              count(o.router);
              count(o.router_bias), count(o.choice_bias), count(o.expert_scale);
              int64_t expert = 0;
              for (WeightId part : {o.gate, o.up, o.down}) {
                if (part != WeightId::None) expert += weight(part).view.bytes();
              }
              for (WeightId bias : {o.gate_bias, o.up_bias, o.down_bias}) {
                if (bias != WeightId::None) expert += weight(bias).view.own_row_bytes();
              }
              bytes += chosen(o.spec, expert);
            },
            [&](const Logits& o) { count(o.weight); },
            [](const Rope&) {},
            [&](const Attention& o) { count(o.sinks); },
            [](const HeadPart&) {},
            [&](const CausalConv& o) { count(o.weight), count(o.bias); },
            [&](const DeltaNet& o) { count(o.rate), count(o.bias); },
            [&](const StateSpace& o) { count(o.rate), count(o.bias), count(o.skip); },
            [](const GatedAct&) {},
            [](const Activate&) {},
            [](const Add&) {},
            [](const AllReduce&) {},
        },
        op);
  }
  return bytes;
}

std::string_view op_name(const Op& op) {
  return std::visit(
      Overloaded{
          [](const Embed&) { return "embed"; },
          [](const Given&) { return "given"; },
          [](const Norm& o) { return o.kind == NormKind::Rms ? "rms_norm" : "layer_norm"; },
          [](const HeadNorm&) { return "head_norm"; },
          [](const Linear&) { return "linear"; },
          [](const Delta&) { return "delta"; },
          [](const Rope&) { return "rope"; },
          [](const Attention&) { return "attention"; },
          [](const HeadPart&) { return "head_part"; },
          [](const CausalConv&) { return "causal_conv"; },
          [](const DeltaNet&) { return "delta_net"; },
          [](const StateSpace&) { return "state_space"; },
          [](const GatedAct&) { return "gated_act"; },
          [](const Activate&) { return "activate"; },
          [](const RowGate&) { return "row_gate"; },
          [](const Experts&) { return "experts"; },
          [](const Add&) { return "add"; },
          [](const AllReduce&) { return "all_reduce"; },
          [](const Logits&) { return "logits"; },
      },
      op);
}

const ActId* op_output(const Op& op) {
  using Out = const ActId*;
  return std::visit(Overloaded{
                        [](const Embed& o) -> Out { return &o.out; },
                        [](const Given& o) -> Out { return &o.out; },
                        [](const Norm& o) -> Out { return &o.out; },
                        [](const HeadNorm& o) -> Out { return &o.x; },
                        [](const Linear& o) -> Out { return &o.out; },
                        [](const Delta& o) -> Out { return &o.out; },
                        [](const Rope& o) -> Out { return &o.x; },
                        [](const Attention& o) -> Out { return &o.out; },
                        [](const HeadPart& o) -> Out { return &o.out; },
                        [](const CausalConv& o) -> Out { return &o.out; },
                        [](const DeltaNet& o) -> Out { return &o.out; },
                        [](const StateSpace& o) -> Out { return &o.out; },
                        [](const GatedAct& o) -> Out { return &o.out; },
                        [](const Activate& o) -> Out { return &o.out; },
                        [](const RowGate& o) -> Out { return &o.x; },
                        [](const Experts& o) -> Out { return &o.out; },
                        [](const Add& o) -> Out { return &o.x; },
                        [](const AllReduce& o) -> Out { return &o.x; },
                        [](const Logits&) -> Out { return nullptr; },
                    },
                    op);
}

std::vector<ActId> op_inputs(const Op& op) {
  using In = std::vector<ActId>;
  return std::visit(Overloaded{
                        [](const Embed&) { return In{}; },
                        [](const Given&) { return In{}; },
                        [](const Norm& o) { return In{o.in}; },
                        [](const HeadNorm& o) { return In{o.x}; },
                        [](const Linear& o) { return In{o.in}; },
                        [](const Delta& o) {
                          return In{o.out, o.in};
                        },
                        [](const Rope& o) { return In{o.x}; },
                        [](const Attention& o) {
                          return o.appends ? In{o.q, o.k, o.v} : In{o.q};
                        },
                        [](const HeadPart& o) { return In{o.in}; },
                        [](const CausalConv& o) { return In{o.in}; },
                        [](const DeltaNet& o) {
                          return In{o.in, o.decay, o.beta};
                        },
                        [](const StateSpace& o) {
                          return In{o.in, o.step};
                        },
                        [](const GatedAct& o) {
                          return In{o.gate, o.up};
                        },
                        [](const Activate& o) { return In{o.in}; },
                        [](const RowGate& o) {
                          return In{o.x, o.in};
                        },
                        [](const Experts& o) {
                          return o.route == o.in ? In{o.in} : In{o.in, o.route};
                        },
                        [](const Add& o) {
                          return In{o.x, o.y};
                        },
                        [](const AllReduce& o) { return In{o.x}; },
                        [](const Logits& o) { return In{o.in}; },
                    },
                    op);
}

ActId ProgramBuilder::act(std::string name, int64_t cols) {
  program_.acts.push_back({std::move(name), cols});
  return static_cast<ActId>(program_.acts.size() - 1);
}

WeightId ProgramBuilder::weight(const std::string& name, int64_t rows, int64_t cols) {
  return add(whole(name, rows, cols));
}

Weight ProgramBuilder::whole(const std::string& name, int64_t rows, int64_t cols) const {
  const Tensor* tensor = file_.find(name);
  if (!tensor) {
    fail(Exit::Model, file_.path(), ": tensor '", name, "' is missing (expected ",
         shape_text(rows, cols), "); the file is incomplete or of another architecture");
  }
  const TensorView& view = tensor->view;
  if (view.rows != rows || view.cols != cols) {
    fail(Exit::Model, tensor->file, ": tensor '", name, "' is ", shape_text(view.rows, view.cols),
         ", expected ", shape_text(rows, cols), " by the model's configuration");
  }
  return {name, view, 0, tensor->source, tensor->file};
}

WeightId ProgramBuilder::norm_weight(const std::string& name, int64_t cols, float plus) {
  const WeightId id = weight(name, 1, cols);
  program_.weights[static_cast<size_t>(id)].plus = plus;
  return id;
}

WeightId ProgramBuilder::optional_weight(const std::string& name, int64_t rows, int64_t cols) {
  if (!file_.find(name)) return WeightId::None;
  return add(whole(name, rows, cols));
}

WeightId ProgramBuilder::weight_rows(const std::string& name, int64_t rows, int64_t cols,
                                     int64_t first, int64_t count) {
  Weight part = whole(name, rows, cols);
  part.name = concat(name, "[", first, ":", first + count, "]");
  part.whole = name;
  part.first_row = first;
  part.view = slice_rows(part.view, first, count);
  if (part.source.exists()) part.source = slice_rows(part.source, first, count);
  return add(std::move(part));
}

WeightId ProgramBuilder::weight_cols(const std::string& name, int64_t rows, int64_t cols,
                                     int64_t first, int64_t count) {
  Weight part = whole(name, rows, cols);
  part.name = concat(name, "[:, ", first, ":", first + count, "]");
  part.whole = name;
  part.first_col = first;
  part.view = slice_cols(part.view, first, count);
  if (part.source.exists()) part.source = slice_cols(part.source, first, count);
  return add(std::move(part));
}

WeightId ProgramBuilder::add(Weight weight) {
  const auto id = static_cast<WeightId>(program_.weights.size());
  const auto [found, is_new] = weights_.emplace(weight.name, id);
  if (is_new) program_.weights.push_back(std::move(weight));
  return found->second;
}

WeightId ProgramBuilder::expert_weights(const std::string& stack,
                                        const std::function<std::string(int)>& single, int count,
                                        int64_t rows, int64_t cols) {
  check(count > 0, "a layer of experts has some");
  const Tensor* tensor = file_.find(stack);
  if (!tensor && file_.find(single(0))) {
    const WeightId first = weight(single(0), rows, cols);
    for (int e = 1; e < count; ++e) {
      const std::string name = single(e);
      const DType type = program_.weight(weight(name, rows, cols)).view.type,
                  wanted = program_.weight(first).view.type;
      if (type == wanted) continue;
      fail(Exit::Model, file_.find(name)->file, ": tensor '", name, "' is ", skald::name(type),
           ", expected ", skald::name(wanted), " as the layer's first expert has");
    }
    return first;
  }
  return expert_rows(stack, count, rows, cols, 0, rows);
}

WeightId ProgramBuilder::expert_rows(const std::string& stack, int count, int64_t whole,
                                     int64_t cols, int64_t first, int64_t rows) {
  const Tensor* tensor = file_.find(stack);
  const auto shape = [&] { return concat("[", count, ", ", whole, ", ", cols, "]"); };
  if (!tensor) {
    fail(Exit::Model, file_.path(), ": tensor '", stack, "' is missing (expected ", shape(),
         "); the file is incomplete or of another architecture");
  }
  const std::vector<int64_t>& is = tensor->shape;
  if (is != std::vector<int64_t>{count, whole, cols}) {
    std::string text;
    for (int64_t size : is) text += concat(text.empty() ? "[" : ", ", size);
    fail(Exit::Model, tensor->file, ": tensor '", stack, "' is ", text, "], expected ", shape(),
         " by the model's configuration");
  }
  WeightId id = WeightId::None;
  for (int e = 0; e < count; ++e) {
    const int64_t from = e * whole + first;
    TensorView source = tensor->source;
    if (source.exists()) source = slice_rows(source, from, rows);
    const std::string part =
        rows == whole ? std::string() : concat("[", first, ":", first + rows, "]");
    const WeightId added =
        add({concat(stack, "[", e, "]", part), slice_rows(tensor->view, from, rows), 0, source,
             tensor->file, stack, from});
    if (e == 0) id = added;
  }
  return id;
}

int ProgramBuilder::rope(RopeSpec spec) {
  program_.ropes.push_back(std::move(spec));
  return static_cast<int>(program_.ropes.size() - 1);
}

int ProgramBuilder::kv_layer(KvLayer layer) {
  program_.kv.push_back(layer);
  return static_cast<int>(program_.kv.size() - 1);
}

int ProgramBuilder::state(StateSpec state) {
  program_.states.push_back(state);
  return static_cast<int>(program_.states.size() - 1);
}

Program ProgramBuilder::finish() && {
  check_program(program_);
  return std::move(program_);
}

void check_program(const Program& p) {
  auto cols = [&](ActId id) { return p.act(id).cols; };
  auto view = [&](WeightId id) { return p.weight(id).view; };
  auto floats = [&](int state) { return p.states[static_cast<size_t>(state)].floats; };
  auto has = [&](WeightId id, int64_t numbers) { return view(id).rows * view(id).cols == numbers; };
  auto norm_fits = [&](WeightId id, int64_t width) {
    return id == WeightId::None || view(id).cols == width;
  };
  std::set<int> appended;  // layers of the cache
  check(!p.ops.empty() && std::holds_alternative<Logits>(p.ops.back()),
        "a program ends with logits");
  for (const Op& op : p.ops) {
    const bool fits = std::visit(
        Overloaded{
            [&](const Embed& o) { return view(o.weight).cols == cols(o.out); },
            [](const Given&) { return true; },
            [&](const Norm& o) {
              const bool bias_fits = o.bias == WeightId::None ||
                                     (o.kind == NormKind::Layer && view(o.bias).cols == cols(o.in));
              return norm_fits(o.weight, cols(o.in)) && cols(o.in) == cols(o.out) && bias_fits &&
                     (o.weight != WeightId::None || o.kind == NormKind::Rms);
            },
            [&](const HeadNorm& o) {
              const bool fits = o.weight == WeightId::None || has(o.weight, cols(o.x)) ||
                                view(o.weight).cols == o.head_dim;
              return fits && cols(o.x) == int64_t{o.heads} * o.head_dim;
            },
            [&](const Linear& o) {
              if (o.heads > 1) {
                const int64_t in = cols(o.in) / o.heads, out = cols(o.out) / o.heads;
                const int64_t ins = view(o.weight).cols, outs = view(o.weight).rows / o.heads;
                return cols(o.in) % o.heads == 0 && cols(o.out) % o.heads == 0 &&
                       view(o.weight).rows % o.heads == 0 && o.in_first >= 0 && o.out_first >= 0 &&
                       o.in_first + ins <= in && o.out_first + outs <= out && o.in != o.out &&
                       o.bias == WeightId::None;
              }
              return o.heads == 1 && o.in_first == 0 && o.out_first == 0 &&
                     view(o.weight).cols == cols(o.in) && view(o.weight).rows == cols(o.out) &&
                     (o.bias == WeightId::None || view(o.bias).cols == cols(o.out));
            },
            [&](const Delta& o) {
              const AdaptedMatrix& m = p.adapted[static_cast<size_t>(o.matrix)];
              const auto adapters = static_cast<size_t>(p.adapters);
              if (o.in == o.out || m.down.size() != adapters || m.up.size() != adapters)
                return false;
              for (size_t a = 0; a < adapters; ++a) {
                if ((m.down[a] == WeightId::None) != (m.up[a] == WeightId::None)) return false;
                if (m.down[a] == WeightId::None) continue;
                const TensorView down = view(m.down[a]), up = view(m.up[a]);
                if (down.cols != cols(o.in) || up.rows != cols(o.out) || down.rows != up.cols)
                  return false;
              }
              return true;
            },
            [&](const Rope& o) {
              return cols(o.x) == int64_t{o.heads} * o.head_dim &&
                     2 * p.ropes[static_cast<size_t>(o.spec)].inv_freq.size() <=
                         static_cast<size_t>(o.head_dim);
            },
            [&](const Attention& o) {
              const int64_t q = int64_t{o.spec.heads} * o.spec.head_dim;
              const int64_t kv = int64_t{o.spec.kv_heads} * o.spec.head_dim;
              const bool sinks_fit =
                  o.sinks == WeightId::None || view(o.sinks).cols == o.spec.heads;
              const bool cached =
                  o.appends ? cols(o.k) == kv && cols(o.v) == kv : appended.contains(o.layer);
              appended.insert(o.layer);
              const KvLayer& cache = p.kv[static_cast<size_t>(o.layer)];
              return cols(o.q) == q && cols(o.out) == q && cached && sinks_fit &&
                     cache.kv_heads == o.spec.kv_heads && cache.head_dim == o.spec.head_dim;
            },
            [&](const HeadPart& o) {
              const int64_t width = o.width == 0 ? o.cols : o.width;
              return o.in != o.out && o.heads > 0 && o.first >= 0 && o.to >= 0 &&
                     cols(o.in) % o.heads == 0 && o.first + o.cols <= cols(o.in) / o.heads &&
                     width >= o.cols && o.to + (o.heads - 1) * width + o.cols <= cols(o.out);
            },
            [&](const CausalConv& o) {
              return o.in != o.out && cols(o.in) == cols(o.out) && o.taps > 1 &&
                     view(o.weight).rows == cols(o.in) && view(o.weight).cols == o.taps &&
                     floats(o.state) == (o.taps - 1) * cols(o.in) &&
                     (o.bias == WeightId::None || has(o.bias, cols(o.in))) &&
                     (o.activation == Activation::Silu || o.activation == Activation::Identity);
            },
            [&](const DeltaNet& o) {
              const DeltaSpec& s = o.spec;
              return s.value_heads % s.key_heads == 0 && cols(o.out) == s.values() &&
                     cols(o.in) == 2 * s.keys() + s.values() && cols(o.decay) == s.value_heads &&
                     cols(o.beta) == s.value_heads && view(o.rate).cols == s.value_heads &&
                     view(o.bias).cols == s.value_heads && floats(o.state) == s.state_floats();
            },
            [&](const StateSpace& o) {
              const SpaceSpec& s = o.spec;
              return s.groups > 0 && s.heads % s.groups == 0 && cols(o.out) == s.values() &&
                     cols(o.in) == s.inputs() && cols(o.step) == s.heads && has(o.rate, s.heads) &&
                     has(o.bias, s.heads) && has(o.skip, s.heads) &&
                     floats(o.state) == s.state_floats();
            },
            [&](const GatedAct& o) {
              return cols(o.gate) == cols(o.up) && cols(o.up) == cols(o.out);
            },
            [&](const Activate& o) { return cols(o.in) == cols(o.out); },
            [&](const RowGate& o) {
              return o.x != o.in && view(o.weight).rows == 1 && view(o.weight).cols == cols(o.in);
            },
            [&](const Experts& o) {
              const TensorView up = view(o.up);
              const bool gated = o.gate != WeightId::None;
              const auto alike = [&](WeightId first, int64_t rows, int64_t width) {
                for (int e = 0; e < o.spec.count; ++e) {
                  const TensorView v = view(o.of(first, e));
                  if (v.rows != rows || v.cols != width || v.type != view(first).type) return false;
                }
                return true;
              };
              const auto bias_fits = [&](WeightId id, int64_t rows, int64_t width) {
                return id == WeightId::None || (view(id).rows == rows && view(id).cols == width);
              };
              const bool all_or_none =
                  (gated ? (o.gate_bias == WeightId::None) == (o.up_bias == WeightId::None)
                         : o.gate_bias == WeightId::None) &&
                  (o.gate_bias == WeightId::None) == (o.down_bias == WeightId::None);
              return all_or_none && bias_fits(o.gate_bias, o.spec.count, up.rows) &&
                     bias_fits(o.up_bias, o.spec.count, up.rows) &&
                     bias_fits(o.down_bias, o.spec.count, cols(o.in)) &&
                     bias_fits(o.router_bias, 1, o.spec.count) &&
                     bias_fits(o.choice_bias, 1, o.spec.count) &&
                     bias_fits(o.expert_scale, 1, o.spec.count) && o.route != o.out &&
                     cols(o.route) == cols(o.in) &&
                     (o.choice_bias == WeightId::None || o.spec.gating == Gating::Sigmoid) &&
                     o.in != o.out && cols(o.in) == cols(o.out) && o.spec.used > 0 &&
                     o.spec.used_groups > 0 && o.spec.used_groups <= o.spec.groups &&
                     o.spec.count % o.spec.groups == 0 &&
                     o.spec.used <= o.spec.count / o.spec.groups * o.spec.used_groups &&
                     o.spec.used <= o.spec.count && view(o.router).rows == o.spec.count &&
                     view(o.router).cols == cols(o.in) &&
                     (!gated || alike(o.gate, up.rows, cols(o.in))) &&
                     alike(o.up, up.rows, cols(o.in)) && alike(o.down, cols(o.in), up.rows);
            },
            [&](const Add& o) { return cols(o.x) == cols(o.y); },
            [](const AllReduce&) { return true; },
            [&](const Logits& o) {
              return view(o.weight).cols == cols(o.in) && o.first >= 0 &&
                     (!o.is_part() || o.first + view(o.weight).rows <= o.of);
            },
        },
        op);
    check(fits, "an op's buffers and weights agree");
  }
}

}  // namespace skald
