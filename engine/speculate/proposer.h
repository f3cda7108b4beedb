// Guesses the next tokens of a sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace skald {

// kind: guesses of one kind are about equally often right. Kinds count from 0.
struct Proposal {
  std::vector<int32_t> tokens;  // empty: no guess
  int kind = 0;
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  virtual int kinds() const = 0;
  // At most `most` guesses of what follows `tokens`. Calls for one sequence follow one another: a
  // proposer may keep what it has seen, and must notice tokens that were taken back.
  virtual Proposal propose(std::span<const int32_t> tokens, int most) = 0;
};

}  // namespace skald
