// What skald inspect prints of a LoRA adapter.
#pragma once

#include <string>

#include "models/adapters/lora_file.h"

namespace skald {

// tensors: also lists every matrix that the adapter changes.
std::string adapter_text(const LoraFile& file, bool tensors);
std::string adapter_json(const LoraFile& file);

}  // namespace skald
