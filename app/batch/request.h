// What a line of a batch asks for, in any of its forms: OpenAI's batch format ("custom_id",
// "method", "url", "body") for /v1/chat/completions and /v1/completions, or the fields of a body
// alone with an optional "id". Reading it needs no model; what the model has to say about it is
// checked in app/batch/prepare.h.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json.h"
#include "engine/sampling/sampling_params.h"

namespace skald {

// Why a line gets an error object instead of a result.
struct BatchProblem {
  std::string code;  // "invalid_json"
  std::string message;
};

class BatchError : public std::runtime_error {
 public:
  BatchError(std::string code, const std::string& message)
      : std::runtime_error(message), code_(std::move(code)) {}
  BatchProblem problem() const { return {code_, what()}; }

 private:
  std::string code_;
};

struct BatchPromptText {
  std::string text;
  std::vector<int32_t> ids;
  bool is_ids = false;
};

struct BatchRequest {
  bool chat = false;
  std::string model;                     // as the line names it; "" it does not
  std::string conversation;              // JSON for read_conversation(); of a chat
  std::vector<BatchPromptText> prompts;  // else
  std::optional<int64_t> max_tokens;
  int samples = 1;
  bool echo = false;
  bool logprobs = false;  // of the picked tokens, and with echo of the prompt's
  bool token_ids = false;
  SamplingParams params;
  std::vector<std::string> stops;
  std::vector<int32_t> stop_ids;
  bool ignore_eos = false;
  std::string response_format;  // JSON; "": any text

  bool has_ids() const { return !prompts.empty() && prompts.front().is_ids; }
};

// The JSON of a line. Throws BatchError.
Json parse_batch_line(std::string_view text);

// Its "custom_id" or "id", as JSON; nothing where it has none. Throws BatchError for one that is
// neither a text nor an integer.
std::optional<std::string> batch_line_id(const Json& line);

// `params` are the settings that hold where the line says nothing. Names of fields that are not
// known and were left aside are added to `unknown`. Throws BatchError.
BatchRequest read_batch_request(const Json& line, const SamplingParams& params,
                                std::vector<std::string>& unknown);

}  // namespace skald
