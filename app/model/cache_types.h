// The types of the KV cache: --cache-type-k and --cache-type-v, and how reports name them.
#pragma once

#include <string>

#include "app/files/json_fwd.h"
#include "engine/step/backend.h"

namespace skald {

class Command;

// "q8_0". Throws Error(Exit::Usage), whose message begins with the flag.
CacheType parse_cache_type(const std::string& text, const std::string& flag);

void add_cache_type_flags(Command& command, CacheTypeRequest& types);

std::string flag_word(CacheType type);  // "q8_0"

// Adds "cache_type_k" and "cache_type_v".
void add_cache_types(const CacheTypes& types, Json& report);
// The same for the settings that a resumed run must share. A type that nobody asked for is left
// out, so that files of earlier versions can still be continued.
void add_cache_types(const CacheTypeRequest& types, Json& settings);

}  // namespace skald
