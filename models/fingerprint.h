// A model's hash: names it in results, and tells a cache or a resumed run that it is another one.
//
// SHA-256 over
//   - the configuration: config.json as it is, or a GGUF's metadata but for general.* (names and
//     licences; general.architecture is in), split.* and tokenizer.*, sorted by key;
//   - each tensor, sorted by name: name, type, shape, and bytes: all of one of up to 4 KiB, else 16
//     pieces of 256, evenly spaced from the first byte to the last.
// So it reads some 5 KB a tensor, whatever a model's size: a 16 GB one takes a few milliseconds
// once it is in the page cache. The same files give the same hash wherever they lie and however
// they are split; a GGUF and the folder that it was made from do not. Training, merging and
// quantizing change every tensor's bytes and are seen; a change of a few bytes by hand may not be.
#pragma once

#include <string>

#include "models/open.h"

namespace skald {

std::string model_hash(const OpenedModel& opened);  // 64 hexadecimal digits

}  // namespace skald
