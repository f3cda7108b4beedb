#include "engine/program/shard.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/program/shard_roles.h"

namespace skald {
namespace {

// Builds the shard's program from the roles.
class ShardBuilder {
 public:
  ShardBuilder(const Program& whole, const Shard& shard, const Roles& roles)
      : whole_(whole), shard_(shard), roles_(roles) {
    out_.ropes = whole.ropes;
    out_.states = whole.states;
    out_.kv = whole.kv;
    out_.shard = shard;
  }

  Program run() {
    for (size_t i = 0; i < whole_.ops.size(); ++i) {
      role_ = roles_[i];
      Op op = whole_.ops[i];
      std::visit([this](auto& o) { convert(o); }, op);
      const ActId* out = op_output(op);
      const bool partial = role_.kind == Kind::Columns;
      out_.ops.push_back(op);
      if (partial) out_.ops.push_back(AllReduce{*out});
    }
    if (whole_.taps) out_.taps = act(*whole_.taps);
    return std::move(out_);
  }

 private:
  using Kind = Role::Kind;

  bool local() const { return role_.kind == Kind::Local; }

  // The buffer of the shard that has `cols` columns of the program's buffer.
  ActId act(ActId id, int64_t cols) {
    const auto key = std::pair(id, cols);
    const auto found =
        std::find_if(acts_.begin(), acts_.end(), [&](const auto& act) { return act == key; });
    if (found == acts_.end()) {
      acts_.push_back(key);
      out_.acts.push_back({whole_.act(id).name, cols});
      return static_cast<ActId>(acts_.size() - 1);
    }
    return static_cast<ActId>(found - acts_.begin());
  }
  ActId act(ActId id) { return act(id, whole_.act(id).cols); }

  // ---- Weights: equal parts are made once ----

  struct Part {
    enum class Of : uint8_t { All, Rows, Cols, Zeros } of = Of::All;
    int64_t first = 0, count = 0;

    bool operator==(const Part&) const = default;
  };
  static Part rows(const Cut& cut) { return {Part::Of::Rows, cut.first, cut.count}; }
  static Part cols(const Cut& cut) { return {Part::Of::Cols, cut.first, cut.count}; }

  Weight cut(Weight weight, const Part& part) {
    const int64_t end = part.first + part.count;
    const auto both = [&](const auto& slice) {
      weight.view = slice(weight.view, part.first, part.count);
      if (weight.source.exists()) weight.source = slice(weight.source, part.first, part.count);
    };
    switch (part.of) {
      case Part::Of::All:
        break;
      case Part::Of::Rows:
        both(slice_rows);
        weight.name += concat("[", part.first, ":", end, "]");
        break;
      case Part::Of::Cols:
        both(slice_cols);
        weight.name += concat("[:, ", part.first, ":", end, "]");
        break;
      case Part::Of::Zeros:
        weight.view = zeros(weight.view.rows, weight.view.cols);
        weight.source = {};
        weight.name += "[zeros]";
        break;
    }
    return weight;
  }

  // `count` weights with successive numbers, as a stack of experts has.
  WeightId weights(WeightId first, int count, const Part& part) {
    if (first == WeightId::None) return first;
    for (const auto& [known, with, id] : parts_made_) {
      if (known == first && with == part) return id;
    }
    const auto id = static_cast<WeightId>(out_.weights.size());
    for (int i = 0; i < count; ++i) {
      const auto from = static_cast<WeightId>(static_cast<int32_t>(first) + i);
      out_.weights.push_back(cut(whole_.weight(from), part));
    }
    parts_made_.emplace_back(first, part, id);
    return id;
  }
  WeightId weight(WeightId id, const Part& part) { return weights(id, 1, part); }
  WeightId weight(WeightId id) { return weights(id, 1, Part()); }

  // Memory of zeros, for biases that one rank alone adds.
  TensorView zeros(int64_t rows, int64_t cols) {
    const int64_t bytes = rows * cols * int64_t{sizeof(float)};
    const auto memory = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(bytes));
    out_.own.push_back(memory);
    TensorView view;
    view.data = memory->data();
    view.rows = rows;
    view.cols = cols;
    view.row_bytes = cols * int64_t{sizeof(float)};
    return view;
  }

  // ---- Ops ----

  void convert(Given& o) { o.out = act(o.out); }
  void convert(Embed& o) {
    o.out = act(o.out);
    o.weight = weight(o.weight);
  }
  void convert(Norm& o) {
    o.out = act(o.out), o.in = act(o.in);
    o.weight = weight(o.weight), o.bias = weight(o.bias);
  }
  void convert(HeadNorm& o) {
    heads(o);
    o.weight = weight(o.weight);
  }
  void convert(Rope& o) { heads(o); }

  template <class HeadOp>
  void heads(HeadOp& o) {
    if (local()) o.heads = static_cast<int>(role_.cut.count / o.head_dim);
    o.x = act(o.x, int64_t{o.heads} * o.head_dim);
  }

  void convert(Linear& o) {
    const Cut& cut = role_.cut;
    const bool by_rows = role_.kind == Kind::Rows, by_cols = role_.kind == Kind::Columns;
    o.in = by_cols ? act(o.in, cut.count) : act(o.in);
    o.out = by_rows ? act(o.out, cut.count) : act(o.out);
    o.weight = weight(o.weight, by_rows ? rows(cut) : by_cols ? cols(cut) : Part());
    const bool bias = !by_cols || shard_.rank == 0;  // the sum has it once
    o.bias = bias ? weight(o.bias, by_rows ? cols(cut) : Part()) : WeightId::None;
  }

  // Adapters are added to whole programs alone.
  void convert(Delta&) { check(false, "a program with adapters is not cut into shards"); }

