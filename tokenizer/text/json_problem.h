// Says where and why a text is not JSON, in words for users: "line 2, column 7: expected a value,
// found '}'". Call it for a text that the JSON library has refused.
#pragma once

#include <string>
#include <string_view>

namespace skald {

std::string json_problem(std::string_view text);

}  // namespace skald
