#include "models/files/made_tensor.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/base/error.h"
#include "engine/cpu/machine.h"
#include "engine/cpu/thread_pool.h"
#include "engine/quant/unfit.h"
#include "models/files/mapped_file.h"

namespace skald {
namespace {

struct Scratch {
  std::vector<float> floats;
  std::vector<std::byte> bytes;
};

void read_row(const MadeTensor& tensor, int64_t row, float* out, Scratch& scratch) {
  const int64_t cols = tensor.cols();
  if (!tensor.values.empty()) {
    std::copy(tensor.values.begin(), tensor.values.end(), out);
    return;
  }
  const auto [view, view_row] = tensor.source_row(row);
  if (tensor.col_order.empty()) {
    view.decode_row(view_row, out, scratch.bytes);
  } else {
    scratch.floats.resize(static_cast<size_t>(view.cols));
    view.decode_row(view_row, scratch.floats.data(), scratch.bytes);
    for (const int32_t from : tensor.col_order) *out++ = scratch.floats[static_cast<size_t>(from)];
    out -= cols;
  }
  if (tensor.added != 0) {
    for (int64_t i = 0; i < cols; ++i) out[i] += tensor.added;
  }
}

}  // namespace

void MadeTensor::drop_source(int64_t first, int64_t rows) const {
  while (rows > 0) {
    const int64_t here = stack.empty() ? rows : std::min(rows, source.rows - first % source.rows);
    const int64_t row = stack.empty() ? first : first % source.rows;
    const TensorView& view =
        stack.empty() ? source : stack[static_cast<size_t>(first / source.rows)];
    if (view.data) drop_pages({view.row(row), static_cast<size_t>(here * source.row_bytes)});
    first += here;
    rows -= here;
  }
}

TensorMaker::TensorMaker(int threads)
    : pool_(std::make_unique<cpu::ThreadPool>(threads > 0 ? threads : cpu::available_threads())) {}

TensorMaker::~TensorMaker() = default;

void TensorMaker::make(const MadeTensor& tensor, int64_t first, int64_t rows, std::byte* out) {
  const int64_t cols = tensor.cols(), bytes = row_bytes(tensor.type, cols);
  const DTypeInfo& format = info(tensor.type);
  const bool copied = tensor.copied() && tensor.col_order.empty();
  check(copied || format.encode_row != nullptr, "a tensor is made in a format that has an encoder");
  constexpr int64_t kPieceElems = 1 << 16;  // elements that a thread takes at a time
  const int64_t piece = std::max<int64_t>(1, kPieceElems / cols);
  std::vector<std::vector<float>> floats(static_cast<size_t>(pool_->threads()));
  if (!copied) {
    for (auto& row : floats) row.resize(static_cast<size_t>(cols));
  }
  std::vector<Scratch> scratch(static_cast<size_t>(pool_->threads()));
  std::atomic<int64_t> next{0}, bad_row{INT64_MAX};
  pool_->run([&](int thread, int) {
    float* row = floats[static_cast<size_t>(thread)].data();
    Scratch& own = scratch[static_cast<size_t>(thread)];
    for (int64_t start; (start = next.fetch_add(piece)) < rows;) {
      for (int64_t r = start; r < std::min(rows, start + piece); ++r) {
        std::byte* to = out + r * bytes;
        if (copied) {
          const auto [view, view_row] = tensor.source_row(first + r);
          view.copy_row(view_row, to);
          continue;
        }
        read_row(tensor, first + r, row, own);
        if (first_unfit(row, cols, tensor.type) >= 0) {
          for (int64_t seen = bad_row; first + r < seen;) {
            if (bad_row.compare_exchange_weak(seen, first + r)) break;
          }
        }
        format.encode_row(row, to, cols, tensor.importances_of(first + r));
      }
    }
  });
  const int64_t bad = bad_row;
  if (bad == INT64_MAX) return;
  float* row = floats[0].data();
  read_row(tensor, bad, row, scratch[0]);
  const int64_t at = first_unfit(row, cols, tensor.type);
  fail_unfit(tensor.file, tensor.name, bad, row[at], tensor.type);
}

}  // namespace skald
