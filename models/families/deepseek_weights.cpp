#include "models/families/deepseek_weights.h"

#include <cstring>
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

// A column of a head's rows as a row: row h * cols + c is column c of head h.
class HeadColumns final : public RowReader {
 public:
  HeadColumns(const TensorView& view, const HeadRows& rows) : view_(view), rows_(rows) {}

  void read_row(int64_t row, std::byte* out) const override {
    const int64_t bytes = info(view_.type).block_bytes;
    const int64_t head = row / view_.cols, col = row % view_.cols;
    const std::byte* from = view_.row(head * rows_.each + rows_.first) + col * bytes;
    for (int64_t i = 0; i < rows_.count; ++i, from += view_.row_bytes, out += bytes) {
      std::memcpy(out, from, static_cast<size_t>(bytes));
    }
  }

 private:
  TensorView view_;
  HeadRows rows_;
};

// The rows of all heads, one head after the other.
class RowsOfHeads final : public RowReader {
 public:
  RowsOfHeads(const TensorView& view, const HeadRows& rows) : view_(view), rows_(rows) {}

  void read_row(int64_t row, std::byte* out) const override {
    const int64_t head = row / rows_.count, own = row % rows_.count;
    view_.copy_row(head * rows_.each + rows_.first + own, out);
  }

 private:
  TensorView view_;
  HeadRows rows_;
};

class DeepSeekWeights final : public DescribedWeights {
 public:
  explicit DeepSeekWeights(std::shared_ptr<const SafetensorsFile> file)
      : DescribedWeights(file->path(), file) {
    for (const RawTensor& raw : file->raw_tensors()) refuse_raw(raw);
    constexpr std::string_view kBoth = "attn_kv_b.weight";
    for (const Tensor& tensor : file->tensors()) {
      if (tensor.name.ends_with(kBoth)) {
        split(*file, tensor, tensor.name.substr(0, tensor.name.size() - kBoth.size()));
      } else {
        add(tensor);
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
    if (heads <= 0 || keys <= 0 || values <= 0 || keys % heads != 0 || values % heads != 0 ||
        info(both.view.type).block_elems != 1) {
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
    tensor.view.reader = readers_.back().get();
    tensor.view.rows = tensor.shape[0] * tensor.shape[1];
    tensor.view.cols = tensor.shape[2];
    tensor.view.row_bytes = tensor.view.own_row_bytes();
    add(std::move(tensor));
  }

  std::vector<std::unique_ptr<RowReader>> readers_;
};

}  // namespace

std::shared_ptr<const WeightFile> deepseek_weights(std::shared_ptr<const SafetensorsFile> file) {
  return std::make_shared<const DeepSeekWeights>(std::move(file));
}

}  // namespace skald
