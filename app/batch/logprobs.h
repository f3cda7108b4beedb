// Log-probabilities as OpenAI's APIs write them: parallel lists for completions, a list of objects
// for chats.
#pragma once

#include "app/batch/job.h"
#include "app/files/json.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {

// Of a sample, and with an echo of the prompt before it, whose first token has none.
Json completion_logprobs(const BatchPrompt& prompt, const SampleText& text, bool echo,
                         const Tokenizer* tokenizer);
Json chat_logprobs(const SampleText& text, const Tokenizer* tokenizer);

// [{"id", "token", "logprob", "top": [...]}], for plain results.
Json plain_logprobs(const std::vector<Picked>& picks, const Tokenizer* tokenizer);

}  // namespace skald
