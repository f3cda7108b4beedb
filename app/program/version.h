// Which skald this is. All of it was fixed when the program was built.
#pragma once

#include <string>
#include <string_view>

namespace skald {

std::string_view version();     // "0.2.0"
std::string_view git_commit();  // "1a2b3c4d5e6f"; "unknown" when built outside a git checkout
std::string build_kind();       // "commit 1a2b3c4d5e6f, CUDA 13.0.88 for 90a-real"

}  // namespace skald
