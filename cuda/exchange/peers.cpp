#include "cuda/exchange/peers.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "cuda/gpu/check.h"
#include "cuda/kernels/exchange/all_gather.h"
#include "cuda/kernels/exchange/all_reduce.h"
#include "engine/base/error.h"

namespace skald::cuda {
namespace {

bool reach_each_other(const std::vector<int>& devices) {
  for (const int from : devices) {
    for (const int to : devices) {
      int can = 0;
      if (from != to) SKALD_CUDA(cudaDeviceCanAccessPeer(&can, from, to));
      if (from != to && !can) return false;
    }
  }
  return true;
}

void enable_access(int to) {
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();  // which the call has set
    return;
  }
  SKALD_CUDA(status);
}

int64_t blocks_bytes(int ranks) { return MailLayout::floats(ranks) * int64_t{sizeof(float)}; }
int64_t flags_bytes(int ranks) { return MailLayout::flags(ranks) * int64_t{sizeof(uint32_t)}; }
constexpr int64_t kOwnBytes = MailLayout::kOwn * int64_t{sizeof(uint32_t)};

}  // namespace

PeerExchange::PeerExchange(std::vector<int> devices, bool through_host)
    : devices_(std::move(devices)),
      through_host_(through_host || !reach_each_other(devices_)),
      mail_(devices_.size()),
      aborted_(sizeof(uint32_t), "the exchange between GPUs") {
  check(devices_.size() <= kMostPeers, "a group of GPUs in one machine");
  *aborted_.as<uint32_t>() = 0;
}

void PeerExchange::join(int rank) {
  const char* purpose = "the exchange between GPUs";
  const int ranks = static_cast<int>(devices_.size());
  Mail& mail = mail_[static_cast<size_t>(rank)];
  mail.sent = DeviceMemory(kOwnBytes, purpose);
  if (through_host_) {
    mail.host_blocks = PinnedMemory(blocks_bytes(ranks), purpose);
    mail.host_flags = PinnedMemory(flags_bytes(ranks), purpose);
    mail.host_few = PinnedMemory(MailLayout::few_bytes(ranks), purpose);
  } else {
    const int own = devices_[static_cast<size_t>(rank)];
    for (const int other : devices_) {
      if (other != own) enable_access(other);
    }
    mail.blocks = DeviceMemory(blocks_bytes(ranks), purpose);
    mail.flags = DeviceMemory(flags_bytes(ranks), purpose);
    mail.few = DeviceMemory(MailLayout::few_bytes(ranks), purpose);
  }
  clear(rank);
  load_all_reduce();
  load_all_gather();
  SKALD_CUDA(cudaDeviceSynchronize());
}

void PeerExchange::clear(int rank) {
  const int ranks = static_cast<int>(devices_.size());
  const MailLinks all = links(rank);
  const auto zero = [](void* memory, int64_t bytes) {
    if (memory) cudaMemset(memory, 0, static_cast<size_t>(bytes));
  };
  zero(all.sent, kOwnBytes);
  zero(all.flags[rank], flags_bytes(ranks));
  zero(all.few[rank], MailLayout::few_bytes(ranks));
}

MailLinks PeerExchange::links(int rank) const {
  MailLinks links = {};
  for (size_t r = 0; r < mail_.size(); ++r) {
    const Mail& mail = mail_[r];
    links.blocks[r] = through_host_ ? mail.host_blocks.as<float>() : mail.blocks.as<float>();
    links.flags[r] = through_host_ ? mail.host_flags.as<uint32_t>() : mail.flags.as<uint32_t>();
    links.few[r] = through_host_ ? mail.host_few.as<MailPair>() : mail.few.as<MailPair>();
  }
  links.sent = mail_[static_cast<size_t>(rank)].sent.as<uint32_t>();
  links.aborted = aborted_.as<uint32_t>();
  links.ended = links.sent + MailLayout::kSent;
  links.rank = rank;
  links.ranks = static_cast<int>(devices_.size());
  return links;
}

void PeerExchange::abort() noexcept {
  std::atomic_ref(*aborted_.as<uint32_t>()).store(1, std::memory_order_release);
}

// Errors of a broken GPU are left to the next step, which reports them.
void PeerExchange::reset() {
  for (const int device : devices_) {
    cudaSetDevice(device);
    cudaDeviceSynchronize();
  }
  for (size_t rank = 0; rank < mail_.size(); ++rank) {
    cudaSetDevice(devices_[rank]);
    clear(static_cast<int>(rank));
    cudaDeviceSynchronize();
  }
  cudaSetDevice(devices_.front());
  cudaGetLastError();
  std::atomic_ref(*aborted_.as<uint32_t>()).store(0, std::memory_order_release);
}

}  // namespace skald::cuda
