#include "engine/backend.h"

#include "engine/error.h"

namespace skald {

std::vector<Picked> Executor::pick(std::span<const PickRequest> requests) {
  std::vector<Picked> picked;
  picked.reserve(requests.size());
  for (size_t row = 0; row < requests.size(); ++row) {
    picked.push_back(sampler_.pick(logits(static_cast<int64_t>(row)), *requests[row].params,
                                   requests[row].context));
  }
  return picked;
}

}  // namespace skald