  void convert(Attention& o) {
    AttentionSpec& spec = o.spec;
    const int64_t dim = spec.head_dim;
    if (local()) {
      const int group = spec.heads / spec.kv_heads;
      spec.heads = static_cast<int>(role_.cut.count / dim);
      spec.kv_heads = std::max(1, spec.heads / group);
      out_.kv[static_cast<size_t>(o.layer)].kv_heads = spec.kv_heads;
      const int64_t first = role_.cut.first / dim;
      o.sinks = weight(o.sinks, {Part::Of::Cols, first, spec.heads});
    } else {
      o.sinks = weight(o.sinks);
    }
    o.q = act(o.q, spec.heads * dim), o.out = act(o.out, spec.heads * dim);
    if (!o.appends) return;
    o.k = act(o.k, spec.kv_heads * dim), o.v = act(o.v, spec.kv_heads * dim);
  }

  void convert(HeadPart& o) {
    const int64_t width = whole_.act(o.in).cols / o.heads;
    if (local() && copies_all(whole_, o)) {
      o.cols = static_cast<int>(role_.cut.count);
      o.in = act(o.in, o.cols), o.out = act(o.out, o.cols);
      return;
    }
    if (local()) o.heads = static_cast<int>(role_.cut.count / o.cols);
    o.in = act(o.in, o.heads * width);
    o.out = local() ? act(o.out, role_.cut.count) : act(o.out);
  }

  void convert(CausalConv& o) {
    o.out = act(o.out), o.in = act(o.in);
    o.weight = weight(o.weight), o.bias = weight(o.bias);
  }
  void convert(StateSpace& o) {
    o.out = act(o.out), o.in = act(o.in), o.step = act(o.step);
    o.rate = weight(o.rate), o.bias = weight(o.bias), o.skip = weight(o.skip);
  }
  void convert(DeltaNet& o) {
    o.out = act(o.out), o.in = act(o.in), o.decay = act(o.decay), o.beta = act(o.beta);
    o.rate = weight(o.rate), o.bias = weight(o.bias);
  }

  ActId own(ActId id) { return local() ? act(id, role_.cut.count) : act(id); }
  void convert(GatedAct& o) { o.out = own(o.out), o.gate = own(o.gate), o.up = own(o.up); }
  void convert(Activate& o) { o.out = own(o.out), o.in = own(o.in); }
  void convert(RowGate& o) {
    o.x = own(o.x), o.in = act(o.in);
    o.weight = weight(o.weight);
  }

  void convert(Experts& o) {
    const int count = o.spec.count;
    const bool cut = role_.kind == Kind::Columns;
    const Part part_rows = cut ? rows(role_.cut) : Part(),
               part_cols = cut ? cols(role_.cut) : Part();
    o.out = act(o.out), o.in = act(o.in), o.route = act(o.route);
    o.router = weight(o.router);
    o.gate = weights(o.gate, count, part_rows);
    o.up = weights(o.up, count, part_rows);
    o.down = weights(o.down, count, part_cols);
    o.gate_bias = weight(o.gate_bias, part_cols);
    o.up_bias = weight(o.up_bias, part_cols);
    const bool adds_bias = !cut || shard_.rank == 0;
    o.down_bias = weight(o.down_bias, {adds_bias ? Part::Of::All : Part::Of::Zeros});
    o.router_bias = weight(o.router_bias);
    o.choice_bias = weight(o.choice_bias);
    o.expert_scale = weight(o.expert_scale);
  }

  void convert(Add& o) { o.x = act(o.x), o.y = act(o.y); }
  void convert(AllReduce& o) { o.x = act(o.x); }
  void convert(Logits& o) {
    o.in = act(o.in);
    const std::vector<int64_t> borders = logit_borders(whole_.vocab(), shard_.of);
    if (borders.empty()) {
      o.weight = weight(o.weight);
      return;
    }
    const auto own = borders.begin() + shard_.rank;
    o.first = own[0];
    o.of = borders.back();
    o.weight = weight(o.weight, {Part::Of::Rows, own[0], own[1] - own[0]});
  }

  const Program& whole_;
  const Shard shard_;
  const Roles& roles_;
  Role role_;  // of the op that is being converted
  Program out_;
  std::vector<std::pair<ActId, int64_t>> acts_;
  std::vector<std::tuple<WeightId, Part, WeightId>> parts_made_;
};

}  // namespace

Program shard_program(Program whole, const Shard& shard) {
  check(shard.of >= 1 && shard.of <= kMostRanks && shard.rank >= 0 && shard.rank < shard.of,
        "a rank of a group");
  if (shard.of == 1) return whole;
  const Roles roles = find_roles(whole, shard);
  Program program = ShardBuilder(whole, shard, roles).run();
  check_program(program);
  return program;
}

std::vector<int64_t> logit_borders(int64_t vocab, int ranks) {
  constexpr int64_t kUnit =
      64;  // tokens that are not divided, since kernels compute so many together
  const int64_t units = (vocab + kUnit - 1) / kUnit;  // the last may have fewer
  if (ranks == 1 || units < ranks) return {};
  std::vector<int64_t> borders;
  borders.reserve(static_cast<size_t>(ranks) + 1);
  for (int rank = 0; rank < ranks; ++rank) {
    borders.push_back(first_unit(units, rank, ranks) * kUnit);
  }
  borders.push_back(vocab);
  return borders;
}

int64_t count_all_reduces(const Program& program) {
  return std::count_if(program.ops.begin(), program.ops.end(),
                       [](const Op& op) { return std::holds_alternative<AllReduce>(op); });
}

}  // namespace skald
