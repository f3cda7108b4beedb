// What a model takes of a device's memory, added up before anything is loaded or allocated. A
// backend names the parts that a context needs; here the context is chosen where nobody asked for
// one, and what does not fit is refused. Arithmetic alone: the device need not be there.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace skald {

// The most that may be taken: bytes, or a share of the device's memory, or (both 0) all of it.
struct MemoryCap {
  int64_t bytes = 0;
  double share = 0;

  int64_t of(int64_t total) const;
};

struct MemoryPart {
  std::string_view name;
  int64_t bytes = 0;
  // Pages of a file, which the system drops and reads again where memory is short: slow, but not an
  // error.
  bool mapped = false;
};

struct DeviceMemorySize {
  int64_t total = 0, free = 0;
};

struct MemoryPlan {
  // Memory: the model's own does not fit. Short: a longer one would rotate all positions otherwise.
  enum class ContextBy { Asked, Model, Memory, Short };

  DeviceMemorySize device;
  int64_t available = 0;  // may be taken: what is free, or less by a cap
  std::vector<MemoryPart> parts;
  int64_t context = 0;  // tokens of each sequence
  ContextBy context_by = ContextBy::Asked;
  int64_t model_context = 0;
  // The largest that fits, up to the model's own or what was asked for; 0: none. Beside the mapped
  // weights, unless these alone are too much.
  int64_t most_context = 0;
  int sequences = 1;

  int64_t needed() const;  // all parts
  int64_t mapped() const;  // of them, those that need not fit
  bool fits() const { return needed() - mapped() <= available; }
};

// a * b of what is not negative, or the most that parts are counted up to: a model's file may name
// any context.
inline int64_t bytes_product(int64_t a, int64_t b) {
  constexpr int64_t kMost = int64_t{1} << 59;
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > kMost ? kMost : product;
}

struct PlanRequest {
  int64_t context = 0;  // 0: the short one or else the model's own, or what fits
  int64_t model_context = 0;
  int64_t short_context = 0;  // ModelConfig's
  int64_t tokens = 0;         // that will be there, where that is known: RunOptions'
  int sequences = 1;
  DeviceMemorySize device;
  MemoryCap cap;
  std::function<std::vector<MemoryPart>(int64_t context)> parts;  // none shrinks as context grows
};

MemoryPlan make_plan(const PlanRequest& request);

// Throws Error(Exit::Memory) with the numbers and the largest context that fits. `device` is for
// the message: "the GPU".
void check_fits(const MemoryPlan& plan, std::string_view device);

}  // namespace skald
