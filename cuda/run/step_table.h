// The lists of one step on both sides: filled in page-locked memory and sent to the GPU in one
// copy. Their places never change, so that captured graphs stay valid.
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
  // by_page: how tiles are cut, as build_attention_tiles() has it.
  StepBuffer(const StepLayout& layout, bool by_page);

  // Throws Error where the step has more sequences than there is room for.
  void check_fits(Step step) const;

  // Sends the admitted rows' lists. With a code that wants tiles, also those of each spec.
  void send(Step step, const StepRows& rows, Stream stream);
  void send_with_tiles(Step step, const StepRows& rows, const std::vector<AttentionSpec>& specs,
                       AttentionCode code, Stream stream);

  // On the device.
  StepTable table() const;
  // For who writes the lists of a step of one row a sequence there: where they lie, and what they
  // are but for the tokens, of rows that were admitted.
  NextStep next() const;
  std::span<const NextRow> next_rows(Step step, const StepRows& rows);
  const int32_t* wanted() const { return list(layout_.wanted); }
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
  EventOwner sent_;
  std::vector<int32_t> positions_;
  std::vector<NextRow> next_rows_;
  std::vector<int> tile_counts_;  // one a spec
};

}  // namespace skald::cuda
