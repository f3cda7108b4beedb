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

bool Graphs::run(const GraphKey& key, Stream stream, const std::function<void()>& enqueue) {
  Graph& graph = graphs_[key];
  if (!graph.warm) {
    enqueue();
    graph.warm = true;
    return false;
  }
  if (!graph.executable) capture(key, stream, enqueue);
  launch(key, stream);
  return true;
}

bool Graphs::captured(const GraphKey& key) const {
  const auto found = graphs_.find(key);
  return found != graphs_.end() && found->second.executable;
}

void Graphs::capture(const GraphKey& key, Stream stream, const std::function<void()>& enqueue) {
  graphs_[key].executable = captured_graph(stream, enqueue);
}

void Graphs::launch(const GraphKey& key, Stream stream) {
  SKALD_CUDA(cudaGraphLaunch(graphs_.at(key).executable, stream));
}

}  // namespace skald::cuda
