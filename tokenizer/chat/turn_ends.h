// Tokens with which chat models end a turn, or wait for what a tool returns. They always stop
// generation, even if a model's files do not say so, and no user's text may become one of them.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace skald {

inline constexpr std::array<std::string_view, 11> kTurnEnds = {
    "<|eot_id|>",    "<|eom_id|>",    "<|im_end|>",      "<|end|>",
    "<end_of_turn>", "<|endofturn|>", "<|end_of_turn|>", "<|end_of_text|>",
    "<|endoftext|>", "<turn|>",       "<|tool_response>"};

inline bool ends_turn(std::string_view piece) {
  return std::find(kTurnEnds.begin(), kTurnEnds.end(), piece) != kTurnEnds.end();
}

}  // namespace skald
