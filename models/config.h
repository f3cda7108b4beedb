// The part of a configuration that all Llama-like families spell alike, read from either file kind.
// A family's own file starts from here and adds what it alone has.
#pragma once

#include <string_view>

#include "engine/model.h"

namespace skald {

class HfConfig;
class GgufFile;

ModelConfig read_common_hf(const HfConfig& config);
ModelConfig read_common_gguf(const GgufFile& file);  // keys "<general.architecture>.*"

}  // namespace skald
