#include "cuda/graphs.h"

#include "cuda/acquire.h"
#include "cuda/check.h"

namespace skald::cuda {
namespace {

cudaGraphExec_t captured_graph(Stream stream, const std::function<void()>& enqueue) {
  cudaGraph_t captured = nullptr;
  SKALD_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream, &captured);
    if (captured) cudaGraphDestroy(captured);
    cudaGetLastError();
    throw;
  }
  SKALD_CUDA(cudaStreamEndCapture(stream, &captured));
  cudaGraphExec_t executable = nullptr;
  try {
    acquire("graph", [&] { return cudaGraphInstantiate(&executable, captured, 0); });
  } catch (...) {
    cudaGraphDestroy(captured);
    throw;
  }
  cudaGraphDestroy(captured);
  return executable;
}

}  // namespace

void Graphs::run(int rows, Stream stream, const std::function<void()>& enqueue) {
  Graph& graph = graphs_[rows];
  if (!graph.warm) {
    enqueue();
    graph.warm = true;
    return;
  }
  if (!graph.executable) capture(rows, stream, enqueue);
  launch(rows, stream);
}

bool Graphs::captured(int rows) const {
  const auto found = graphs_.find(rows);
  return found != graphs_.end() && found->second.executable;
}

void Graphs::capture(int rows, Stream stream, const std::function<void()>& enqueue) {
  graphs_[rows].executable = captured_graph(stream, enqueue);
}

void Graphs::launch(int rows, Stream stream) {
  SKALD_CUDA(cudaGraphLaunch(graphs_.at(rows).executable, stream));
}

}  // namespace skald::cuda
