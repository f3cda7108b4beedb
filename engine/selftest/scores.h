// The cases of scoring rows of logits (engine/sampling/score.h): vocabularies of any size, equal
// logits, masked tokens, and rows that contain NaN or infinity.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/sampling/score.h"
#include "engine/selftest/cases.h"

namespace skald::selftest {

struct ScoreCase {
  int64_t vocab;
  int rows;
};
std::vector<ScoreCase> score_cases(Extent extent);
std::string label(const ScoreCase& c);

struct ScoreData {
  std::vector<float> logits, base;      // [rows, vocab]
  std::vector<int32_t> targets;         // [rows]
  std::vector<RowComparison> expected;  // [rows], in double precision
};
ScoreData make_data(const ScoreCase& c, uint64_t seed);

// The error of log-probabilities and entropies that float32 weights explain.
inline constexpr double kScoreBound = 1e-6;

// The largest error of a log-probability or entropy; `problem` names any other fault, or is "".
struct ScoreCheck {
  double error = 0;
  std::string problem;
};
ScoreCheck check_scores(const ScoreData& data, std::span<const RowComparison> found);

}  // namespace skald::selftest
