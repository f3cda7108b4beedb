// Owners of a CUDA stream and an event: a constructor that throws leaks neither.
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
using EventOwner = Event<cudaEventDisableTiming>;  // orders work, without a time
using TimedEventOwner = Event<cudaEventDefault>;

}  // namespace skald::cuda
