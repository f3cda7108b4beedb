// Tells a word of the command line that is a path from one that is a text.
#pragma once

#include <string_view>

namespace skald {

// True if the word can only be meant as a path: it ends in ".gguf", or has a slash and neither a
// space nor < or >, as in the token </s>. It need not exist.
bool looks_like_path(std::string_view word);

}  // namespace skald
