// Reads the byte-level BPE of a GGUF (tokenizer.ggml.model = "gpt2").
#pragma once

#include "models/files/gguf.h"
#include "tokenizer/bpe/bpe.h"

namespace skald {

BpeVocabulary gguf_bpe(const GgufFile& file);

}  // namespace skald
