// Quantizes weights: each function writes one block with the least squared error that a search of
// moderate length finds (fit.h). The weights must be finite and at most kLargestWeight in
// magnitude. Other weights give a valid block of no meaning. The same weights give the same block
// on every machine.
#pragma once

#include "engine/quant/formats/iq4_nl.h"
#include "engine/quant/formats/iq4_xs.h"
#include "engine/quant/formats/mxfp4.h"
#include "engine/quant/formats/q3_k.h"
#include "engine/quant/formats/q4_0.h"
#include "engine/quant/formats/q4_1.h"
#include "engine/quant/formats/q4_k.h"
#include "engine/quant/formats/q5_0.h"
#include "engine/quant/formats/q5_1.h"
#include "engine/quant/formats/q5_k.h"
#include "engine/quant/formats/q6_k.h"
#include "engine/quant/formats/q8_0.h"

namespace skald {

// The largest f16: the bound for every format with f16 scales.
inline constexpr float kLargestWeight = 65504;

// w has Block::kElems weights.
void encode(const float* w, BlockQ8_0& out);
void encode(const float* w, BlockQ4_0& out);
void encode(const float* w, BlockQ4_1& out);
void encode(const float* w, BlockQ5_0& out);
void encode(const float* w, BlockQ5_1& out);
void encode(const float* w, BlockQ4_K& out);
void encode(const float* w, BlockQ5_K& out);
void encode(const float* w, BlockQ6_K& out);
void encode(const float* w, BlockQ3_K& out);
void encode(const float* w, BlockIQ4_NL& out);
void encode(const float* w, BlockIQ4_XS& out);
void encode(const float* w, BlockMXFP4& out);

}  // namespace skald
