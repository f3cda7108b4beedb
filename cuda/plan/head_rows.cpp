#include "cuda/plan/head_rows.h"

#include "engine/base/check.h"

namespace skald::cuda {
namespace {

class HeadRows final : public RowReader {
 public:
  HeadRows(TensorView from, const HeadRowsOf& rows) : source_(from), rows_(rows) {}

  void read_row(int64_t row, std::byte* out) const override {
    const int64_t head_rows = source_.rows / rows_.heads;
    const int64_t head = row / rows_.count;
    source_.copy_row(head * head_rows + rows_.first + row % rows_.count, out);
  }

 private:
  TensorView source_;
  HeadRowsOf rows_;
};

}  // namespace

WeightId add_head_rows(Program& program, WeightId of, const HeadRowsOf& rows,
                       std::vector<std::shared_ptr<const RowReader>>& readers) {
  Weight weight = program.weight(of);
  check(weight.view.rows % rows.heads == 0, "all heads have the same number of rows");
  for (TensorView* view : {&weight.view, &weight.source}) {
    if (!view->exists()) continue;
    readers.push_back(std::make_shared<HeadRows>(*view, rows));
    view->data = nullptr;
    view->reader = readers.back().get();
    view->first_row = 0;
    view->row_bytes = view->own_row_bytes();
    view->rows = int64_t{rows.heads} * rows.count;
  }
  program.weights.push_back(std::move(weight));
  return static_cast<WeightId>(std::ssize(program.weights) - 1);
}

}  // namespace skald::cuda
