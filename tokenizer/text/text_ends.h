// Adds BOS and EOS to the ids of a text as the model's files or the caller request, but never a
// second BOS.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/text/tokenizer.h"

namespace skald {

// `append(ids)` appends the text's own ids.
template <class Append>
std::vector<int32_t> with_ends(const SpecialTokens& special, const EncodeOptions& options,
                               Append append) {
  std::vector<int32_t> ids;
  const bool has_bos = options.add_bos.value_or(special.add_bos) && special.bos >= 0;
  if (has_bos) ids.push_back(special.bos);
  append(ids);
  // A text that already begins with BOS, as chat templates write it, gets no second one.
  if (has_bos && options.parse_special && ids.size() > 1 && ids[1] == ids[0]) {
    ids.erase(ids.begin());
  }
  if (options.add_eos.value_or(special.add_eos) && special.eos >= 0) ids.push_back(special.eos);
  return ids;
}

}  // namespace skald
