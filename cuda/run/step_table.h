// The lists of one step, in page-locked memory and on the GPU; one copy sends them, and another one
// sends the rows that a step is given. Their addresses never change, so that captured graphs stay
// valid.
#pragma once

#include <vector>

#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/sample/sample.h"
#include "cuda/plan/sizes.h"
#include "engine/step/step.h"

namespace skald::cuda {

class StepBuffer {
 public:
  // by_page: no attention tile crosses a page of the KV cache (see build_attention_tiles()).
  StepBuffer(const StepLayout& layout, bool by_page);

  // Throws Error if the step has more sequences than the layout has room for.
  void check_fits(Step step) const;

  // Both send the admitted rows' lists; send_with_tiles() adds the attention tiles of each spec.
  void send(Step step, const StepRows& rows, Stream stream);
  void send_with_tiles(Step step, const StepRows& rows, const std::vector<AttentionSpec>& specs,
                       AttentionCode code, Stream stream);

  // The lists in device memory.
  StepTable table() const;
  // For a sampler that writes the lists of a decode step on the device: where the lists lie, and
  // the admitted rows' positions and pages. Only the tokens are missing.
  NextStep next() const;
  std::span<const NextRow> next_rows(Step step, const StepRows& rows);
  const int32_t* wanted() const { return list(layout_.wanted); }
  // [rows, StepLayout::given_cols]
  const float* given() const { return reinterpret_cast<const float*>(list(layout_.given)); }
  const AttentionTile* tiles(size_t spec) const;
  int tile_count(size_t spec) const { return tile_counts_[spec]; }  // 0 after send()

  int64_t bytes() const { return device_.bytes(); }

 private:
  int32_t* list(int64_t offset) const {
    return reinterpret_cast<int32_t*>(device_.as<std::byte>() + offset);
  }
  void fill(Step step, const StepRows& rows);

  StepLayout layout_;
  bool by_page_;
  PinnedMemory host_;
  DeviceMemory device_;
  EventOwner copy_event_;
  std::vector<int32_t> positions_, begins_, slots_;
  std::vector<NextRow> next_rows_;
  std::vector<int> tile_counts_;  // one per spec
};

}  // namespace skald::cuda
