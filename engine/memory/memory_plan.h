// Adds up the memory that a model needs on a device, before anything is loaded or allocated. A
// backend lists the parts for a given context length. This file chooses the context if the user did
// not ask for one, and refuses what does not fit. It is arithmetic only: the device need not exist.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/quant/cache_type.h"

namespace skald {

// The most memory that skald may use: a number of bytes, a share of the device's memory, or (both
// 0) all of it.
struct MemoryCap {
  int64_t bytes = 0;
  double share = 0;

  int64_t of(int64_t total) const;
};

// The host's memory for matrices that a GPU has no room for. Pinned: page-locked, or the model is
// refused. Auto: page-locked as far as the machine allows. Pageable: ordinary memory. Mapped:
// page-locked, and kernels read the matrices there in every step, without copies.
enum class HostMemoryKind : uint8_t { Auto, Pinned, Pageable, Mapped };

struct MemoryPart {
  std::string_view name;
  int64_t bytes = 0;
  // Pages of a mapped file. When memory is short, the system drops and rereads them: that is slow,
  // but no error.
  bool mapped = false;
  // Lies in the host's memory, not in the device's.
  bool host = false;
};

struct DeviceMemorySize {
  int64_t total = 0, free = 0;
};

struct MemoryPlan {
  // The reason for the context. Asked: the user gave it. Model: it is the model's own. Memory: the
  // model's own does not fit. Short: a longer one would change the rotation of every position
  // (ModelConfig). Weights: a longer one would leave the device less memory for weights.
  enum class ContextBy { Asked, Model, Memory, Short, Weights };

  DeviceMemorySize device;
  int64_t available = 0;  // bytes that may be used: the free bytes, or fewer by a cap
  std::vector<MemoryPart> parts;
  CacheTypes cache_types;
  int64_t context = 0;  // tokens for each sequence
  ContextBy context_by = ContextBy::Asked;
  int64_t model_context = 0;
  // The largest context that fits, up to the model's own or the requested one, whichever is larger;
  // 0: none fits. Mapped weights count as needed, unless they leave no room for any context.
  int64_t most_context = 0;
  int sequences = 1;          // at a time
  bool shared_cache = false;  // they share a cache that may hold fewer tokens than context for each

  // Weights that the device has no room for, in the host's memory.
  HostMemoryKind host_memory = HostMemoryKind::Auto;
  int64_t host_available = 0;  // bytes of the host's memory; 0: not known
  int64_t copied = 0;          // bytes that a step of many rows copies from the host to the device
  int64_t row_copied = 0;      // what a step of one row reads of them
  int64_t unlocked = 0;        // bytes of host() that are not page-locked
  int64_t cached = 0;          // the device's cache of experts, of which the host has all
  // Several devices that compute together exchange numbers through the host's memory.
  bool exchange_on_host = false;
  // Weights whose place the user chose (RunOptions::weight_rules): bytes in the host's memory, and
  // bytes in the device's.
  int64_t host_by_rule = 0, device_by_rule = 0;
  // The part of `copied` that is experts, and the share of them that a row chooses. A step reads
  // the chosen ones alone, unless these are more than most_chosen of all.
  int64_t copied_experts = 0;
  double chosen = 0, most_chosen = 0;
  int64_t rows = 0;  // most rows of a step
  // Bytes per second that come from the host. link: in decode of one text; 0: nothing comes, or not
  // known. copy_link: in steps of many rows.
  double link = 0, copy_link = 0;
  // Bytes of such weights per second with which the CPU computes beside the copies, in steps of up
  // to cpu_rows rows; 0: it does not.
  double cpu = 0;
  int cpu_rows = 0;
  double cpu_share = 0;  // of what a row reads, if the user chose it; 0: both end at the same time

  int64_t needed() const;  // sum of all parts in the device's memory
  int64_t mapped() const;  // sum of the mapped parts, which need not fit
  int64_t host() const;    // sum of the parts in the host's memory
  // Bytes of the host's weights that a step of so many rows reads, if rows choose experts equally
  // often, each by itself.
  int64_t step_bytes(int64_t step_rows) const;
  // The most tokens per second that the link and the CPU allow in steps of `step_rows` rows. 1 is
  // the decode of one sequence, n the decode of n sequences together, `rows` a prompt. 0: not
  // known, or the device has all weights.
  double most_tokens(int64_t step_rows = 1) const;
  // The same for a prompt of `tokens` tokens, in steps of `rows` rows; the last step may have
  // fewer.
  double most_prompt_tokens(int64_t tokens) const;
  bool fits_host() const { return host_available == 0 || host() <= host_available; }
  bool fits() const { return needed() - mapped() <= available && fits_host(); }
};

// a * b for non-negative numbers, limited to 2^59: a model file may claim any context, and sums of
// several parts must not overflow.
inline int64_t bytes_product(int64_t a, int64_t b) {
  constexpr int64_t kMost = int64_t{1} << 59;
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > kMost ? kMost : product;
}

struct PlanRequest {
  int64_t context = 0;  // 0: short_context, else model_context, or less if memory is short
  int64_t model_context = 0;
  int64_t short_context = 0;  // ModelConfig::short_context
  int64_t tokens = 0;         // RunOptions::tokens: a known lower bound on a sequence's length
  int sequences = 1;
  bool shared_cache = false;
  DeviceMemorySize device;
  MemoryCap cap;
  int64_t host_available = 0;  // MemoryPlan::host_available
  // If not 0, a context that is not asked for is at most this, because weights take the rest.
  int64_t context_beside_weights = 0;
  // If the parts of a context fit, those of shorter ones fit too.
  std::function<std::vector<MemoryPart>(int64_t context)> parts;
};

// The bytes of the device that may be used.
int64_t usable_bytes(const DeviceMemorySize& device, const MemoryCap& cap);

MemoryPlan make_plan(const PlanRequest& request);

// Throws Error(Exit::Memory) with the numbers and the largest context that fits. `device` names the
// device in the message: "the GPU". smaller: what to do where weights fit nowhere; empty: a general
// advice.
void check_fits(const MemoryPlan& plan, std::string_view device, std::string_view smaller = "");

}  // namespace skald
