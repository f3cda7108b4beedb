// The request of a batch line, in any of its forms: OpenAI's batch format ("custom_id", "method",
// "url", "body") for /v1/chat/completions, /v1/completions, /v1/embeddings and /v1/rerank, or the
// fields of a body alone with an optional "id". Reading a request needs no model;
// app/batch/prepare.h checks what the model limits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/embed/request.h"
#include "app/jobs/line.h"
#include "app/jobs/texts.h"
#include "app/tools/tools.h"
#include "engine/sampling/sampling_params.h"

namespace skald {

struct BatchRequest {
  bool chat = false;
  std::string model;                   // as the line names it, or ""
  std::string conversation;            // if chat: JSON for read_conversation()
  std::shared_ptr<const Tools> tools;  // nullptr: the model may call none
  bool reasoning_effort = false;       // the conversation has this variable
  std::vector<LineText> prompts;       // if not chat
  std::optional<EmbedRequest> embed;   // then all other fields but `model` are unused
  std::optional<int64_t> max_tokens;
  int samples = 1;
  bool echo = false;
  bool logprobs = false;  // for the picked tokens; with echo, also for the prompt's
  int top_logprobs = 0;   // alternatives in `logprobs`; params.top_logprobs may be larger
  std::optional<int> prompt_logprobs;  // alternatives for each of the prompt's tokens
  bool token_ids = false;
  SamplingParams params;
  std::vector<std::string> stops;
  std::vector<int32_t> stop_ids;
  bool ignore_eos = false;
  std::string response_format;  // JSON; "": any text

  bool has_ids() const { return !prompts.empty() && prompts.front().is_ids; }
};

// `params`: the settings that the line does not set. Adds the names of fields without effect to
// `unknown`. Throws LineError.
BatchRequest read_batch_request(const Json& line, const SamplingParams& params,
                                std::vector<std::string>& unknown);

}  // namespace skald
