// What a product does with its sums before it writes them.
#pragma once

namespace skald::cuda {

enum class Epilogue {
  Store,   // out = W · in
  AddTo,   // out += scale * W · in, on the residual stream
  Gated,   // out = activation(gate · in) * (up · in); rows of W alternate gate, up
  Floats,  // out = W · in, float32
  Logits,  // like Floats, for the rows that need logits
};

}  // namespace skald::cuda
