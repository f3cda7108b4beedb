// Owners of a CUDA stream and event, so that a constructor that throws leaves nothing behind.
#pragma once

#include "cuda/acquire.h"

namespace skald::cuda {

class StreamOwner {
 public:
  StreamOwner() {
    acquire("stream", [&] { return cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); });
  }
  ~StreamOwner() { cudaStreamDestroy(stream_); }
  StreamOwner(const StreamOwner&) = delete;
  StreamOwner& operator=(const StreamOwner&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// For ordering alone: it measures no time.
class EventOwner {
 public:
  EventOwner() {
    acquire("event", [&] { return cudaEventCreateWithFlags(&event_, cudaEventDisableTiming); });
  }
  ~EventOwner() { cudaEventDestroy(event_); }
  EventOwner(const EventOwner&) = delete;
  EventOwner& operator=(const EventOwner&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace skald::cuda
