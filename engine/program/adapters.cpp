#include "engine/program/adapters.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

TensorView view_of(const std::vector<float>& numbers, int64_t cols) {
  TensorView view;
  view.data = reinterpret_cast<const std::byte*>(numbers.data());
  view.cols = cols;
  view.rows = std::ssize(numbers) / cols;
  view.row_bytes = cols * int64_t{sizeof(float)};
  return view;
}

[[noreturn]] void refuse(const AdapterMatrix& matrix, const std::string& why) {
  fail(Exit::Model, matrix.file, ": the adapter changes '", printable(matrix.tensor), "', ", why);
}

class AdapterBuilder {
 public:
  AdapterBuilder(Program program, std::shared_ptr<const Adapters> adapters)
      : program_(std::move(program)), adapters_(*adapters) {
    program_.own.push_back(std::move(adapters));
    program_.adapters = static_cast<int>(adapters_.size());
    for (size_t a = 0; a < adapters_.size(); ++a) {
      for (const AdapterMatrix& matrix : adapters_[a].matrices) {
        by_tensor_[matrix.tensor].push_back({a, &matrix});
      }
    }
  }

  Program run() && {
    std::vector<Op> ops;
    std::vector<Op> deltas;  // of the products that end `ops`
    for (const Op& op : program_.ops) {
      const auto* linear = std::get_if<Linear>(&op);
      const auto* last = ops.empty() ? nullptr : std::get_if<Linear>(&ops.back());
      const bool together = linear && last && linear->in == last->in && linear->out != last->in;
      if (!together) move_to(ops, deltas);
      ops.push_back(op);
      if (linear) add_delta(*linear, deltas);
    }
    move_to(ops, deltas);
    program_.ops = std::move(ops);
    for (const auto& [tensor, changes] : by_tensor_) {
      if (!used_.contains(tensor)) refuse_unused(*changes.front().matrix);
    }
    check_program(program_);
    return std::move(program_);
  }

 private:
  struct Change {
    size_t adapter;
    const AdapterMatrix* matrix;
  };

  static void move_to(std::vector<Op>& ops, std::vector<Op>& deltas) {
    ops.insert(ops.end(), deltas.begin(), deltas.end());
    deltas.clear();
  }

  void add_delta(const Linear& linear, std::vector<Op>& deltas) {
    const auto found = by_tensor_.find(program_.weight(linear.weight).tensor());
    if (found == by_tensor_.end()) return;
    if (linear.heads > 1) {
      refuse(*found->second.front().matrix,
             "which each head multiplies by itself; no adapter of "
             "such a matrix is supported");
    }
    used_.insert(found->first);
    deltas.emplace_back(Delta{linear.out, linear.in, adapted(linear.weight, found->second)});
  }

  // The number of the matrix in Program::adapted.
  int adapted(WeightId id, const std::vector<Change>& changes) {
    const auto known = adapted_.find(id);
    if (known != adapted_.end()) return known->second;
    AdaptedMatrix matrix;
    matrix.down.assign(adapters_.size(), WeightId::None);
    matrix.up = matrix.down;
    for (const Change& change : changes) {
      matrix.down[change.adapter] = down_weight(id, change);
      matrix.up[change.adapter] = up_weight(id, change);
    }
    program_.adapted.push_back(std::move(matrix));
    const int number = static_cast<int>(program_.adapted.size()) - 1;
    adapted_.emplace(id, number);
    return number;
  }

  WeightId down_weight(WeightId id, const Change& change) {
    const Weight& base = program_.weight(id);
    const AdapterMatrix& m = *change.matrix;
    const int64_t cols = std::ssize(m.down) / m.rank, end = base.first_col + base.view.cols;
    if (end > cols) refuse_shape(m, base, cols, "columns", end);
    return add(base, change, ".lora_a",
               slice_cols(view_of(m.down, cols), base.first_col, base.view.cols));
  }

  WeightId up_weight(WeightId id, const Change& change) {
    const Weight& base = program_.weight(id);
    const AdapterMatrix& m = *change.matrix;
    const int64_t rows = std::ssize(m.up) / m.rank, end = base.first_row + base.view.rows;
    if (end > rows) refuse_shape(m, base, rows, "rows", end);
    return add(base, change, ".lora_b",
               slice_rows(view_of(m.up, m.rank), base.first_row, base.view.rows));
  }

  [[noreturn]] static void refuse_shape(const AdapterMatrix& matrix, const Weight& base,
                                        int64_t has, std::string_view what, int64_t expected) {
    refuse(matrix, concat("as a matrix of ", has, " ", what, ", and '", base.name, "' needs ",
                          expected, "; it is an adapter of another model"));
  }

  WeightId add(const Weight& base, const Change& change, std::string_view part, TensorView view) {
    Weight weight;
    weight.name = concat(base.name, part, "[", change.adapter, "]");
    weight.view = view;
    weight.file = change.matrix->file;
    program_.weights.push_back(std::move(weight));
    return static_cast<WeightId>(program_.weights.size() - 1);
  }

  [[noreturn]] void refuse_unused(const AdapterMatrix& matrix) const {
    for (const Weight& weight : program_.weights) {
      if (weight.tensor() != matrix.tensor) continue;
      refuse(matrix,
             "which is not the matrix of a plain product; adapters of embeddings, the head, "
             "experts, routers and convolutions are not supported");
    }
    refuse(matrix, "which this model does not have; it is an adapter of another model");
  }

  Program program_;
  const Adapters& adapters_;
  std::map<std::string, std::vector<Change>, std::less<>> by_tensor_;
  std::map<WeightId, int> adapted_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace

int64_t Adapter::bytes() const {
  int64_t bytes = 0;
  for (const AdapterMatrix& matrix : matrices) {
    bytes += (std::ssize(matrix.down) + std::ssize(matrix.up)) * int64_t{sizeof(float)};
  }
  return bytes;
}

int64_t bytes_of(const Adapters& adapters) {
  int64_t bytes = 0;
  for (const Adapter& adapter : adapters) bytes += adapter.bytes();
  return bytes;
}

Program add_adapters(Program program, std::shared_ptr<const Adapters> adapters) {
  return AdapterBuilder(std::move(program), std::move(adapters)).run();
}

}  // namespace skald
