// Adapters (LoRA): low-rank changes of a model's matrices, W + up · down. A Program with adapters
// keeps its products as they are, in any format, and adds the changes to their results in an op of
// their own (Delta). Each sequence of a step has an adapter, so one step may mix several.
//
// The Program alone decides where changes are added; families need no code for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/program/program.h"

namespace skald {

// The change of one matrix.
struct AdapterMatrix {
  std::string tensor;  // the matrix, by its name in the WeightFile: "blk.0.attn_q.weight"
  int64_t rank = 0;
  std::vector<float> down;  // [rank, columns of the matrix]
  std::vector<float> up;    // [rows of the matrix, rank], multiplied by the adapter's scale
  std::string file;         // for messages
};

struct Adapter {
  std::string name;  // "" for the one that sequences have if nobody chooses another
  std::vector<AdapterMatrix> matrices;

  int64_t bytes() const;
};

// Sequence::adapter() is an index of this list. The first one is what sequences have if nobody
// chooses another; it may change nothing.
using Adapters = std::vector<Adapter>;

int64_t bytes_of(const Adapters& adapters);

// Adds a Delta behind each product whose matrix an adapter changes. Products of one buffer that
// follow one another stay together, and their Deltas follow the last one. The program owns a share
// of the adapters. Throws Error(Exit::Model) for a matrix that the program does not have, that has
// another shape, or that no adapter can change: an embedding, the head, experts, routers.
Program add_adapters(Program program, std::shared_ptr<const Adapters> adapters);

}  // namespace skald
