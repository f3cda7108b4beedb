// What --stats and `skald bench` say about a GPU's cache of experts.
#pragma once

#include <string>

#include "app/files/json_fwd.h"
#include "engine/step/backend.h"

namespace skald {

// "chosen experts: 91 % in the GPU's cache, 5 % copied to it, 4 % read or computed on the host";
// empty if there is no cache, or no step has used it.
std::string expert_use_text(const ExpertUse& use);
Json expert_use_json(const ExpertUse& use);  // null instead

}  // namespace skald
