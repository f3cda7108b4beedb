// Calls of CUDA that fail once, wherever they are made while a model is loaded and a text computed:
// an Error in one line or the right text, nothing leaked, and the next attempt works. A lack of
// memory is tested by memory_gpu_test.cpp. The linker puts these functions in place of CUDA's
// (--wrap in tests/CMakeLists.txt).
#include <cuda_runtime_api.h>

#include <cstdio>

#include "cuda/cuda.h"
#include "engine/schedule/session.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/golden.h"

namespace skald::test {
namespace {

// Calls by the test's thread, from 1; 0: none is counted.
struct FailingCall {
  long count = 0, at = 0;
  bool counts = false;
};
thread_local FailingCall failing_call;

bool call_fails() {
  FailingCall& call = failing_call;
  return call.counts && ++call.count == call.at;
}

// While it lives, the calls of this thread are counted, and one of them fails.
class CountedCalls {
 public:
  explicit CountedCalls(long at) { failing_call = {0, at, true}; }
  ~CountedCalls() { failing_call = {}; }
  CountedCalls(const CountedCalls&) = delete;
  CountedCalls& operator=(const CountedCalls&) = delete;
  long count() const { return failing_call.count; }
};

}  // namespace
}  // namespace skald::test

// A call that fails is not made, except one that waits: what runs on the GPU would be lost sight
// of.
#define SKALD_FAILING_CALL(name, parameters, arguments)           \
  extern "C" cudaError_t __real_##name parameters;                \
  extern "C" cudaError_t __wrap_##name parameters {               \
    if (skald::test::call_fails()) return cudaErrorLaunchFailure; \
    return __real_##name arguments;                               \
  }
#define SKALD_FAILING_WAIT(name, parameters, arguments)                 \
  extern "C" cudaError_t __real_##name parameters;                      \
  extern "C" cudaError_t __wrap_##name parameters {                     \
    const cudaError_t status = __real_##name arguments;                 \
    return skald::test::call_fails() ? cudaErrorLaunchFailure : status; \
  }

SKALD_FAILING_CALL(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
SKALD_FAILING_CALL(cudaFuncGetAttributes, (cudaFuncAttributes * to, const void* code), (to, code))
SKALD_FAILING_CALL(cudaFuncSetAttribute, (const void* code, cudaFuncAttribute which, int value),
                   (code, which, value))
SKALD_FAILING_CALL(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t stream), (graph, stream))
SKALD_FAILING_CALL(cudaLaunchKernelExC,
                   (const cudaLaunchConfig_t* config, const void* code, void** arguments),
                   (config, code, arguments))
SKALD_FAILING_CALL(cudaMemcpy, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
                   (to, from, bytes, kind))
SKALD_FAILING_CALL(cudaMemcpyAsync,
                   (void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                    cudaStream_t stream),
                   (to, from, bytes, kind, stream))
SKALD_FAILING_CALL(cudaMemset, (void* to, int value, size_t bytes), (to, value, bytes))
SKALD_FAILING_CALL(cudaMemsetAsync, (void* to, int value, size_t bytes, cudaStream_t stream),
                   (to, value, bytes, stream))
SKALD_FAILING_CALL(cudaSetDevice, (int device), (device))
SKALD_FAILING_CALL(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
                   (stream, mode))
SKALD_FAILING_CALL(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                   (stream, event, flags))
SKALD_FAILING_WAIT(cudaDeviceSynchronize, (), ())
SKALD_FAILING_WAIT(cudaEventSynchronize, (cudaEvent_t event), (event))
SKALD_FAILING_WAIT(cudaStreamSynchronize, (cudaStream_t stream), (stream))
#undef SKALD_FAILING_CALL
#undef SKALD_FAILING_WAIT

// The capture ends where this call fails, too.
extern "C" cudaError_t __real_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
extern "C" cudaError_t __wrap_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const cudaError_t status = __real_cudaStreamEndCapture(stream, graph);
  if (!skald::test::call_fails()) return status;
  if (*graph) cudaGraphDestroy(*graph);
  *graph = nullptr;
  return cudaErrorStreamCaptureInvalidated;
}

namespace skald::test {
namespace {

RunOptions options_of_calls() {
  RunOptions options;
  options.context = 64;
  return options;
}

// A prompt and enough tokens that a decode step is run, captured, and launched as a graph.
std::vector<int32_t> loaded_text(const Model& model) {
  const auto executor = cuda::make_executor(model, options_of_calls(), 0);
  Session session(*executor, SamplingParams{.temperature = 0});
  session.feed(std::vector<int32_t>{1, 5, 9, 12, 3, 7, 20, 33, 4});
  std::vector<int32_t> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(session.next().token);
  return ids;
}

TEST_CASE("a call of CUDA that fails at any moment is an error or changes nothing", "[alone]") {
  constexpr long kPoints = 20;  // of some thousand calls; each loads the model once more
  const OpenedModel opened = GENERATE(true, false)
                                 ? open_model(find_golden("llama3-gqa-tied-ropescale"))
                                 : open_model(find_gguf("kq256.q4_k_m.gguf"));
  const std::vector<int32_t> expected = loaded_text(opened.model);
  CHECK(loaded_text(opened.model) == expected);
  const int64_t before = cuda::list_devices().devices.at(0).free_bytes;
  const long calls = [&] {
    const CountedCalls counted(0);
    loaded_text(opened.model);
    return counted.count();
  }();
  CHECK(calls > 20);
  long errors = 0, points = 0;
  for (long at = 1; at <= calls; at += std::max(1L, calls / kPoints), ++points) {
    CAPTURE(at, calls);
    std::vector<int32_t> text = expected;
    try {
      const CountedCalls counted(at);
      text = loaded_text(opened.model);
    } catch (const Error& error) {
      ++errors;
      CAPTURE(error.what());
      CHECK((error.code() == Exit::Failed || error.code() == Exit::Memory));
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
    }
    CHECK(text == expected);
    REQUIRE(cuda::list_devices().devices.at(0).free_bytes == before);
  }
  CHECK(errors > points / 2);
  std::printf("%ld of %ld calls failed one after the other, %ld with an error\n", points, calls,
              errors);
  CHECK(loaded_text(opened.model) == expected);
}

}  // namespace
}  // namespace skald::test
