#include "cuda/weights.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>

#include "cuda/check.h"
#include "cuda/sizes.h"

namespace skald::cuda {
namespace {

constexpr int64_t kStagingBytes = 64 << 20;
constexpr int kThreads = 8;  // one alone copies from the page cache at a fifth of the link's rate

// Runs fn(first, last) on parts of [0, count). Where the system has no more threads, fewer do it.
template <class Fn>
void in_parallel(int64_t count, const Fn& fn) {
  const int threads =
      static_cast<int>(std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, kThreads));
  std::vector<std::jthread> others;
  others.reserve(static_cast<size_t>(threads));
  int started = 1;
  try {
    for (; started < threads; ++started) {
      const int64_t first = count * started / threads, last = count * (started + 1) / threads;
      others.emplace_back([&fn, first, last] { fn(first, last); });
    }
  } catch (const std::system_error&) {
    fn(count * started / threads, count);
  }
  fn(int64_t{0}, count / threads);
}

// One row is the least that is uploaded at a time.
void check_row(int64_t bytes) {
  if (bytes <= kStagingBytes) return;
  fail(Exit::Failed, "CUDA has no room for a row of ", bytes, " bytes of weights, only for ",
       kStagingBytes, "; use --device cpu");
}

}  // namespace

Weights::Weights(int64_t bytes) : memory_(bytes, "the model's weights") {
  for (PinnedMemory& staging : staging_) staging = PinnedMemory(kStagingBytes, "uploading weights");
}

std::byte* Weights::reserve(int64_t bytes) {
  check(used_ + padded(bytes) <= memory_.bytes(), "weights fit where their sizes were added up");
  std::byte* at = memory_.as<std::byte>() + used_;
  used_ += padded(bytes);
  return at;
}

void Weights::finish(Stream stream) {
  SKALD_CUDA(cudaStreamSynchronize(stream));
  for (PinnedMemory& staging : staging_) staging = {};
}

std::byte* Weights::next_staging() {
  turn_ = 1 - turn_;
  SKALD_CUDA(cudaEventSynchronize(sent_[turn_]));
  return staging_[turn_].as<std::byte>();
}

void Weights::send(std::byte* to, int64_t bytes, Stream stream) {
  SKALD_CUDA(cudaMemcpyAsync(to, staging_[turn_].as<std::byte>(), static_cast<size_t>(bytes),
                             cudaMemcpyHostToDevice, stream));
  SKALD_CUDA(cudaEventRecord(sent_[turn_], stream));
}

Matrix Weights::upload(std::span<const TensorView> parts, bool alternate, Stream stream) {
  Matrix matrix;
  matrix.ins = parts[0].cols;
  const int64_t row_bytes = parts[0].row_bytes;
  check_row(row_bytes);
  for (const TensorView& part : parts) {
    check(part.type == parts[0].type && part.cols == matrix.ins, "parts of a matrix are alike");
    matrix.outs += part.rows;
  }
  matrix.bytes = matrix.outs * row_bytes;
  std::byte* to = reserve(matrix.bytes);
  matrix.data = to;

  auto source_row = [&](int64_t row) {
    if (alternate) return parts[static_cast<size_t>(row) % parts.size()].row(row / parts.size());
    size_t part = 0;
    while (row >= parts[part].rows) row -= parts[part++].rows;
    return parts[part].row(row);
  };
  const int64_t rows_at_once = std::max<int64_t>(1, kStagingBytes / row_bytes);
  for (int64_t row = 0; row < matrix.outs; row += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, matrix.outs - row);
    std::byte* staging = next_staging();
    in_parallel(rows, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        std::memcpy(staging + r * row_bytes, source_row(row + r), static_cast<size_t>(row_bytes));
      }
    });
    send(to + row * row_bytes, rows * row_bytes, stream);
  }
  return matrix;
}

const float* Weights::upload_floats(std::span<const TensorView> parts, bool alternate,
                                    Stream stream, float plus) {
  int64_t count = 0;
  for (const TensorView& part : parts) count += part.cols;
  const int64_t bytes = count * int64_t{sizeof(float)};
  check_row(bytes);
  float* staging = reinterpret_cast<float*>(next_staging());
  std::vector<float> values;
  int64_t at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    values.assign(static_cast<size_t>(parts[i].cols), 0);
    if (parts[i].data) info(parts[i].type).decode_row(parts[i].data, values.data(), parts[i].cols);
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
