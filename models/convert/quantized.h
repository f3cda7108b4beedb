// A model in another format in memory: made of 16-bit weights while loading, by the same mixes as
// files of that name. Norms and biases stay where they are.
#pragma once

#include "engine/program/model.h"
#include "models/convert/quant_mix.h"

namespace skald {

// Takes no memory and reads no weights: they are described (Tensor::source), and made by the
// backend that loads them, or by made_model(). Throws Error(Exit::Usage) for weights that are not
// floats.
Model quantized_model(const Model& model, const QuantMix& mix);

// With all its weights there, as the CPU needs it; where they are, the model itself. Throws
// Error(Exit::Memory) where they do not fit in this machine, Error(Exit::Model) for weights that a
// format cannot hold.
Model made_model(const Model& model, const MakeOptions& options);

}  // namespace skald
