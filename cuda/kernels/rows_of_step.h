// The lists of a step in device memory, as kernels read them.
#pragma once

#include <cstdint>

namespace skald::cuda {

// The rows of one step. Arrays have room for the most rows and sequences of the executor.
struct StepTable {
  const int32_t* tokens;      // [rows]
  const int32_t* positions;   // [rows] in their sequences
  const int32_t* sequences;   // [rows] index into page_table; a sequence's rows are adjacent
  const int32_t* page_table;  // [sequences, pages_per_sequence] page numbers
  int pages_per_sequence;
  const int32_t* begins = nullptr;  // [sequences + 1] first row of each, then the number of rows
  const int32_t* slots = nullptr;   // [sequences] where the recurrent state lies; -1: none
};

}  // namespace skald::cuda
