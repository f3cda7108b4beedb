// Self-test of the sums by which rows of logits are scored and compared.
#include "engine/selftest/scores.h"

#include "cuda/run/scorer.h"
#include "cuda/selftest/run.h"

namespace skald::cuda {

void test_scores(const selftest::ScoreCase& c, const selftest::ScoreData& data, const TestGpu& test,
                 TestBuffers& buffers, selftest::Report& report) {
  buffers.reset();
  const auto* logits = reinterpret_cast<float*>(buffers.holding(data.logits).data);
  const auto* base_logits = reinterpret_cast<float*>(buffers.holding(data.base).data);
  DeviceScorer scorer(c.vocab, c.rows), base(c.vocab, c.rows);
  scorer.begin(data.targets, test.stream);
  base.begin(data.targets, test.stream);
  // Scores half of the rows in place and half gathered.
  const int half = c.rows / 2;
  for (const auto& [gathered, first, count] :
       {std::tuple(false, 0, half), std::tuple(true, half, c.rows - half)}) {
    const int64_t skipped = gathered ? first * c.vocab : 0;
    const DeviceScorer::Part part = {logits + skipped, gathered, first, count};
    scorer.score(part, test.stream);
    base.score({base_logits + skipped, gathered, first, count}, test.stream);
    scorer.compare(part, base, base_logits + skipped, test.stream);
  }
  const selftest::ScoreCheck result = check_scores(data, scorer.comparisons(base, test.stream));
  report.add(selftest::Sort::Score, c,
             {"score", DType::F32, result.error, selftest::kScoreBound, true, result.problem});
}

}  // namespace skald::cuda
