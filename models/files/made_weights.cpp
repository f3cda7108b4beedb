#include "models/files/made_weights.h"

#include <algorithm>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"
#include "engine/cpu/machine.h"
#include "models/files/made_tensor.h"

namespace skald {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

bool to_be_made(const Tensor& tensor) { return tensor.source.exists() || tensor.view.reader; }

MadeTensor to_make(const Tensor& tensor) {
  return {.name = tensor.name,
          .shape = tensor.shape,
          .type = tensor.view.type,
          .source = tensor.source.exists() ? tensor.source : tensor.view,
          .file = tensor.file};
}

class MadeWeights final : public WeightFile {
 public:
  MadeWeights(const WeightFile& described, std::shared_ptr<const WeightFile> source,
              const MakeOptions& options)
      : WeightFile(described.path()), source_(std::move(source)) {
    int64_t bytes = 0;
    for (const Tensor& tensor : described.tensors()) {
      if (to_be_made(tensor)) bytes += aligned(tensor.view.bytes());
    }
    const int64_t machine = cpu::machine_memory().free;
    if (bytes > machine) {
      fail(Exit::Memory, printable(path()), ": needs ", size_text(bytes),
           " of memory, and this machine has ", size_text(machine),
           "; choose a smaller type, or write a file with skald quantize");
    }
    memory_ = Buffer(bytes, "weights in another format");
    TensorMaker maker(options.threads);
    int64_t done = 0;
    for (Tensor tensor : described.tensors()) {
      if (to_be_made(tensor)) {
        make(maker, tensor, done, options);
        done += aligned(tensor.view.bytes());
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
    tensor.view.reader = nullptr;
    tensor.view.first_row = 0;
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

}  // namespace

DescribedWeights::DescribedWeights(std::string path, std::shared_ptr<const WeightFile> source)
    : WeightFile(std::move(path)), source_(std::move(source)) {}

std::shared_ptr<const WeightFile> DescribedWeights::made(const MakeOptions& options) const {
  const std::lock_guard lock(making_);
  if (!made_) {
    check_whole();
    made_ = std::make_shared<MadeWeights>(*this, source_, options);
  }
  return made_;
}

}  // namespace skald
