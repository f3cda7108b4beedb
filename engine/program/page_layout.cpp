#include "engine/program/page_layout.h"

#include "engine/base/error.h"
#include "engine/quant/cache_row.h"

namespace skald {
namespace {

void check_heads(CacheType type, int head_dim) {
  if (!has_scales(type) || head_dim % kCacheBlock == 0) return;
  fail(Exit::Usage, "a KV cache of ", name(type), " stores blocks of ", kCacheBlock,
       " numbers, but this model's heads have ", head_dim,
       " dimensions; choose fp8, f16 or another type without blocks (--cache-type-k, "
       "--cache-type-v)");
}

}  // namespace

PageLayout::PageLayout(const Program& program, const CacheTypes& types,
                       const std::vector<bool>& keys_serve) {
  for (size_t i = 0; i < program.kv.size(); ++i) {
    const auto& [kv_heads, head_dim] = program.kv[i];
    const LayerCache layer(types, kv_heads, head_dim);
    const bool has_values = keys_serve.empty() || !keys_serve[i];
    check_heads(types.keys, head_dim);
    if (has_values) check_heads(types.values, head_dim);
    offsets.push_back(bytes);
    bytes += has_values ? layer.bytes() : layer.values_at();
  }
}

}  // namespace skald
