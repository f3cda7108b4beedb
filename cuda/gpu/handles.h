// Owners of a CUDA stream and event, so that a constructor that throws leaves nothing behind.
#pragma once

#include "cuda/gpu/acquire.h"

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

template <unsigned kFlags>
class Event {
 public:
  Event() {
    acquire("event", [&] { return cudaEventCreateWithFlags(&event_, kFlags); });
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};
using EventOwner = Event<cudaEventDisableTiming>;  // for ordering alone
using TimedEventOwner = Event<cudaEventDefault>;

}  // namespace skald::cuda
