#include "models/quantized.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/buffer.h"
#include "engine/cpu/machine.h"
#include "engine/error.h"
#include "engine/printable.h"
#include "engine/size_text.h"
#include "models/made_tensor.h"

namespace skald {
namespace {

class QuantizedWeights final : public WeightFile {
 public:
  QuantizedWeights(const Model& model, const QuantMix& mix)
      : WeightFile(concat(model.weights->path(), " as ", mix.name)), source_(model.weights) {
    const MixedModel mixed = mixed_model(model.config);
    for (const Tensor& tensor : source_->tensors()) {
      if (model.config.tied && tensor.name == "output.weight") continue;  // not used
      if (is_quantizable(tensor.name, tensor.view.rows, tensor.shape.size())) {
        plan(tensor, choose_type(mix, mixed, tensor.name, tensor.view.cols).type);
      } else {
        add(tensor);
      }
    }
  }

  // Fills the memory that the tensors were planned to have.
  void make(const QuantizeOptions& options) {
    const int64_t machine = cpu::machine_memory().free;
    if (bytes_ > machine) {
      fail(Exit::Memory, printable(path()), ": needs ", size_text(bytes_),
           " of memory, and this machine has ", size_text(machine),
           "; choose a smaller type, or write a file with skald quantize");
    }
    memory_ = Buffer(bytes_, "quantized weights");
    TensorMaker maker(options.threads);
    constexpr int64_t kSliceBytes = 32 << 20;  // of the source
    int64_t done = 0;
    for (const MadeTensor& tensor : made_) {
      const int64_t row = row_bytes(tensor.type, tensor.cols());
      const int64_t most = std::max<int64_t>(1, kSliceBytes / tensor.source.row_bytes);
      for (int64_t first = 0; first < tensor.rows(); first += most) {
        const int64_t rows = std::min(most, tensor.rows() - first);
        maker.make(tensor, first, rows, memory_.data() + done);
        done += rows * row;
        if (source_->mapped()) tensor.drop_source(first, rows);
        if (options.progress) options.progress(done, bytes_, tensor.name);
      }
      done = padded(done);
    }
  }

  void add_planned() {
    int64_t at = 0;
    for (const MadeTensor& tensor : made_) {
      const std::byte* data = memory_.bytes() > 0 ? memory_.data() + at : nullptr;
      const int64_t row = row_bytes(tensor.type, tensor.cols());
      add({tensor.name,
           tensor.shape,
           {data, tensor.type, tensor.rows(), tensor.cols(), row},
           tensor.file});
      at = padded(at + tensor.bytes());
    }
  }

  // Planned ones alone stand for memory that is still to be taken.
  bool mapped() const override { return false; }
  void check_whole() const override { source_->check_whole(); }

 private:
  static int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

  void plan(const Tensor& tensor, DType type) {
    const DType had = tensor.view.type;
    if (info(had).block_elems != 1 && had != type) {
      fail(Exit::Usage, "--type: tensor '", printable(tensor.name), "' of ", tensor.file, " is ",
           name(had), " already; it is for models in 16 or 32 bits");
    }
    made_.push_back({.name = tensor.name,
                     .shape = tensor.shape,
                     .type = type,
                     .source = tensor.view,
                     .file = tensor.file});
    bytes_ = padded(bytes_ + made_.back().bytes());
  }

  std::shared_ptr<const WeightFile> source_;
  std::vector<MadeTensor> made_;
  int64_t bytes_ = 0;
  Buffer memory_;
};

}  // namespace

Model quantized_model(const Model& model, const QuantMix& mix, const QuantizeOptions& options) {
  auto weights = std::make_shared<QuantizedWeights>(model, mix);
  model.weights->check_whole();
  weights->make(options);
  weights->add_planned();
  return {model.config, std::move(weights), model.build};
}

Model quantized_shape(const Model& model, const QuantMix& mix) {
  auto weights = std::make_shared<QuantizedWeights>(model, mix);
  weights->add_planned();
  return {model.config, std::move(weights), model.build};
}

}  // namespace skald
