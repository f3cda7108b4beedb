#include "cuda/run/step_table.h"

#include <algorithm>
#include <cstring>

#include "cuda/gpu/check.h"
#include "cuda/kernels/attention/attention.h"

namespace skald::cuda {

StepBuffer::StepBuffer(const StepLayout& layout, bool by_page)
    : layout_(layout),
      by_page_(by_page),
      host_(layout.bytes, "the step's table"),
      device_(layout.bytes, "the step's table"),
      tile_counts_(layout.tiles.size(), 0) {}

void StepBuffer::check_fits(Step step) const {
  if (static_cast<int64_t>(step.size()) > layout_.most_sequences) {
    fail(Exit::Failed, "a step of ", step.size(), " sequences is more than was prepared for");
  }
}

void StepBuffer::send(Step step, const StepRows& rows, Stream stream) {
  send_with_tiles(step, rows, {}, AttentionCode::Plain, stream);
}

void StepBuffer::send_with_tiles(Step step, const StepRows& rows,
                                 const std::vector<AttentionSpec>& specs, AttentionCode code,
                                 Stream stream) {
  SKALD_CUDA(cudaEventSynchronize(copy_event_));  // the last copy has been read from host_
  fill(step, rows);
  std::fill(tile_counts_.begin(), tile_counts_.end(), 0);
  for (size_t i = 0; i < specs.size(); ++i) {
    auto* tiles = reinterpret_cast<AttentionTile*>(host_.as<std::byte>() + layout_.tiles[i]);
    tile_counts_[i] =
        build_attention_tiles({positions_, rows.sequences, specs[i], code, by_page_}, tiles);
  }
  const int64_t bytes = layout_.page_table + static_cast<int64_t>(step.size()) * layout_.pages * 4;
  SKALD_CUDA(cudaMemcpyAsync(device_.as<void>(), host_.as<void>(), static_cast<size_t>(bytes),
                             cudaMemcpyHostToDevice, stream));
  if (!rows.given.empty()) {
    const std::span<const float> given(rows.given);
    std::byte* const host = host_.as<std::byte>() + layout_.given;
    std::memcpy(host, given.data(), given.size_bytes());
    SKALD_CUDA(cudaMemcpyAsync(list(layout_.given), host, given.size_bytes(),
                               cudaMemcpyHostToDevice, stream));
  }
  SKALD_CUDA(cudaEventRecord(copy_event_, stream));
}

void StepBuffer::fill(Step step, const StepRows& rows) {
  std::byte* host = host_.as<std::byte>();
  positions_.assign(rows.positions.begin(), rows.positions.end());
  const auto copy = [&](int64_t offset, std::span<const int32_t> list) {
    std::memcpy(host + offset, list.data(), list.size_bytes());
  };
  copy(layout_.tokens, rows.tokens);
  copy(layout_.positions, positions_);
  copy(layout_.sequences, rows.sequences);
  copy(layout_.wanted, rows.wanted);
  begins_.clear();
  slots_.clear();
  int32_t begin = 0;
  for (const SeqRows& of : step) {
    begins_.push_back(begin);
    slots_.push_back(of.sequence->state());
    begin += static_cast<int32_t>(of.tokens.size());
  }
  begins_.push_back(begin);
  copy(layout_.begins, begins_);
  copy(layout_.slots, slots_);
  for (size_t s = 0; s < step.size(); ++s) {
    copy(layout_.page_table + static_cast<int64_t>(s) * layout_.pages * 4,
         step[s].sequence->pages());
  }
}

StepTable StepBuffer::table() const {
  return {list(layout_.tokens),     list(layout_.positions),         list(layout_.sequences),
          list(layout_.page_table), static_cast<int>(layout_.pages), list(layout_.begins),
          list(layout_.slots)};
}

NextStep StepBuffer::next() const {
  return {list(layout_.tokens),     list(layout_.positions), list(layout_.sequences),
          list(layout_.page_table), list(layout_.begins),    list(layout_.slots)};
}

std::span<const NextRow> StepBuffer::next_rows(Step step, const StepRows& rows) {
  next_rows_.clear();
  for (size_t s = 0; s < step.size(); ++s) {
    const int64_t position = rows.positions[s];
    const int64_t entry = static_cast<int64_t>(s) * layout_.pages + position / kPageTokens;
    next_rows_.push_back({static_cast<int32_t>(position), step[s].sequence->pages().back(),
                          static_cast<int32_t>(entry), step[s].sequence->state()});
  }
  return next_rows_;
}

const AttentionTile* StepBuffer::tiles(size_t spec) const {
  return reinterpret_cast<const AttentionTile*>(list(layout_.tiles[spec]));
}

}  // namespace skald::cuda
