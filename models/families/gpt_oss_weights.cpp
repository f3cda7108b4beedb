#include "models/families/gpt_oss_weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/checkpoints/mxfp4_block.h"
#include "models/files/made_weights.h"

namespace skald {
namespace {

// Which rows of an expert a matrix has: every `step`-th one from `first` on.
struct Rows {
  int64_t first, step;
};
constexpr Rows kAll = {0, 1}, kEven = {0, 2}, kOdd = {1, 2};

class ExpertBlocks final : public RowReader {
 public:
  // blocks: [experts, rows, cols / 32, 16]; scales: [experts, rows, cols / 32]
  ExpertBlocks(const std::byte* blocks, const std::byte* scales, int64_t rows, int64_t cols,
               Rows wanted)
      : blocks_(blocks),
        scales_(scales),
        rows_(rows),
        count_(cols / kNumbers),
        chosen_rows_(wanted) {}

  void read_row(int64_t row, std::byte* out) const override {
    const int64_t each = rows_ / chosen_rows_.step;
    const int64_t from = row / each * rows_ + row % each * chosen_rows_.step + chosen_rows_.first;
    const std::byte* bytes = blocks_ + from * count_ * kBytes;
    const std::byte* scales = scales_ + from * count_;
    for (int64_t i = 0; i < count_; ++i, bytes += kBytes, out += sizeof(BlockMXFP4)) {
      const BlockMXFP4 block = mxfp4_block(bytes, scales[i]);
      std::memcpy(out, &block, sizeof block);
    }
  }

  static constexpr int64_t kNumbers = BlockMXFP4::kElems, kBytes = kMxfp4Bytes;

 private:
  const std::byte *blocks_, *scales_;
  int64_t rows_, count_;
  Rows chosen_rows_;
};

// Columns of each expert's [ins, outs] in 16 or 32 bits as rows.
class Columns final : public RowReader {
 public:
  Columns(const TensorView& view, int64_t ins, Rows wanted)
      : view_(view), ins_(ins), chosen_rows_(wanted) {}

  void read_row(int64_t row, std::byte* out) const override {
    const int64_t each = view_.cols / chosen_rows_.step, expert = row / each;
    const int64_t col = row % each * chosen_rows_.step + chosen_rows_.first;
    const int64_t bytes = info(view_.type).block_bytes;
    const std::byte* from = view_.row(expert * ins_) + col * bytes;
    for (int64_t i = 0; i < ins_; ++i, from += view_.row_bytes, out += bytes) {
      std::memcpy(out, from, static_cast<size_t>(bytes));
    }
  }

 private:
  TensorView view_;  // [experts * ins, outs]
  int64_t ins_;
  Rows chosen_rows_;
};

// Every second number of a row.
class EverySecond final : public RowReader {
 public:
  EverySecond(const TensorView& view, int64_t first) : view_(view), first_(first) {}

  void read_row(int64_t row, std::byte* out) const override {
    const int64_t bytes = info(view_.type).block_bytes;
    const std::byte* from = view_.row(row) + first_ * bytes;
    for (int64_t i = 0; i < view_.cols / 2; ++i) {
      std::memcpy(out + i * bytes, from + 2 * i * bytes, static_cast<size_t>(bytes));
    }
  }

 private:
  TensorView view_;
  int64_t first_;
};

// Splits "blk.3.ffn_down_exps.weight" before its last dot.
struct Name {
  std::string stack, kind;
};
Name split(const std::string& name) {
  const size_t dot = name.rfind('.');
  return {name.substr(0, dot), name.substr(dot + 1)};
}

class GptOssWeights final : public DescribedWeights {
 public:
  GptOssWeights(std::shared_ptr<const WeightFile> file, std::span<const RawTensor> raw_tensors)
      : DescribedWeights(file->path(), file) {
    for (const Tensor& tensor : file->tensors()) {
      const Name name = split(tensor.name);
      if (name.stack.ends_with(gpt_oss::kGateUp) && name.kind == "bias") {
        add_biases(tensor, name.stack);
      } else if (is_stack(name.stack) && name.kind == "weight") {
        add_columns(tensor, name.stack);
      } else {
        add(tensor);
      }
    }
    std::map<std::string, const RawTensor*> scales;
    for (const RawTensor& raw : raw_tensors) {
      const Name name = split(raw.name);
      if (raw.type != "U8" || !is_stack(name.stack)) refuse_raw(raw);
      if (name.kind == "scales") scales[name.stack] = &raw;
      if (name.kind != "scales" && name.kind != "blocks") refuse_raw(raw);
    }
    for (const RawTensor& raw : raw_tensors) {
      const Name name = split(raw.name);
      if (name.kind != "blocks") continue;
      const auto found = scales.find(name.stack);
      if (found == scales.end()) {
        fail(Exit::Model, raw.file, ": tensor '", printable(name.stack),
             ".scales' is missing, which belongs to '", printable(raw.name), "'");
      }
      add_blocks(raw, *found->second, name.stack);
      scales.erase(found);
    }
    for (const auto& [stack, raw] : scales) {
      fail(Exit::Model, raw->file, ": tensor '", printable(stack),
           ".blocks' is missing, which belongs to '", printable(raw->name), "'");
    }
  }

