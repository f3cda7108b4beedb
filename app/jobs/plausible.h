// Whether a line can be a result of `batch`, `embed` or `score`. A line that was damaged or edited,
// so that its numbers are impossible or its text is gone, must not pass for one that is done.
#pragma once

#include "app/files/json_fwd.h"

namespace skald {

// A result without an error, in OpenAI's form, in the plain form, or of `score`.
bool plausible_result(const Json& result);

}  // namespace skald
