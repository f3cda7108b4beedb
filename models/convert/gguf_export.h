// Prepares a GGUF of a model: its metadata without those of the tokenizer, and its tensors in the
// formats of the source. The metadata of a GGUF are copied. For a Hugging Face folder, the family
// adds the metadata (Family::to_gguf).
#pragma once

#include <vector>

#include "models/families/shared/gguf_fields.h"
#include "models/open.h"

namespace skald {

// The model must outlive the result.
GgufExport export_gguf(const OpenedModel& opened);

// Reads a complete head back and compares it with the folder. Throws Error(Exit::Model) if the
// configuration or a tensor differs. This finds every setting that a GGUF cannot express.
void check_export(const OpenedModel& folder, const GgufHead& head,
                  const std::vector<MadeTensor>& tensors);

}  // namespace skald
