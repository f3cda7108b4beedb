// The encoders of encode.h for formats whose blocks hold entries of a grid.
#pragma once

#include "engine/quant/formats/iq2_s.h"
#include "engine/quant/formats/iq3_s.h"
#include "engine/quant/host_weights.h"

namespace skald {

void encode(HostWeights w, BlockIQ3_S& out);
void encode(HostWeights w, BlockIQ2_S& out);

}  // namespace skald
