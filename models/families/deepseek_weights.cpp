#include "models/families/deepseek_weights.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/files/made_weights.h"

namespace skald {
namespace {

// Heads of a matrix that stand `each` rows apart.
struct HeadRows {
  int64_t each, first, count;
};

// A column of a head's rows as a row: row h * cols + c is column c of head h. Blocks lie along the
// matrix' rows, so a matrix in a block format becomes one in float32.
class HeadColumns final : public RowReader {
 public:
  HeadColumns(const TensorView& view, const HeadRows& rows)
      : view_(view), rows_(rows), type_(type_of(view.type)) {}

  static DType type_of(DType source) { return info(source).block_elems == 1 ? source : DType::F32; }

  void read_row(int64_t row, std::byte* out) const override {
    const std::shared_ptr<const Numbers> numbers = head(row / view_.cols);
    Numbers column(static_cast<size_t>(rows_.count));
    for (int64_t i = 0; i < rows_.count; ++i) {
      column[static_cast<size_t>(i)] =
          (*numbers)[static_cast<size_t>(i * view_.cols + row % view_.cols)];
    }
    info(type_).encode_row(column.data(), out, rows_.count, nullptr);
    if (row % view_.cols == view_.cols - 1) drop(row / view_.cols);
  }

 private:
  using Numbers = std::vector<float>;

  // The rows of a head. Each column of a head needs all its rows, and a thread reads the columns
  // one after the other. So a head's rows are kept until its last column is read.
  std::shared_ptr<const Numbers> head(int64_t at) const {
    {
      const std::lock_guard lock(mutex_);
      const auto found = heads_.find(at);
      if (found != heads_.end()) return found->second;
    }
    auto numbers = std::make_shared<Numbers>(static_cast<size_t>(rows_.count * view_.cols));
    std::vector<std::byte> scratch;
    for (int64_t i = 0; i < rows_.count; ++i) {
      view_.decode_row(at * rows_.each + rows_.first + i, numbers->data() + i * view_.cols,
                       scratch);
    }
    const std::lock_guard lock(mutex_);
    heads_[at] = numbers;
    return numbers;
  }

  void drop(int64_t at) const {
    const std::lock_guard lock(mutex_);
    heads_.erase(at);
  }

  TensorView view_;
  HeadRows rows_;
  DType type_;
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::shared_ptr<const Numbers>> heads_;  // rows of heads in progress
};

// The rows of all heads, one head after the other.
class RowsOfHeads final : public RowReader {
 public:
  static DType type_of(DType source) { return source; }

  RowsOfHeads(const TensorView& view, const HeadRows& rows) : view_(view), rows_(rows) {}

  void read_row(int64_t row, std::byte* out) const override {
    const int64_t head = row / rows_.count, own = row % rows_.count;
    view_.copy_row(head * rows_.each + rows_.first + own, out);
  }

 private:
  TensorView view_;
  HeadRows rows_;
};

constexpr std::string_view kBoth = "attn_kv_b.weight";

// The layer's prefix if the tensor makes keys and values, and the file has no others that do.
std::string layer_to_split(const WeightFile& file, const Tensor& tensor) {
  if (!tensor.name.ends_with(kBoth)) return {};
  std::string layer = tensor.name.substr(0, tensor.name.size() - kBoth.size());
  return file.find(layer + "attn_k_b.weight") ? std::string() : layer;
}

class DeepSeekWeights final : public DescribedWeights {
 public:
  explicit DeepSeekWeights(std::shared_ptr<const WeightFile> file)
      : DescribedWeights(file->path(), file) {
    for (const Tensor& tensor : file->tensors()) {
      const std::string layer = layer_to_split(*file, tensor);
      if (layer.empty()) {
        add(tensor);
      } else {
        split(*file, tensor, layer);
      }
    }
  }

 private:
  // The sizes of heads follow from the shapes of the layer's other matrices.
  void split(const WeightFile& file, const Tensor& both, const std::string& layer) {
    const auto view = [&](std::string_view name) {
      const Tensor* tensor = file.find(concat(layer, name));
      return tensor ? tensor->view : TensorView{};
    };
    TensorView queries = view("attn_q_b.weight");
    if (queries.rows == 0) queries = view("attn_q.weight");
    const int64_t rank = both.view.cols, rope = view("attn_kv_a_mqa.weight").rows - rank;
    const int64_t values = view("attn_output.weight").cols, keys = both.view.rows - values;
    const int64_t rotated = queries.rows - keys;  // of the queries of all heads
    const int64_t heads = rope > 0 && rotated % rope == 0 ? rotated / rope : 0;
    if (heads <= 0 || keys <= 0 || values <= 0 || keys % heads != 0 || values % heads != 0) {
      fail(Exit::Model, both.file, ": tensor '", printable(both.name), "' is [", both.view.rows,
           ", ", rank, "], which does not fit the queries and the output of its layer");
    }
    const int64_t key_dim = keys / heads, value_dim = values / heads, each = key_dim + value_dim;
    add_read<HeadColumns>(both, layer + "attn_k_b.weight", {heads, rank, key_dim},
                          {each, 0, key_dim});
    add_read<RowsOfHeads>(both, layer + "attn_v_b.weight", {heads, value_dim, rank},
                          {each, key_dim, value_dim});
  }

  template <class Reader>
  void add_read(Tensor tensor, std::string name, std::vector<int64_t> shape, const HeadRows& rows) {
    readers_.push_back(std::make_unique<Reader>(tensor.view, rows));
    tensor.name = std::move(name);
    tensor.shape = std::move(shape);
    tensor.view.data = nullptr;
    tensor.view.type = Reader::type_of(tensor.view.type);
    tensor.view.reader = readers_.back().get();
    tensor.view.rows = tensor.shape[0] * tensor.shape[1];
    tensor.view.cols = tensor.shape[2];
    tensor.view.row_bytes = tensor.view.own_row_bytes();
    add(std::move(tensor));
  }

  std::vector<std::unique_ptr<RowReader>> readers_;
};

}  // namespace

std::shared_ptr<const WeightFile> deepseek_weights(std::shared_ptr<const WeightFile> weights,
                                                   std::span<const RawTensor> raw) {
  for (const RawTensor& tensor : raw) refuse_raw(tensor);
  const auto& tensors = weights->tensors();
  const bool any = std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
    return !layer_to_split(*weights, tensor).empty();
  });
  if (!any) return weights;
  return std::make_shared<const DeepSeekWeights>(std::move(weights));
}

}  // namespace skald
