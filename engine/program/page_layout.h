// Where the layers' keys and values lie in a page of the KV cache.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/memory/cache_layout.h"
#include "engine/program/program.h"

namespace skald {

struct PageLayout {
  // keys_serve[layer]: the layer's keys serve as values too, so that it has no values; empty: no
  // layer's do. Throws Error(Exit::Usage) if a type does not take a layer's heads.
  PageLayout(const Program& program, const CacheTypes& types,
             const std::vector<bool>& keys_serve = {});

  int64_t bytes = 0;             // of a page
  std::vector<int64_t> offsets;  // of each layer's LayerCache in a page
};

}  // namespace skald
