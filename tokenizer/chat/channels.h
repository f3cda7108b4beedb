// gpt-oss' format of answers ("harmony"). An answer is a series of messages, each in a channel:
//   <|channel|>analysis<|message|>THINKING<|end|><|start|>assistant<|channel|>final<|message|>ANSWER
// A message ends with <|end|>; the last one ends with <|return|>, or with <|call|> if it calls a
// tool. So <|end|> does not end the text, as it does in the answers of other models.
#pragma once

#include <cstdint>
#include <string_view>

#include "tokenizer/text/tokenizer.h"

namespace skald {

inline constexpr std::string_view kMessageStart = "<|start|>", kChannel = "<|channel|>",
                                  kMessageText = "<|message|>", kMessageEnd = "<|end|>",
                                  kAnswerEnd = "<|return|>", kCallEnd = "<|call|>";

// The id of a control token of this format; -1: the tokenizer has no such control token.
inline int32_t channel_token(const Tokenizer& tokenizer, std::string_view piece) {
  const int32_t id = tokenizer.find(piece);
  return tokenizer.is_control(id) ? id : -1;
}

// True if the model's answers may have channels.
inline bool has_channels(const Tokenizer& tokenizer) {
  for (const std::string_view piece : {kMessageStart, kChannel, kMessageText}) {
    if (channel_token(tokenizer, piece) < 0) return false;
  }
  return true;
}

}  // namespace skald
