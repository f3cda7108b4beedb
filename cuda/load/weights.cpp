#include "cuda/load/weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "cuda/gpu/check.h"
#include "cuda/kernels/tiles/expand_q.h"
#include "cuda/kernels/tiles/layout.h"
#include "cuda/kernels/tiles/tiles.h"
#include "cuda/plan/sizes.h"
#include "cuda/plan/tile_pack.h"
#include "engine/base/error.h"
#include "engine/cpu/machine.h"
#include "engine/quant/unfit.h"

namespace skald::cuda {
namespace {

// 12 threads copy from the page cache faster than the link to the GPU, if they are not started for
// each buffer.
constexpr int kThreads = 12;

std::unique_ptr<cpu::ThreadPool> start_threads() {
  try {
    return std::make_unique<cpu::ThreadPool>(std::min(cpu::available_threads(), kThreads));
  } catch (const Error&) {  // the system has no more
    return std::make_unique<cpu::ThreadPool>(1);
  }
}

// Calls fn(row) for each row.
template <class Fn>
void in_parallel(cpu::ThreadPool& threads, int64_t rows, int64_t row_bytes, const Fn& fn) {
  constexpr int64_t kPieceBytes = 1 << 18;
  const int64_t piece = std::max<int64_t>(1, kPieceBytes / row_bytes);
  std::atomic<int64_t> next{0};
  threads.run([&](int, int) {
    for (int64_t first; (first = next.fetch_add(piece)) < rows;) {
      for (int64_t row = first; row < std::min(rows, first + piece); ++row) fn(row);
    }
  });
}

// A row is the smallest unit of an upload.
void check_row(int64_t bytes) {
  if (bytes <= kStagingBytes) return;
  fail(Exit::Failed, "CUDA has no room for a row of ", bytes, " bytes of weights, only for ",
       kStagingBytes, "; use --device cpu");
}

// Writes a part's row to `to` in `format`. False if the row's floats do not fit its own format.
bool put_row(const JoinedRows::Place& place, DType format, std::byte* to) {
  const Weight& weight = *place.part;
  const bool made = weight.source.exists();
  const TensorView& view = made ? weight.source : weight.view;
  const DTypeInfo &from = info(view.type), &as = info(format), &between = info(weight.view.type);
  // Floats for the GPU to quantize are copied as they are, or as float32.
  const bool rounded = made && between.block_elems == 1 && between.type != format;
  if (view.type == format && !rounded) {
    view.copy_row(place.row, to);
    return true;
  }
  constexpr int64_t kAtOnce = 1024;
  const bool checked = made && (between.block_elems == 1 || between.type == format);
  float values[kAtOnce];
  std::byte bytes[kAtOnce * sizeof(float)];
  bool fits = true;
  std::vector<std::byte> scratch;
  const std::byte* row = view.row(place.row, scratch);
  for (int64_t col = 0; col < view.cols; col += kAtOnce) {
    const int64_t count = std::min(kAtOnce, view.cols - col);
    from.decode_row(row + col / from.block_elems * from.block_bytes, values, count);
    if (checked) fits &= first_unfit(values, count, between.type) < 0;
    if (rounded) {
      between.encode_row(values, bytes, count, nullptr);
      between.decode_row(bytes, values, count);
    }
    as.encode_row(values, to + col / as.block_elems * as.block_bytes, count, nullptr);
  }
  return fits;
}

}  // namespace

Weights::Weights(int64_t bytes, int64_t copy_bytes)
    : memory_(bytes, "the model's weights"),
      copies_(copy_bytes, "a 16-bit copy of the weights"),
      threads_(start_threads()) {
  for (PinnedMemory& staging : staging_) staging = PinnedMemory(kStagingBytes, "uploading weights");
}

std::byte* Weights::reserve(int64_t bytes) {
  check(used_ + padded(bytes) <= memory_.bytes(), "weights fit where their sizes were added up");
  std::byte* at = memory_.as<std::byte>() + used_;
  used_ += padded(bytes);
  return at;
}

std::byte* Weights::reserve_matrix(int64_t bytes) {
  if (!destination_) return reserve(bytes);
  return std::exchange(destination_, destination_ + padded(bytes));
}

void Weights::save(const std::byte* from, std::byte* to, int64_t bytes, Stream stream) {
  SKALD_CUDA(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream));
}

std::byte* Weights::zeros(int64_t bytes, Stream stream) {
  std::byte* at = reserve(bytes);
  SKALD_CUDA(cudaMemsetAsync(at, 0, static_cast<size_t>(bytes), stream));
  return at;
}

void Weights::finish(Stream stream) {
  SKALD_CUDA(cudaStreamSynchronize(stream));
  for (PinnedMemory& staging : staging_) staging = {};
  blocks_ = {};
  threads_.reset();
  if (quantizer_) quantizer_->check_fits();
  quantizer_.reset();
}

