// A model as the bytes of the GGUF that skald quantize would write of it, without a tokenizer.
#pragma once

#include <algorithm>
#include <string>

#include "models/convert/gguf_export.h"
#include "models/files/made_tensor.h"
#include "models/open.h"

namespace skald::test {

// The exported file. Tensors with more than one row get `type`, the others keep the export's type.
inline std::string gguf_bytes(const OpenedModel& opened, DType type, int64_t slice = 7) {
  GgufExport out = export_gguf(opened);
  for (MadeTensor& tensor : out.tensors) {
    if (tensor.rows() > 1) tensor.type = type;
    out.head.add_tensor(tensor.name, tensor.shape, tensor.type);
  }
  check_export(opened, out.head, out.tensors);
  std::string bytes = out.head.text();
  bytes.resize(static_cast<size_t>(out.head.file_bytes()));
  const auto places = out.head.places();
  TensorMaker maker(2);
  for (size_t i = 0; i < out.tensors.size(); ++i) {
    const MadeTensor& tensor = out.tensors[i];
    for (int64_t row = 0; row < tensor.rows(); row += slice) {
      const int64_t rows = std::min(slice, tensor.rows() - row);
      const int64_t at = places[i].offset + row * row_bytes(tensor.type, tensor.cols());
      maker.make(tensor, row, rows, reinterpret_cast<std::byte*>(bytes.data()) + at);
    }
  }
  return bytes;
}

}  // namespace skald::test
