// Captured decode steps, one for each number of rows: the first is run as it is, so that nothing is
// set up during a capture, the second is captured, all later ones are a single launch.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <map>

#include "cuda/kernels/launch.h"

namespace skald::cuda {

class Graphs {
 public:
  // `enqueue` launches the step's kernels on the stream; it is called where there is no graph yet.
  void run(int rows, Stream stream, const std::function<void()>& enqueue);

  // The second half of run(), in two: capture() where there is no graph, then launch().
  bool captured(int rows) const;
  void capture(int rows, Stream stream, const std::function<void()>& enqueue);
  void launch(int rows, Stream stream);

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

  std::map<int, Graph> graphs_;  // by rows
};

}  // namespace skald::cuda
