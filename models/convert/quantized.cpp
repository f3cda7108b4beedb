#include "models/convert/quantized.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/quant/unfit.h"
#include "models/files/made_weights.h"

namespace skald {
namespace {

// Makes bytes [from, from + out.size()) of a quantized row. Encodes only the blocks that hold them.
void make_part(const Tensor& tensor, int64_t row, int64_t from, std::span<std::byte> out) {
  const DTypeInfo &format = info(tensor.view.type), &source = info(tensor.source.type);
  std::vector<std::byte> scratch;
  const std::byte* bytes = tensor.source.row(row, scratch);
  if (&format == &source) {
    std::copy_n(bytes + from, out.size(), out.begin());
    return;
  }
  const int64_t block = from / format.block_bytes, skipped = from % format.block_bytes;
  const int64_t blocks = (skipped + std::ssize(out) + format.block_bytes - 1) / format.block_bytes;
  const int64_t first = block * format.block_elems, count = blocks * format.block_elems;
  std::vector<float> weights(static_cast<size_t>(count));
  source.decode_row(bytes + first * source.block_bytes, weights.data(), count);
  const int64_t unfit = first_unfit(weights.data(), count, format.type);
  if (unfit >= 0) {
    fail_unfit(tensor.file, tensor.name, row, weights[static_cast<size_t>(unfit)], format.type);
  }
  std::vector<std::byte> made(static_cast<size_t>(blocks * format.block_bytes));
  format.encode_row(weights.data(), made.data(), count, nullptr);
  std::copy_n(made.begin() + skipped, out.size(), out.begin());
}

class QuantizedWeights final : public DescribedWeights {
 public:
  QuantizedWeights(const Model& model, const QuantMix& mix)
      : DescribedWeights(concat(model.weights->path(), " as ", mix.name), model.weights) {
    const MixedModel mixed = mixed_model(model.config);
    for (Tensor tensor : source().tensors()) {
      if (model.config.tied && tensor.name == "output.weight") continue;  // the embedding is used
      if (is_quantizable(tensor.name, tensor.view.rows, tensor.shape.size())) {
        describe(tensor, choose_type(mix, mixed, tensor.name, tensor.view.cols).type);
      }
      add(std::move(tensor));
    }
  }

  void read(const Tensor& tensor, int64_t first, std::span<std::byte> out) const override {
    if (!tensor.source.exists()) return WeightFile::read(tensor, first, out);
    const int64_t row_bytes = tensor.view.row_bytes;
    while (!out.empty()) {
      const int64_t from = first % row_bytes, count = std::min(row_bytes - from, std::ssize(out));
      const auto part = out.first(static_cast<size_t>(count));
      make_part(tensor, first / row_bytes, from, part);
      first += count;
      out = out.subspan(part.size());
    }
  }

 private:
  static void describe(Tensor& tensor, DType type) {
    // What was only described, in another type, is described anew.
    if (tensor.source.exists()) tensor.view = std::exchange(tensor.source, {});
    const DType had = tensor.view.type;
    if (is_original(had)) return;
    if (!has_float_weights(had) && had != type) {
      fail(Exit::Usage, "--type: tensor '", printable(tensor.name), "' of ", tensor.file, " is ",
           name(had), " already; it is for models in 16 or 32 bits");
    }
    tensor.source = tensor.view;
    const int64_t bytes = row_bytes(type, tensor.view.cols);
    tensor.view = {nullptr, type, tensor.view.rows, tensor.view.cols, bytes};
  }
};

}  // namespace

Model quantized_model(const Model& model, const QuantMix& mix) {
  Model quantized = model;
  quantized.weights = std::make_shared<QuantizedWeights>(model, mix);
  return quantized;
}

Model made_model(const Model& model, const MakeOptions& options) {
  Model made = model;
  if (auto weights = model.weights->made(options)) made.weights = std::move(weights);
  return made;
}

}  // namespace skald
