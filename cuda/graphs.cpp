#include "cuda/graphs.h"

#include "cuda/acquire.h"
#include "cuda/check.h"

namespace skald::cuda {
namespace {

cudaGraphExec_t capture(Stream stream, const std::function<void()>& enqueue) {
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
  if (!graph.executable) graph.executable = capture(stream, enqueue);
  SKALD_CUDA(cudaGraphLaunch(graph.executable, stream));
}

}  // namespace skald::cuda
