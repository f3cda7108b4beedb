// The arguments of Gemma 4's calls: {city:<|"|>Oslo<|"|>,days:[1,2],deep:{on:true}}. Names have no
// quotes, texts stand between <|"|>.
#pragma once

#include <optional>

#include "app/files/json.h"
#include "app/tools/cursor.h"

namespace skald {

// Reads NAME:VALUE,… up to the closing }, which it does not consume. nullopt: the text is broken.
std::optional<Json> read_gemma_arguments(CallCursor& cursor);

}  // namespace skald