 private:
  static bool is_stack(const std::string& name) {
    return name.ends_with(gpt_oss::kGateUp) || name.ends_with(gpt_oss::kDown);
  }

  // Calls fn(name, rows) for each matrix of the stack.
  template <class Fn>
  static void for_each_matrix(const std::string& stack, const Fn& fn) {
    if (!stack.ends_with(gpt_oss::kGateUp)) return fn(stack, kAll);
    const std::string layer = stack.substr(0, stack.size() - gpt_oss::kGateUp.size());
    fn(concat(layer, gpt_oss::kGate), kEven);
    fn(concat(layer, gpt_oss::kUp), kOdd);
  }

  template <class Reader, class... Args>
  void add_read(Tensor tensor, const Args&... args) {
    readers_.push_back(std::make_unique<Reader>(args...));
    tensor.view.data = nullptr;
    tensor.view.reader = readers_.back().get();
    tensor.view.cols = tensor.shape.back();
    tensor.view.rows = 1;
    for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) tensor.view.rows *= tensor.shape[i];
    tensor.view.row_bytes = tensor.view.own_row_bytes();
    add(std::move(tensor));
  }

  static void check_even(const Tensor& tensor, int64_t rows, const Rows& wanted) {
    if (rows % wanted.step == 0) return;
    fail(Exit::Model, tensor.file, ": tensor '", printable(tensor.name), "' has ", rows,
         " rows of an expert's gate and up, expected an even number");
  }

  void add_biases(const Tensor& tensor, const std::string& stack) {
    for_each_matrix(stack, [&](const std::string& name, const Rows& rows) {
      check_even(tensor, tensor.view.cols, rows);
      Tensor own = tensor;
      own.name = name + ".bias";
      own.shape.back() /= rows.step;
      add_read<EverySecond>(std::move(own), tensor.view, rows.first);
    });
  }

  void add_columns(const Tensor& tensor, const std::string& stack) {
    if (tensor.shape.size() != 3) {
      fail(Exit::Model, tensor.file, ": tensor '", printable(tensor.name), "' has ",
           tensor.shape.size(), " dimensions, expected 3: experts, inputs, outputs");
    }
    for_each_matrix(stack, [&](const std::string& name, const Rows& rows) {
      check_even(tensor, tensor.shape[2], rows);
      Tensor own = tensor;
      own.name = name + ".weight";
      own.shape = {tensor.shape[0], tensor.shape[2] / rows.step, tensor.shape[1]};
      add_read<Columns>(std::move(own), tensor.view, tensor.shape[1], rows);
    });
  }

  void add_blocks(const RawTensor& blocks, const RawTensor& scales, const std::string& stack) {
    const std::vector<int64_t>& shape = blocks.shape;
    const bool fits = shape.size() == 4 && shape[3] == ExpertBlocks::kBytes &&
                      scales.shape == std::vector<int64_t>(shape.begin(), shape.begin() + 3) &&
                      std::find(shape.begin(), shape.end(), 0) == shape.end();
    if (!fits) {
      fail(Exit::Model, blocks.file, ": tensors '", printable(blocks.name), "' and '",
           printable(scales.name),
           "' do not fit together; expected [experts, rows, blocks, 16] and [experts, rows, "
           "blocks]");
    }
    for_each_matrix(stack, [&](const std::string& name, const Rows& rows) {
      Tensor own;
      own.name = name + ".weight";
      own.file = blocks.file;
      own.view.type = DType::MXFP4;
      check_even(own, shape[1], rows);
      own.shape = {shape[0], shape[1] / rows.step, shape[2] * ExpertBlocks::kNumbers};
      add_read<ExpertBlocks>(own, blocks.bytes.data(), scales.bytes.data(), shape[1], own.shape[2],
                             rows);
    });
  }

  std::vector<std::unique_ptr<RowReader>> readers_;
};

}  // namespace

std::shared_ptr<const WeightFile> gpt_oss_weights(std::shared_ptr<const WeightFile> weights,
                                                  std::span<const RawTensor> raw) {
  return std::make_shared<const GptOssWeights>(std::move(weights), raw);
}

}  // namespace skald
