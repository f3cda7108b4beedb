#include "cuda/load/device_quantizer.h"

#include <optional>

#include "cuda/gpu/check.h"
#include "cuda/kernels/tiles/quantize.h"
#include "engine/quant/unfit.h"

namespace skald::cuda {
namespace {

// One integer holds a matrix's number and its row's number, so that the lowest integer is the first
// unfit row in the order of loading.
constexpr int kRowBits = 40;
constexpr unsigned long long kAllFit = ~0ull;

}  // namespace

JoinedRows::Place JoinedRows::at(int64_t row) const {
  const int64_t count = std::ssize(parts);
  if (alternate) return {&parts[static_cast<size_t>(row % count)], row / count};
  size_t part = 0;
  while (row >= parts[part].view.rows) row -= parts[part++].view.rows;
  return {&parts[part], row};
}

void fail_unfit_row(const JoinedRows::Place& place) {
  const Weight& weight = *place.part;
  std::vector<float> row(static_cast<size_t>(weight.source.cols));
  std::vector<std::byte> scratch;
  weight.source.decode_row(place.row, row.data(), scratch);
  const int64_t at = first_unfit(row.data(), weight.source.cols, weight.view.type);
  check(at >= 0, "a row that does not fit has a weight that does not");
  fail_unfit(weight.file, weight.name, place.row, row[static_cast<size_t>(at)], weight.view.type);
}

DeviceQuantizer::DeviceQuantizer() : unfit_(sizeof(kAllFit), "quantizing weights") {
  for (DeviceMemory& floats : floats_) floats = DeviceMemory(kStagingBytes, "quantizing weights");
  SKALD_CUDA(cudaMemcpy(unfit_.as<void>(), &kAllFit, sizeof kAllFit, cudaMemcpyHostToDevice));
}

DeviceQuantizer::~DeviceQuantizer() { cudaStreamSynchronize(copying_); }

DType DeviceQuantizer::travels_as(const JoinedRows& rows, DType format) {
  if (!can_quantize(format)) return format;
  std::optional<DType> common;
  for (const Weight& part : rows.parts) {
    if (!part.source.exists() || !has_float_weights(part.source.type)) return format;
    const bool plain = info(part.source.type).block_elems == 1;
    const DType type = plain ? part.source.type : DType::F32;
    common = common.value_or(type) == type ? type : DType::F32;
  }
  return common.value_or(format);
}

void DeviceQuantizer::make(const Rows& rows, void* blocks, const EventOwner& sent, Stream stream) {
  void* floats = floats_[rows.turn].as<void>();
  const auto bytes = static_cast<size_t>(rows.count * row_bytes(rows.from, rows.cols));
  SKALD_CUDA(cudaStreamWaitEvent(copying_, used_[rows.turn]));
  SKALD_CUDA(cudaMemcpyAsync(floats, rows.staging, bytes, cudaMemcpyHostToDevice, copying_));
  SKALD_CUDA(cudaEventRecord(sent, copying_));
  SKALD_CUDA(cudaStreamWaitEvent(stream, sent));
  const auto first = static_cast<unsigned long long>(std::ssize(matrices_) - 1) << kRowBits |
                     static_cast<unsigned long long>(rows.first);
  launch_quantize({rows.from, rows.to, floats, blocks, rows.count, rows.cols,
                   unfit_.as<unsigned long long>(), first},
                  stream);
  SKALD_CUDA(cudaEventRecord(used_[rows.turn], stream));
}

void DeviceQuantizer::check_fits() const {
  unsigned long long unfit = kAllFit;
  SKALD_CUDA(cudaMemcpy(&unfit, unfit_.as<void>(), sizeof unfit, cudaMemcpyDeviceToHost));
  if (unfit == kAllFit) return;
  const JoinedRows& matrix = matrices_[static_cast<size_t>(unfit >> kRowBits)];
  fail_unfit_row(matrix.at(static_cast<int64_t>(unfit & ((1ull << kRowBits) - 1))));
}

}  // namespace skald::cuda
