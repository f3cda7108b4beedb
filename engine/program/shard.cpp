#include "engine/program/shard.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/overloaded.h"

namespace skald {
namespace {

// Columns [first, first + count) of a buffer, of `of` in all.
struct Cut {
  int64_t first = 0, count = 0, of = 0;

  bool operator==(const Cut&) const = default;
  // The columns of the same heads in a buffer with heads of another width.
  Cut scaled(int64_t width, int64_t own_width) const {
    return {first / own_width * width, count / own_width * width, of / own_width * width};
  }
  bool whole_heads(int64_t width) const { return first % width == 0 && count % width == 0; }
};

// What a rank does of an op.
struct Role {
  enum class Kind : uint8_t {
    Whole,    // all of it
    Local,    // `cut` of the op's output, from the same columns of its inputs
    Rows,     // Linear: the rows of the weight that give `cut` of the output
    Columns,  // Linear, Experts: the columns that `cut` of the input belongs to; gives a partial
              // sum
  };
  Kind kind = Kind::Whole;
  Cut cut;  // of a buffer that the rank has a part of: its own part
};
using Roles = std::vector<Role>;

// The part of `size` units that a rank has: parts of all ranks differ by one unit at most.
Cut part_of(const Shard& shard, int64_t size, int64_t unit) {
  const int64_t units = size / unit;
  const int64_t first = units * shard.rank / shard.of * unit;
  const int64_t end = units * (shard.rank + 1) / shard.of * unit;
  return {first, end - first, size};
}

bool reads(const Op& op, ActId act) {
  const std::vector<ActId> inputs = op_inputs(op);
  return std::find(inputs.begin(), inputs.end(), act) != inputs.end();
}

bool writes(const Op& op, ActId act) {
  const ActId* out = op_output(op);
  return out && *out == act;
}

bool copies_all(const Program& program, const HeadPart& o) {
  return o.heads == 1 && o.first == 0 && o.to == 0 && program.act(o.in).cols == o.cols &&
         program.act(o.out).cols == o.cols;
}

// Gives the ops of one rank their roles. A part of the program is cut as a whole or not at all.
class Cutter {
 public:
  Cutter(const Program& program, const Shard& shard)
      : ops_(program.ops), program_(program), shard_(shard), roles_(ops_.size()) {}

  const Roles& roles() const { return roles_; }
  bool is_whole(size_t i) const { return roles_[i].kind == Role::Kind::Whole; }

  // Cuts the attention of a layer of the cache, and what belongs to it. False if that is not
  // possible; the caller then undoes what was done.
  bool cut_attention(int layer) {
    changed_.clear();
    return attention(layer) && all_readers_are_cut();
  }
  // The same for the feed-forward or the experts that op `i` is the centre of.
  bool cut_feed_forward(size_t i) {
    changed_.clear();
    const auto* experts = std::get_if<Experts>(&ops_[i]);
    return (experts ? cut_experts(i, *experts) : activation(i)) && all_readers_are_cut();
  }
  void undo() {
    for (const size_t i : changed_) roles_[i] = {};
  }

 private:
  using Kind = Role::Kind;

  int64_t cols(ActId id) const { return program_.act(id).cols; }

  // False if the op has another role already.
  bool assign(size_t i, Kind kind, const Cut& cut) {
    Role& role = roles_[i];
    if (role.kind != Kind::Whole) return role.kind == kind && role.cut == cut;
    role = {kind, cut};
    changed_.push_back(i);
    return true;
  }

  // The columns of queries and of keys that a rank has. With fewer heads of keys than ranks,
  // several ranks have the same one.
  std::optional<std::pair<Cut, Cut>> heads_of(const AttentionSpec& spec) const {
    const int64_t dim = spec.head_dim, group = spec.heads / spec.kv_heads;
    if (spec.kv_heads >= shard_.of) {
      const Cut keys = part_of(shard_, spec.kv_heads * dim, dim);
      return std::pair(Cut{keys.first * group, keys.count * group, keys.of * group}, keys);
    }
    if (shard_.of % spec.kv_heads != 0 || spec.heads % shard_.of != 0) return std::nullopt;
    const int64_t head = shard_.rank / (shard_.of / spec.kv_heads);
    return std::pair(part_of(shard_, spec.heads * dim, dim),
                     Cut{head * dim, dim, spec.kv_heads * dim});
  }

