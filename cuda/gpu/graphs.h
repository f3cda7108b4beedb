// Captured decode steps, one for each kind. The first step of a kind is launched kernel by kernel,
// so that nothing is set up during a capture. The second is captured. Later ones are one launch.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <functional>
#include <map>

#include "cuda/gpu/stream.h"

namespace skald::cuda {

// Steps with the same key have the same launches.
struct GraphKey {
  int rows;
  int depth;            // decode_depth() of the deepest row
  bool greedy = false;  // for steps that begin by picking their tokens: DeviceSampler::all_greedy()
  bool several = false;  // sequences may have several rows
  auto operator<=>(const GraphKey&) const = default;
};

class Graphs {
 public:
  // `enqueue` launches the step's kernels on the stream. It is called if there is no graph yet.
  // Returns true if a graph was launched, false if the kernels were.
  bool run(const GraphKey& key, Stream stream, const std::function<void()>& enqueue);

  // The same in two calls, for callers that capture a graph without running its kernels first: call
  // capture() if captured() is false, then launch().
  bool captured(const GraphKey& key) const;
  void capture(const GraphKey& key, Stream stream, const std::function<void()>& enqueue);
  void launch(const GraphKey& key, Stream stream);

 private:
  struct Graph {
    cudaGraphExec_t executable = nullptr;
    bool warm = false;

    Graph() = default;
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    ~Graph() {
      if (executable) cudaGraphExecDestroy(executable);
    }
  };

  std::map<GraphKey, Graph> graphs_;
};

}  // namespace skald::cuda
