// Prepares a GGUF of a model: its metadata without the tokenizer's, and its tensors in the formats
// of the source. For a Hugging Face folder, the family adds its metadata (Family::to_gguf). The
// metadata of a GGUF are copied.
#pragma once

#include <vector>

#include "models/families/gguf_fields.h"
#include "models/open.h"

namespace skald {

// The model must outlive the result.
GgufExport export_gguf(const OpenedModel& opened);

// Reads a complete head back and compares it with the folder. Throws Error(Exit::Model) if the
// model differs, which finds every setting that a GGUF cannot express.
void check_export(const OpenedModel& folder, const GgufHead& head,
                  const std::vector<MadeTensor>& tensors);

}  // namespace skald