  bool attention(int layer) {
    bool found = false;
    for (size_t i = 0; i < ops_.size(); ++i) {
      const auto* op = std::get_if<Attention>(&ops_[i]);
      if (!op || op->layer != layer) continue;
      found = true;
      const auto heads = heads_of(op->spec);
      if (!heads || !assign(i, Kind::Local, heads->first) || !needs(i, op->q, heads->first)) {
        return false;
      }
      if (op->appends && (!needs(i, op->k, heads->second) || !needs(i, op->v, heads->second))) {
        return false;
      }
      if (!gives(i, op->out, heads->first)) return false;
    }
    return found;
  }

  bool activation(size_t i) {
    const ActId out = *op_output(ops_[i]);
    const Cut cut = part_of(shard_, cols(out), unit_of(i, out));
    return cut.count > 0 && assign(i, Kind::Local, cut) && needs_inputs(i, cut) &&
           gives(i, out, cut);
  }

  bool cut_experts(size_t i, const Experts& op) {
    const Weight& down = program_.weight(op.down);
    const Cut cut = part_of(shard_, down.view.cols, even_unit(down.view.cols, block(down)));
    for (int e = 0; e < op.spec.count; ++e) {
      if (!can_cut_columns(program_.weight(op.of(op.down, e)), cut)) return false;
    }
    return cut.count > 0 && assign(i, Kind::Columns, cut);
  }

  static int64_t block(const Weight& weight) { return info(weight.view.type).block_elems; }

  // A number of columns that are not divided: whole blocks, and as many as kernels like, if all
  // ranks get the same number.
  int64_t even_unit(int64_t columns, int64_t block) const {
    constexpr int64_t kLikedColumns = 256;
    for (int64_t unit = kLikedColumns; unit > block; unit /= 2) {
      if (unit % block == 0 && columns % (unit * shard_.of) == 0) return unit;
    }
    return columns % block == 0 ? block : columns;
  }

  // The unit of an activation's output: that of the product that reads it.
  int64_t unit_of(size_t i, ActId out) const {
    for (size_t j = i + 1; j < ops_.size(); ++j) {
      const auto* linear = std::get_if<Linear>(&ops_[j]);
      if (linear && linear->in == out) {
        return even_unit(cols(out), block(program_.weight(linear->weight)));
      }
    }
    return cols(out);
  }

  static bool can_cut_columns(const Weight& weight, const Cut& cut) {
    const int64_t unit = block(weight);
    return !weight.view.reader && cut.first % unit == 0 && cut.count % unit == 0;
  }

  // Op `i` reads `cut` of the buffer: what writes it before gives those columns.
  bool needs(size_t i, ActId act, const Cut& cut) {
    size_t w = i;
    while (w > 0 && !writes(ops_[w - 1], act)) --w;
    if (w == 0 || cut.count == 0 || cut.of != cols(act)) return false;
    --w;
    return std::visit(
        Overloaded{
            [&](const Linear& o) { return o.heads == 1 && assign(w, Kind::Rows, cut); },
            [&](const HeadNorm& o) {
              return cut.whole_heads(o.head_dim) && assign(w, Kind::Local, cut) &&
                     needs(w, act, cut);
            },
            [&](const Rope& o) {
              return cut.whole_heads(o.head_dim) && assign(w, Kind::Local, cut) &&
                     needs(w, act, cut);
            },
            [&](const HeadPart& o) {
              if (copies_all(program_, o))
                return assign(w, Kind::Local, cut) && needs(w, o.in, cut);
              const bool fills = o.to == 0 && (o.width == 0 || o.width == o.cols) &&
                                 cols(o.out) == int64_t{o.heads} * o.cols;
              return fills && cut.whole_heads(o.cols) && assign(w, Kind::Local, cut) &&
                     needs(w, o.in, cut.scaled(cols(o.in) / o.heads, o.cols));
            },
            [&](const GatedAct&) { return assign(w, Kind::Local, cut) && needs_inputs(w, cut); },
            [&](const Activate&) { return assign(w, Kind::Local, cut) && needs_inputs(w, cut); },
            [&](const RowGate&) { return assign(w, Kind::Local, cut) && needs(w, act, cut); },
            [](const auto&) { return false; },
        },
        ops_[w]);
  }

  // The inputs of an activation that are not known to be cut yet.
  bool needs_inputs(size_t i, const Cut& cut) {
    for (const ActId in : op_inputs(ops_[i])) {
      size_t w = i;
      while (w > 0 && !writes(ops_[w - 1], in)) --w;
      if (w == 0) return false;
      const Role& role = roles_[w - 1];
      const bool cut_already = role.kind == Kind::Local || role.kind == Kind::Rows;
      if (cut_already ? !(role.cut == cut) : !needs(i, in, cut)) return false;
    }
    return true;
  }

