// Quantizes a model while it is loaded, with the same mixes as skald quantize. Norms and biases
// keep their precision.
#pragma once

#include "engine/program/model.h"
#include "models/convert/quant_mix.h"

namespace skald {

// Describes the quantized model. Takes no memory and reads no weights: the backend that loads them,
// or made_model(), makes them from Tensor::source. Weights that are only described
// are described anew. Throws Error(Exit::Usage) if weights are already quantized.
Model quantized_model(const Model& model, const QuantMix& mix);

// Makes all described weights in memory, as the CPU needs them. Returns the model itself if no
// weight must be made. Throws Error(Exit::Memory) if the weights do not fit in memory,
// Error(Exit::Model) if the format cannot hold a weight.
Model made_model(const Model& model, const MakeOptions& options);

}  // namespace skald
