#include "models/convert/quantized.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"
#include "engine/cpu/machine.h"
#include "engine/quant/unfit.h"
#include "models/files/made_tensor.h"

namespace skald {
namespace {

int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

MadeTensor to_make(const Tensor& tensor) {
  return {.name = tensor.name,
          .shape = tensor.shape,
          .type = tensor.view.type,
          .source = tensor.source,
          .file = tensor.file};
}

// Makes bytes [from, from + out.size()) of a quantized row. Encodes only the blocks that hold them.
void make_part(const Tensor& tensor, int64_t row, int64_t from, std::span<std::byte> out) {
  const DTypeInfo &format = info(tensor.view.type), &source = info(tensor.source.type);
  if (&format == &source) {
    std::copy_n(tensor.source.row(row) + from, out.size(), out.begin());
    return;
  }
  const int64_t block = from / format.block_bytes, skipped = from % format.block_bytes;
  const int64_t blocks = (skipped + std::ssize(out) + format.block_bytes - 1) / format.block_bytes;
  const int64_t first = block * format.block_elems, count = blocks * format.block_elems;
  std::vector<float> weights(static_cast<size_t>(count));
  source.decode_row(tensor.source.row(row) + first * source.block_bytes, weights.data(), count);
  const int64_t unfit = first_unfit(weights.data(), count, format.type);
  if (unfit >= 0) {
    fail_unfit(tensor.file, tensor.name, row, weights[static_cast<size_t>(unfit)], format.type);
  }
  std::vector<std::byte> made(static_cast<size_t>(blocks * format.block_bytes));
  format.encode_row(weights.data(), made.data(), count);
  std::copy_n(made.begin() + skipped, out.size(), out.begin());
}

class MadeWeights final : public WeightFile {
 public:
  MadeWeights(const WeightFile& described, std::shared_ptr<const WeightFile> source,
              const MakeOptions& options)
      : WeightFile(described.path()), source_(std::move(source)) {
    int64_t bytes = 0;
    for (const Tensor& tensor : described.tensors()) {
      if (tensor.source.data) bytes += padded(tensor.view.bytes());
    }
    const int64_t machine = cpu::machine_memory().free;
    if (bytes > machine) {
      fail(Exit::Memory, printable(path()), ": needs ", size_text(bytes),
           " of memory, and this machine has ", size_text(machine),
           "; choose a smaller type, or write a file with skald quantize");
    }
    memory_ = Buffer(bytes, "quantized weights");
    TensorMaker maker(options.threads);
    int64_t done = 0;
    for (Tensor tensor : described.tensors()) {
      if (tensor.source.data) {
        make(maker, tensor, done, options);
        done += padded(tensor.view.bytes());
      }
      add(std::move(tensor));
    }
  }

  bool mapped() const override { return false; }
  void check_whole() const override { source_->check_whole(); }

 private:
  // Makes a tensor at `done` bytes from the start of memory_.
  void make(TensorMaker& maker, Tensor& tensor, int64_t done, const MakeOptions& options) {
    constexpr int64_t kSliceBytes = 32 << 20;  // source bytes converted at a time
    const MadeTensor plan = to_make(tensor);
    tensor.view.data = memory_.data() + done;
    tensor.source = {};
    const int64_t most = std::max<int64_t>(1, kSliceBytes / plan.source.row_bytes);
    for (int64_t first = 0; first < plan.rows(); first += most) {
      const int64_t rows = std::min(most, plan.rows() - first);
      maker.make(plan, first, rows, memory_.data() + done);
      done += rows * tensor.view.row_bytes;
      if (source_->mapped()) plan.drop_source(first, rows);
      if (options.progress) options.progress(done, memory_.bytes(), tensor.name);
    }
  }

  std::shared_ptr<const WeightFile> source_;
  Buffer memory_;
};

class QuantizedWeights final : public WeightFile {
 public:
  QuantizedWeights(const Model& model, const QuantMix& mix)
      : WeightFile(concat(model.weights->path(), " as ", mix.name)), source_(model.weights) {
    const MixedModel mixed = mixed_model(model.config);
    for (Tensor tensor : source_->tensors()) {
      if (model.config.tied && tensor.name == "output.weight") continue;  // the embedding is used
      if (is_quantizable(tensor.name, tensor.view.rows, tensor.shape.size())) {
        describe(tensor, choose_type(mix, mixed, tensor.name, tensor.view.cols).type);
      }
      add(std::move(tensor));
    }
  }

  // The weights will take memory on the CPU and on a GPU.
  bool mapped() const override { return false; }
  void check_whole() const override { source_->check_whole(); }

  void read(const Tensor& tensor, int64_t first, std::span<std::byte> out) const override {
    if (!tensor.source.data) return WeightFile::read(tensor, first, out);
    const int64_t row_bytes = tensor.view.row_bytes;
    while (!out.empty()) {
      const int64_t from = first % row_bytes, count = std::min(row_bytes - from, std::ssize(out));
      const auto part = out.first(static_cast<size_t>(count));
      make_part(tensor, first / row_bytes, from, part);
      first += count;
      out = out.subspan(part.size());
    }
  }

  std::shared_ptr<const WeightFile> made(const MakeOptions& options) const override {
    const std::lock_guard lock(making_);
    if (!made_) {
      check_whole();
      made_ = std::make_shared<MadeWeights>(*this, source_, options);
    }
    return made_;
  }

 private:
  static void describe(Tensor& tensor, DType type) {
    const DType had = tensor.view.type;
    if (info(had).block_elems != 1 && had != type) {
      fail(Exit::Usage, "--type: tensor '", printable(tensor.name), "' of ", tensor.file, " is ",
           name(had), " already; it is for models in 16 or 32 bits");
    }
    tensor.source = tensor.view;
    const int64_t bytes = row_bytes(type, tensor.view.cols);
    tensor.view = {nullptr, type, tensor.view.rows, tensor.view.cols, bytes};
  }

  std::shared_ptr<const WeightFile> source_;
  mutable std::mutex making_;
  mutable std::shared_ptr<const WeightFile> made_;
};

}  // namespace

Model quantized_model(const Model& model, const QuantMix& mix) {
  return {model.config, std::make_shared<QuantizedWeights>(model, mix), model.build};
}

Model made_model(const Model& model, const MakeOptions& options) {
  auto made = model.weights->made(options);
  return made ? Model{model.config, std::move(made), model.build} : model;
}

}  // namespace skald
