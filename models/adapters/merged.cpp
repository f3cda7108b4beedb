#include <memory>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/quant/unfit.h"
#include "models/adapters/load.h"
#include "models/files/made_weights.h"

namespace skald {
namespace {

// The type of a model's plain matrices, such as the embedding.
DType plain_type(const WeightFile& weights) {
  for (const Tensor& tensor : weights.tensors()) {
    if (tensor.view.rows > 1 && info(tensor.view.type).block_elems == 1) return tensor.view.type;
  }
  return DType::BF16;
}

// The rows of W + up · down, computed in float64 and rounded once to `type`.
class MergedRows final : public RowReader {
 public:
  MergedRows(const Tensor& tensor, const std::vector<const AdapterMatrix*>& changes, DType type)
      : name_(tensor.name),
        file_(tensor.file),
        base_(tensor.view),
        changes_(changes),
        type_(type) {}

  void read_row(int64_t row, std::byte* out) const override {
    const auto cols = static_cast<size_t>(base_.cols);
    std::vector<float> numbers(cols);
    std::vector<std::byte> scratch;
    base_.decode_row(row, numbers.data(), scratch);
    std::vector<double> sums(numbers.begin(), numbers.end());
    for (const AdapterMatrix* change : changes_) {
      for (int64_t i = 0; i < change->rank; ++i) {
        const double factor = change->up[static_cast<size_t>(row * change->rank + i)];
        const float* down = change->down.data() + i * base_.cols;
        for (size_t col = 0; col < cols; ++col)
          sums[col] += factor * static_cast<double>(down[col]);
      }
    }
    for (size_t col = 0; col < cols; ++col) numbers[col] = static_cast<float>(sums[col]);
    const int64_t unfit = first_unfit(numbers.data(), base_.cols, type_);
    if (unfit >= 0) fail_unfit(file_, name_, row, numbers[static_cast<size_t>(unfit)], type_);
    info(type_).encode_row(numbers.data(), out, base_.cols, nullptr);
  }

 private:
  std::string name_, file_;
  TensorView base_;
  std::vector<const AdapterMatrix*> changes_;
  DType type_;
};

class MergedWeights final : public DescribedWeights {
 public:
  MergedWeights(const Model& model, std::shared_ptr<const Adapters> adapters)
      : DescribedWeights(model.weights->path(), model.weights),
        adapters_(std::move(adapters)),
        plain_(plain_type(*model.weights)) {
    for (Tensor tensor : source().tensors()) {
      std::vector<const AdapterMatrix*> changes;
      for (const Adapter& adapter : *adapters_) {
        for (const AdapterMatrix& matrix : adapter.matrices) {
          if (matrix.tensor == tensor.name) changes.push_back(&matrix);
        }
      }
      if (!changes.empty()) describe(tensor, changes);
      add(std::move(tensor));
    }
  }

 private:
  void describe(Tensor& tensor, const std::vector<const AdapterMatrix*>& changes) {
    TensorView& view = tensor.view;
    if (!has_float_weights(view.type)) {
      fail(Exit::Usage, "--lora-merge: tensor '", printable(tensor.name), "' of ", tensor.file,
           " is ", name(view.type),
           "; adapters are merged into weights that are floats; leave out "
           "--lora-merge");
    }
    // No blocks are made of sums.
    const DType type = info(view.type).block_elems > 1 ? plain_ : view.type;
    readers_.push_back(std::make_unique<MergedRows>(tensor, changes, type));
    view.type = type;
    view.data = nullptr;
    view.reader = readers_.back().get();
    view.first_row = 0;
    view.row_bytes = view.own_row_bytes();
  }

  std::shared_ptr<const Adapters> adapters_;
  DType plain_;
  std::vector<std::unique_ptr<RowReader>> readers_;
};

}  // namespace

Model merged_model(const Model& model, std::shared_ptr<const Adapters> adapters) {
  add_adapters(model.build(model.config, *model.weights),
               adapters);  // what cannot be changed fails
  Model merged = model;
  merged.weights = std::make_shared<MergedWeights>(model, std::move(adapters));
  return merged;
}

}  // namespace skald
