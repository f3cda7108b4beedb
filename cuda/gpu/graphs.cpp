#include "cuda/gpu/graphs.h"

#include "cuda/gpu/acquire.h"
#include "cuda/gpu/check.h"

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

void Graphs::run(const StepKind& kind, Stream stream, const std::function<void()>& enqueue) {
  Graph& graph = graphs_[kind];
  if (!graph.warm) {
    enqueue();
    graph.warm = true;
    return;
  }
  if (!graph.executable) capture(kind, stream, enqueue);
  launch(kind, stream);
}

bool Graphs::captured(const StepKind& kind) const {
  const auto found = graphs_.find(kind);
  return found != graphs_.end() && found->second.executable;
}

void Graphs::capture(const StepKind& kind, Stream stream, const std::function<void()>& enqueue) {
  graphs_[kind].executable = captured_graph(stream, enqueue);
}

void Graphs::launch(const StepKind& kind, Stream stream) {
  SKALD_CUDA(cudaGraphLaunch(graphs_.at(kind).executable, stream));
}

}  // namespace skald::cuda
