// Prints the result of a perplexity run, with everything that a comparison needs: as text, as JSON,
// and in llama-perplexity's lines.
#pragma once

#include <string>

#include "app/files/json_fwd.h"
#include "app/perplexity/total.h"

namespace skald {

std::string to_text(const PplTotal& total);
Json to_json(const PplTotal& total);

// llama-perplexity's lines: the running value after a chunk, "[12]6.2341,", and the final line.
std::string llama_running(const PplTotal& total);
std::string llama_final(const PplTotal& total);

}  // namespace skald
