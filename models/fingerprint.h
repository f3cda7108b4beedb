// A model's hash: it names the model in results, and lets a cache or a resumed run detect a
// different model.
//
// SHA-256 over
//   - the configuration: config.json unchanged, or a GGUF's metadata sorted by key, without
//     general.* (names and licences; but with general.architecture), split.* and tokenizer.*
//   - each tensor, sorted by name: name, type, shape, and bytes. Up to 4 KiB, all bytes count;
//     otherwise 16 samples of 256 bytes, evenly spaced from the first byte to the last.
//   - the factors of adapters (--lora), in the same way
// About 5 KB are read for each tensor, so a 16 GB model takes a few milliseconds once it is in the
// page cache. The same files give the same hash in any place and however they are split. A GGUF and
// the folder that it was made from have different hashes. Training, merging and quantizing change
// every tensor and are always detected; a manual change of a few bytes may not be.
#pragma once

#include <string>

#include "models/open.h"

namespace skald {

std::string model_hash(const OpenedModel& opened);  // 64 hexadecimal digits

// The part of that hash that is the tensors'.
std::string weights_hash(const WeightFile& weights);

}  // namespace skald
