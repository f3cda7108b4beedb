// Checks how decode attention of wide heads is divided, and that the workspace holds what the runs
// leave. Needs no GPU.
#include <algorithm>

#include "cuda/kernels/attention/attention_split.h"
#include "tests/catch.h"

namespace skald::test {

TEST_CASE("the workspace of wide heads holds the runs of every smaller step") {
  constexpr int kMultiprocessors = 132, kMostRows = 64;
  AttentionSpec latents{20, 1, 576, 0.1f};
  latents.keys_serve = true;
  const AttentionSpec large{32, 4, 512, 0.1f};
  AttentionSpec windowed{16, 2, 320, 0.1f};
  windowed.window = 1000;
  for (const AttentionSpec& spec : {latents, large, windowed}) {
    REQUIRE(cuda::wide_takes(spec));
    for (const int64_t tokens : {1, 2000, 20000, 200000}) {
      const int depth = cuda::decode_depth(tokens);
      const int64_t floats =
          cuda::attention_workspace_floats(kMostRows, spec, depth, kMultiprocessors);
      for (int rows = 1; rows <= kMostRows; ++rows) {
        CAPTURE(spec.head_dim, tokens, rows);
        const cuda::WideSplit split = cuda::wide_split(rows, spec, depth, kMultiprocessors, false);
        REQUIRE((split.runs >= 1 && split.runs <= cuda::kMostWideRuns && split.cluster == 1));
        // A sum for each dimension, a maximum and a total of weights for each head.
        REQUIRE((split.runs == 1 ||
                 floats >= int64_t{rows} * spec.heads * split.runs * (spec.head_dim + 2)));
      }
    }
  }
}

TEST_CASE("few runs of wide heads are one cluster, whose size is a power of two") {
  AttentionSpec spec{20, 1, 576, 0.1f};
  spec.keys_serve = true;
  for (int rows = 1; rows <= 200; ++rows) {
    for (const int64_t tokens : {1, 5000, 100000}) {
      CAPTURE(rows, tokens);
      const int depth = cuda::decode_depth(tokens);
      const int runs = cuda::wide_split(rows, spec, depth, 132, false).runs;
      const cuda::WideSplit split = cuda::wide_split(rows, spec, depth, 132, true);
      REQUIRE(split.runs <= runs);
      REQUIRE((split.cluster == 1 || split.cluster == split.runs));
      REQUIRE((split.cluster & (split.cluster - 1)) == 0);
      REQUIRE(split.cluster <= cuda::kMaxCluster);
      if (runs <= cuda::kMaxCluster) REQUIRE(2 * split.runs > runs);
    }
  }
  // Short contexts of one sequence, and a row for each multiprocessor.
  CHECK(cuda::wide_split(1, spec, cuda::decode_depth(10), 132, true).cluster == 8);
  CHECK(cuda::wide_split(132, spec, cuda::decode_depth(10), 132, true).runs == 1);
}

}  // namespace skald::test
