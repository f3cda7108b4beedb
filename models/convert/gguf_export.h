// What a model's GGUF file will hold: its metadata but for the tokenizer's, and its tensors, whose
// formats are still to be chosen. Of a Hugging Face folder the family says what is particular
// (Family::to_gguf); a GGUF's own metadata are taken over as they are.
#pragma once

#include <vector>

#include "models/families/gguf_fields.h"
#include "models/open.h"

namespace skald {

// The model must outlive the result.
GgufExport export_gguf(const OpenedModel& opened);

// Reads back a head that is complete and throws Error(Exit::Model) where it says another model than
// the folder does: what a GGUF has no words for is found here, whatever it is.
void check_export(const OpenedModel& folder, const GgufHead& head,
                  const std::vector<MadeTensor>& tensors);

}  // namespace skald