  // Op `i` gives `cut` of the buffer: the ops that read it work with those columns.
  bool gives(size_t i, ActId act, const Cut& cut) {
    bool read = false;
    for (size_t r = i + 1; r < ops_.size(); ++r) {
      if (reads(ops_[r], act)) {
        read = true;
        if (!takes(r, act, cut)) return false;
      }
      if (writes(ops_[r], act)) break;  // in place: takes() has followed the result
    }
    return read;
  }

  bool takes(size_t r, ActId act, const Cut& cut) {
    return std::visit(
        Overloaded{
            [&](const Linear& o) {
              return o.heads == 1 && can_cut_columns(program_.weight(o.weight), cut) &&
                     assign(r, Kind::Columns, cut);
            },
            [&](const GatedAct& o) {
              return assign(r, Kind::Local, cut) && needs_inputs(r, cut) && gives(r, o.out, cut);
            },
            [&](const Activate& o) { return assign(r, Kind::Local, cut) && gives(r, o.out, cut); },
            [&](const RowGate& o) {
              return o.x == act && assign(r, Kind::Local, cut) && gives(r, act, cut);
            },
            [&](const HeadNorm& o) {
              return cut.whole_heads(o.head_dim) && assign(r, Kind::Local, cut) &&
                     gives(r, act, cut);
            },
            [](const auto&) { return false; },
        },
        ops_[r]);
  }

  // Every op that reads a buffer of which the rank has a part knows that.
  bool all_readers_are_cut() const {
    for (const size_t i : changed_) {
      if (roles_[i].kind == Kind::Columns) continue;
      const ActId out = *op_output(ops_[i]);
      for (size_t r = i + 1; r < ops_.size(); ++r) {
        const Role& role = roles_[r];
        const bool knows = role.kind == Kind::Local ||
                           (role.kind == Kind::Columns && std::holds_alternative<Linear>(ops_[r]));
        if (reads(ops_[r], out) && !knows) return false;
        if (writes(ops_[r], out)) break;
      }
    }
    return true;
  }

  const std::vector<Op>& ops_;
  const Program& program_;
  const Shard shard_;
  Roles roles_;
  std::vector<size_t> changed_;  // by the present attempt
};

bool is_centre(const Op& op) {
  return std::holds_alternative<GatedAct>(op) || std::holds_alternative<Activate>(op) ||
         std::holds_alternative<Experts>(op);
}

// The roles of `shard.rank`. What one rank cannot cut, no rank cuts.
Roles find_roles(const Program& program, const Shard& shard) {
  std::vector<Cutter> cutters;
  for (int rank = 0; rank < shard.of; ++rank) cutters.emplace_back(program, Shard{rank, shard.of});
  const auto on_all = [&](const auto& cut) {
    bool all = true;
    for (Cutter& cutter : cutters) all = cut(cutter) && all;
    if (all) return;
    for (Cutter& cutter : cutters) cutter.undo();
  };
  for (size_t layer = 0; layer < program.kv.size(); ++layer) {
    on_all([&](Cutter& cutter) { return cutter.cut_attention(static_cast<int>(layer)); });
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (!is_centre(program.ops[i]) || !cutters.front().is_whole(i)) continue;
    on_all([&](Cutter& cutter) { return cutter.cut_feed_forward(i); });
  }
  return cutters[static_cast<size_t>(shard.rank)].roles();
}

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
      out_.ops.push_back(std::move(op));
      if (partial) out_.ops.push_back(AllReduce{*out});
    }
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

  // ---- Weights: the same one is made once ----

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
    for (const auto& [known, with, id] : made_) {
      if (known == first && with == part) return id;
    }
    const auto id = static_cast<WeightId>(out_.weights.size());
    for (int i = 0; i < count; ++i) {
      const auto from = static_cast<WeightId>(static_cast<int32_t>(first) + i);
      out_.weights.push_back(cut(whole_.weight(from), part));
    }
    made_.emplace_back(first, part, id);
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
    o.weight = weight(o.weight);
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
    o.weight = weight(o.weight);
  }

  const Program& whole_;
  const Shard shard_;
  const Roles& roles_;
  Role role_;  // of the op that is being converted
  Program out_;
  std::vector<std::pair<ActId, int64_t>> acts_;
  std::vector<std::tuple<WeightId, Part, WeightId>> made_;
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

int64_t count_all_reduces(const Program& program) {
  return std::count_if(program.ops.begin(), program.ops.end(),
                       [](const Op& op) { return std::holds_alternative<AllReduce>(op); });
}

}  // namespace skald
