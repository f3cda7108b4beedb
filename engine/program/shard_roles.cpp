#include "engine/program/shard_roles.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/overloaded.h"

namespace skald {
namespace {

// The part of `size` columns that a rank has. Parts of the ranks differ by one unit at most, and
// the first rank has a largest one.
Cut part_of(const Shard& shard, int64_t size, int64_t unit) {
  const int64_t first = first_unit(size / unit, shard.rank, shard.of) * unit;
  const int64_t end = first_unit(size / unit, shard.rank + 1, shard.of) * unit;
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

  // Returns the number of columns that stay together on a rank: whole blocks. It is larger, as
  // kernels prefer, if all ranks then still get the same number of columns.
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
    return cut.first % unit == 0 && cut.count % unit == 0;
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

  // True if every op that reads a buffer of which the rank has only a part expects a part.
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

}  // namespace

Roles find_roles(const Program& program, const Shard& shard) {
  std::vector<Cutter> cutters;
  cutters.reserve(static_cast<size_t>(shard.of));
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

bool copies_all(const Program& program, const HeadPart& o) {
  return o.heads == 1 && o.first == 0 && o.to == 0 && program.act(o.in).cols == o.cols &&
         program.act(o.out).cols == o.cols;
}

}  // namespace skald
