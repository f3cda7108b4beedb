// Jobs on the GPUs of a group without a model: what tests and measures the exchange.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda/exchange/peers.h"
#include "cuda/gpu/check.h"
#include "cuda/gpu/handles.h"
#include "cuda/gpu/stream.h"

namespace skald::cuda {

class PeerThreads {
 public:
  explicit PeerThreads(const std::vector<int>& devices, bool through_host = false)
      : devices_(devices), exchange_(devices, through_host) {
    on_each([this](int rank) { exchange_.join(rank); });
  }

  int ranks() const { return static_cast<int>(devices_.size()); }
  const PeerExchange& exchange() const { return exchange_; }

  // Calls job(rank, mail, stream) on a thread for each rank, with its GPU as current device, and
  // returns when all have finished. The first error ends the waits of all, and is thrown here.
  template <class Job>
  void run(const Job& job) {
    on_each([&](int rank) {
      const StreamOwner stream;
      job(rank, exchange_.links(rank), static_cast<Stream>(stream));
      SKALD_CUDA(cudaStreamSynchronize(stream));
    });
  }

 private:
  void on_each(const std::function<void(int rank)>& job) {
    std::mutex mutex;
    std::exception_ptr error;
    std::vector<std::thread> threads;
    threads.reserve(devices_.size());
    for (int rank = 0; rank < ranks(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          SKALD_CUDA(cudaSetDevice(devices_[static_cast<size_t>(rank)]));
          job(rank);
        } catch (...) {
          const std::lock_guard lock(mutex);
          if (!error) error = std::current_exception();
          exchange_.abort();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (error) std::rethrow_exception(error);
  }

  std::vector<int> devices_;
  PeerExchange exchange_;
};

}  // namespace skald::cuda
