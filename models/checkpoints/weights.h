// The weights of a quantized checkpoint. Its safetensors hold each quantized matrix as several
// parts; quantized_weights() gives one matrix with skald's name, whose rows a backend reads while
// it loads it. Tensors that are not quantized stay as they are.
//
//   safetensors ─ part_names() ─▶ parts by matrix ─ matrices.h ─▶ rows in a format of the engine
#pragma once

#include <memory>

#include "models/checkpoints/method.h"
#include "models/files/safetensors.h"

namespace skald {

// Names the parts as the matrix that they belong to, by the family's function for whole matrices:
// "…q_proj.qweight" is "blk.0.attn_q.qweight", as "…q_proj.weight" is "blk.0.attn_q.weight".
// Scales of activations are not needed: activations keep their precision.
TensorRename part_names(TensorRename whole);

// Makes the matrices of the parts of `file`, which was opened with RawTensors::Kept. Throws an
// Error that names the tensor if parts are missing, do not fit together or are not understood.
std::shared_ptr<const WeightFile> quantized_weights(std::shared_ptr<const SafetensorsFile> file,
                                                    const QuantMethod& method);

}  // namespace skald