std::byte* Weights::next_staging() {
  staging_index_ = (staging_index_ + 1) % kStagings;
  SKALD_CUDA(cudaEventSynchronize(upload_events_[staging_index_]));
  return staging_[staging_index_].as<std::byte>();
}

void Weights::send(std::byte* to, int64_t bytes, Stream stream) {
  SKALD_CUDA(cudaMemcpyAsync(to, staging_[staging_index_].as<std::byte>(),
                             static_cast<size_t>(bytes), cudaMemcpyDefault, stream));
  SKALD_CUDA(cudaEventRecord(upload_events_[staging_index_], stream));
}

Matrix Weights::upload(const JoinedRows& joined, DType format, Stream stream) {
  Matrix matrix;
  matrix.format = format;
  matrix.ins = joined.parts[0].view.cols;
  const bool tiled = info(format).block_elems > 1;
  const DType staged = DeviceQuantizer::travels_as(joined, format);
  const bool quantized = staged != format;
  const int64_t row_bytes = skald::row_bytes(staged, matrix.ins);
  const int64_t least = tiled ? tiles::kRows : 1;  // rows
  check_row(row_bytes * least);
  for (const Weight& part : joined.parts) {
    check(part.view.cols == matrix.ins && (!tiled || part.view.type == format),
          "parts of a matrix are alike");
    matrix.outs += part.view.rows;
  }
  const int64_t bytes = matrix_bytes(format, matrix.outs, matrix.ins);
  std::byte* to = reserve_matrix(bytes);
  matrix.data = to;
  if (tiled && blocks_.bytes() == 0) blocks_ = DeviceMemory(kStagingBytes, "uploading weights");
  if (quantized) {
    if (!quantizer_) quantizer_.emplace();
    quantizer_->begin(joined);
  }

  std::atomic<bool> fit{true};
  const int64_t rows_at_once = kStagingBytes / (row_bytes * least) * least;
  for (int64_t row = 0; row < matrix.outs; row += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, matrix.outs - row);
    std::byte* staging = next_staging();
    const auto put = [&](int64_t r) {
      return put_row(joined.at(row + r), staged, staging + r * row_bytes);
    };
    in_parallel(*threads_, rows, row_bytes, [&](int64_t r) {
      if (!put(r)) fit = false;
    });
    for (int64_t r = 0; !fit; ++r) {
      if (!put(r)) fail_unfit_row(joined.at(row + r));
    }
    if (!tiled) {
      send(to + row * row_bytes, rows * row_bytes, stream);
      continue;
    }
    if (quantized) {
      quantizer_->make({staged, format, staging, row, rows, matrix.ins, staging_index_},
                       blocks_.as<void>(), upload_events_[staging_index_], stream);
    } else {
      send(blocks_.as<std::byte>(), rows * row_bytes, stream);
    }
    launch_pack_tiles(
        {format, blocks_.as<void>(), rows, matrix.ins, to + tile_bytes(format, row, matrix.ins)},
        stream);
  }
  return matrix;
}

void Weights::add_copy(Matrix& matrix, DType type, Stream stream) {
  if (copies_.bytes() == 0 || info(matrix.format).block_elems == 1 || matrix.copy) return;
  const int64_t bytes = padded(matrix.outs * row_bytes(type, matrix.ins));
  check(copied_ + bytes <= copies_.bytes(), "copies fit where their sizes were added up");
  std::byte* to = copies_.as<std::byte>() + copied_;
  copied_ += bytes;
  launch_expand_q({matrix.format, matrix.data, matrix.ins, 0, matrix.outs, type, to}, stream);
  matrix.copy = to;
}

const float* Weights::upload_floats(std::span<const TensorView> parts, bool alternate,
                                    Stream stream, float plus) {
  int64_t count = 0;
  for (const TensorView& part : parts) count += part.cols;
  const int64_t bytes = count * int64_t{sizeof(float)};
  check_row(bytes);
  float* staging = reinterpret_cast<float*>(next_staging());
  std::vector<float> values;
  std::vector<std::byte> scratch;
  int64_t at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    values.assign(static_cast<size_t>(parts[i].cols), 0);
    if (parts[i].exists()) parts[i].decode_row(0, values.data(), scratch);
    for (int64_t c = 0; c < parts[i].cols; ++c) {
      staging[alternate ? c * static_cast<int64_t>(parts.size()) + static_cast<int64_t>(i)
                        : at + c] = values[static_cast<size_t>(c)] + plus;
    }
    at += parts[i].cols;
  }
  std::byte* to = reserve(bytes);
  send(to, bytes, stream);
  return reinterpret_cast<const float*>(to);
}

}  // namespace skald::cuda
