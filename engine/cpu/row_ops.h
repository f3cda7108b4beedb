// The ops that work on each row by itself: norms, products, activations, sums, experts. They read
// and write float32 buffers, one for each buffer of the program. The CPU backend adds what depends
// on positions and sequences; a GPU lets these ops run here if their weights lie in the host's
// memory.
#pragma once

#include <type_traits>
#include <vector>

#include "engine/base/buffer.h"
#include "engine/cpu/kernels.h"

namespace skald::cpu {

template <class O>
inline constexpr bool kIsRowOp =
    std::is_same_v<O, Norm> || std::is_same_v<O, HeadNorm> || std::is_same_v<O, Linear> ||
    std::is_same_v<O, HeadPart> || std::is_same_v<O, GatedAct> || std::is_same_v<O, Activate> ||
    std::is_same_v<O, RowGate> || std::is_same_v<O, Experts> || std::is_same_v<O, Add>;

class RowOps {
 public:
  // Borrows all arguments. A step has at most `most_rows` rows. observer: sees the inputs of
  // products; nullptr: there is none.
  RowOps(const Program& program, Kernels& kernels, int64_t most_rows,
         ProductObserver* observer = nullptr);

  float* data(ActId id) { return acts_[static_cast<size_t>(id)].as<float>(); }
  // A norm's weights, a bias or a convolution, in float32; nullptr for None.
  const float* vector(WeightId id) const {
    return id == WeightId::None ? nullptr : vectors_[static_cast<size_t>(id)].data();
  }
  int64_t bytes() const;  // the size of the buffers

  void run(const Norm& op, int64_t rows);
  void run(const HeadNorm& op, int64_t rows);
  void run(const Linear& op, int64_t rows);
  void run(const HeadPart& op, int64_t rows);
  void run(const GatedAct& op, int64_t rows);
  void run(const Activate& op, int64_t rows);
  void run(const RowGate& op, int64_t rows);
  // The chosen experts, if they are already known; null pointers: the op's router chooses.
  struct Choice {
    const int32_t* chosen = nullptr;  // ExpertsArgs::chosen
    const float* weights = nullptr;
  };
  void run(const Experts& op, int64_t rows) { run(op, rows, {}); }
  void run(const Experts& op, int64_t rows, const Choice& choice);
  void run(const Add& op, int64_t rows);

 private:
  void run_heads(const Linear& op, int64_t rows);
  void decode_vectors();
  int64_t cols(ActId id) const { return program_.act(id).cols; }

  const Program& program_;
  Kernels& kernels_;
  int64_t most_rows_;
  ProductObserver* observer_;
  std::vector<Buffer> acts_;                 // one for each ActSpec, [most_rows, cols]
  std::vector<std::vector<float>> vectors_;  // one for each weight; empty for matrices
  std::vector<float> head_in_, head_out_;    // one head of a product with several
};

}  // namespace skald::cpu
