// The exchange of ranks whose GPUs are in one machine: each rank has mail that the others write to.
// Where GPUs reach each other's memory (NVLink, or PCIe if the machine allows it), the mail lies
// there. Otherwise it lies in page-locked memory of the host, which all GPUs reach.
#pragma once

#include <memory>
#include <vector>

#include "cuda/gpu/memory.h"
#include "cuda/kernels/exchange/mail.h"
#include "engine/step/exchange.h"

namespace skald::cuda {

class PeerExchange final : public Exchange {
 public:
  // devices: the GPU of each rank; tests may name one twice. through_host: the mail lies in the
  // host's memory, even where GPUs reach each other's memory.
  explicit PeerExchange(std::vector<int> devices, bool through_host = false);

  // Allocates the rank's mail. Called once on each rank's thread, with its GPU as current device.
  void join(int rank);
  // The addresses of all ranks' mail, for the kernels of `rank`. Call it once every rank has
  // joined.
  MailLinks links(int rank) const;

  bool through_host() const { return through_host_; }

  // Called when a rank fails: ends the waits of all other ranks' kernels, the first within some
  // 50 ms.
  void abort() noexcept override;
  void reset() override;

 private:
  struct Mail {
    DeviceMemory blocks, flags, few, sent;
    PinnedMemory host_blocks, host_flags, host_few;  // through_host_
  };

  void clear(int rank);  // sets the rank's flags and counters to 0, on its GPU

  std::vector<int> devices_;
  bool through_host_;
  std::vector<Mail> mail_;
  PinnedMemory aborted_;
};

}  // namespace skald::cuda
