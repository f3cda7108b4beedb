// Quantizes weights: each function writes one block with the least squared error that a search of
// moderate length finds (fit.h). If the weights have importances, the error of each is multiplied
// by its own. The weights must be finite and at most kLargestWeight in magnitude. Other weights
// give a valid block of no meaning. The same weights give the same block on every machine.
#pragma once

#include "engine/quant/formats/iq4_nl.h"
#include "engine/quant/formats/iq4_xs.h"
#include "engine/quant/formats/mxfp4.h"
#include "engine/quant/formats/q2_k.h"
#include "engine/quant/formats/q3_k.h"
#include "engine/quant/formats/q4_0.h"
#include "engine/quant/formats/q4_1.h"
#include "engine/quant/formats/q4_k.h"
#include "engine/quant/formats/q5_0.h"
#include "engine/quant/formats/q5_1.h"
#include "engine/quant/formats/q5_k.h"
#include "engine/quant/formats/q6_k.h"
#include "engine/quant/formats/q8_0.h"
#include "engine/quant/host_weights.h"

namespace skald {

// The largest f16: the bound for every format with f16 scales.
inline constexpr float kLargestWeight = 65504;

// w has Block::kElems weights, and importances of normal size, if any: encode_row() of dtype.cpp
// scales a file's.
void encode(HostWeights w, BlockQ8_0& out);
void encode(HostWeights w, BlockQ4_0& out);
void encode(HostWeights w, BlockQ4_1& out);
void encode(HostWeights w, BlockQ5_0& out);
void encode(HostWeights w, BlockQ5_1& out);
void encode(HostWeights w, BlockQ4_K& out);
void encode(HostWeights w, BlockQ5_K& out);
void encode(HostWeights w, BlockQ6_K& out);
void encode(HostWeights w, BlockQ2_K& out);
void encode(HostWeights w, BlockQ3_K& out);
void encode(HostWeights w, BlockIQ4_NL& out);
void encode(HostWeights w, BlockIQ4_XS& out);
void encode(HostWeights w, BlockMXFP4& out);

}  // namespace skald
