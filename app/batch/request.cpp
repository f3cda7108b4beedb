#include "app/batch/request.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <variant>

#include "app/files/json.h"
#include "app/jobs/fields.h"
#include "app/jobs/openai_line.h"
#include "engine/base/error.h"

namespace skald {
namespace {

constexpr int64_t kMostSamples = 1024, kMostTopLogprobs = 1000;
constexpr std::string_view kChatUrl = "/v1/chat/completions", kTextUrl = "/v1/completions";
constexpr std::string_view kUrls[] = {kChatUrl, kTextUrl, kEmbeddingsUrl, kRerankUrl};

std::vector<std::string> read_stops(const Json& stop) {
  std::vector<std::string> stops;
  if (stop.is_string()) {
    stops.push_back(stop.get<std::string>());
  } else if (stop.is_array()) {
    for (const Json& one : stop) {
      if (!one.is_string()) fail_field("stop", "a text or a list of texts", stop);
      stops.push_back(one.get<std::string>());
    }
  } else {
    fail_field("stop", "a text or a list of texts", stop);
  }
  for (const std::string& one : stops) {
    if (one.empty()) fail_field("stop", "texts that are not empty", stop);
  }
  return stops;
}

// Reads the field of a row, for each type of parameter.
struct ReadParameter {
  LineFields& fields;
  SamplingParams& params;
  const SamplingParameter& row;
  std::string_view name;  // row.field or row.other_field

  void operator()(int SamplingParams::*member) const {
    fields.read_integer(name, static_cast<int64_t>(row.range.least),
                        static_cast<int64_t>(row.range.most), params.*member);
  }
  void operator()(float SamplingParams::*member) const { fields.read(name, params.*member); }
  void operator()(uint64_t SamplingParams::*member) const {
    fields.read_integer(name, INT64_MIN, INT64_MAX, params.*member);
  }
  void operator()(LogitBias SamplingParams::*member) const {
    constexpr std::string_view kExpected = "an object of token ids and numbers";
    const Json* biases = fields.find(name);
    if (!biases) return;
    if (!biases->is_object()) fail_field(name, kExpected, *biases);
    for (const auto& [key, value] : biases->items()) {
      int32_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      const bool good = error == std::errc() && end == key.data() + key.size() && id >= 0;
      if (!good || !value.is_number()) fail_field(name, kExpected, *biases);
      (params.*member).emplace_back(id, value.get<float>());
    }
  }
};

// Parameters without flags are skipped: read_logprobs() reads top_logprobs.
void read_sampling(LineFields& fields, SamplingParams& params) {
  for (const SamplingParameter& row : sampling_parameters()) {
    if (row.flags.empty()) continue;
    for (const std::string_view name : {row.field, row.other_field}) {
      if (!name.empty()) std::visit(ReadParameter{fields, params, row, name}, row.member);
    }
  }
}

// "logprobs" is a number of alternatives for a prompt; for a chat it is true or false, with the
// number in "top_logprobs". Both forms are accepted for both. "prompt_logprobs" is a number.
void read_logprobs(LineFields& fields, BatchRequest& request) {
  int& top = request.top_logprobs;
  const Json* logprobs = fields.find("logprobs");
  if (logprobs && logprobs->is_boolean()) {
    request.logprobs = logprobs->get<bool>();
  } else if (logprobs) {
    request.logprobs = fields.read_integer("logprobs", 0, kMostTopLogprobs, top);
  }
  if (fields.read_integer("top_logprobs", 0, kMostTopLogprobs, top)) {
    if (top > 0 && logprobs && !request.logprobs) fail_request("top_logprobs without logprobs");
    request.logprobs |= top > 0;
  }
  if (!request.logprobs) top = 0;
  int of_prompt = 0;
  if (fields.read_integer("prompt_logprobs", 0, kMostTopLogprobs, of_prompt)) {
    request.prompt_logprobs = of_prompt;
  }
  request.params.top_logprobs = std::max(top, of_prompt);
}

void read_response_format(const Json& format, BatchRequest& request) {
  const Json type = format.is_object() ? format.value("type", Json()) : Json();
  if (type == "text") return;
  if (type != "json_object" && type != "json_schema") {
    fail_field("response_format", "an object of type text, json_object or json_schema", format);
  }
  request.response_format = dump(format);
}

// With the choice "none", the model does not see the tools.
void read_tools(LineFields& fields, BatchRequest& request) {
  const Json* choice = fields.find("tool_choice");
  const Json none = Json::array();
  const Json* given = fields.find("tools");
  Tools tools = read_request_tools(given ? *given : none, choice);
  fields.read("parallel_tool_calls", tools.parallel);
  if (tools.any()) request.tools = std::make_shared<const Tools>(std::move(tools));
}

void read_effort(LineFields& fields, BatchRequest& request, Json& conversation) {
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium",
                                           "high", "xhigh",   "max"};
  std::string effort;
  if (!fields.read("reasoning_effort", effort)) return;
  if (std::find(std::begin(kEfforts), std::end(kEfforts), effort) == std::end(kEfforts)) {
    fail_request(concat("field 'reasoning_effort': expected low, medium or high, found '",
                        printable(effort, 60), "'"));
  }
  request.reasoning_effort = true;
  conversation["reasoning_effort"] = effort;
}

void read_input(LineFields& fields, BatchRequest& request, std::string_view url) {
  const Json* messages = fields.find("messages");
  const Json* prompt = fields.find("prompt");
  const Json* ids = fields.find("prompt_ids");
  if ((messages != nullptr) + (prompt != nullptr) + (ids != nullptr) != 1) {
    fail_request("expected one of 'prompt', 'messages' and 'prompt_ids'");
  }
  if (!url.empty() && (url == kChatUrl) != (messages != nullptr)) {
    fail_request(concat("url ", url, " takes ", url == kChatUrl ? "'messages'" : "'prompt'"));
  }
  if (messages) {
    request.chat = true;
    Json conversation = {{"messages", *messages}};
    for (const char* name : {"documents", "chat_template_kwargs"}) {
      if (const Json* value = fields.find(name)) conversation[name] = *value;
    }
    read_tools(fields, request);
    if (request.tools) conversation["tools"] = request.tools->given;
    read_effort(fields, request, conversation);
    request.conversation = dump(conversation);
  } else if (prompt) {
    request.prompts = read_texts("prompt", *prompt);
  } else {
    if (!ids->is_array()) fail_field("prompt_ids", "a list of token ids", *ids);
    request.prompts = {{"", read_ids("prompt_ids", *ids), true}};
  }
}

void refuse_unsupported(LineFields& fields, const BatchRequest& request) {
  bool stream = false;
  if (fields.read("stream", stream) && stream) {
    fail_request("field 'stream': a batch gives whole results; leave it out");
  }
  int64_t best_of = request.samples;
  fields.read_integer("best_of", 1, kMostSamples, best_of);
  if (best_of != request.samples) {
    fail_request("field 'best_of': must equal 'n'; choosing among more samples is not supported");
  }
  std::string suffix;
  if (fields.read("suffix", suffix) && !suffix.empty()) {
    fail_request("field 'suffix': filling in is not supported");
  }
  if (request.echo && request.chat) fail_request("field 'echo': is for prompts, not for messages");
}

}  // namespace

BatchRequest read_batch_request(const Json& line, const SamplingParams& params,
                                std::vector<std::string>& unknown) {
  std::string url;
  const Json& body = line_body(line, kUrls, url, unknown);
  LineFields fields(body);
  BatchRequest request;
  request.params = params;
  if (is_embed_request(body, url)) {
    request.embed = read_embed_request(body, url, unknown);
    request.model = request.embed->model;
    request.max_tokens = 0;
    return request;
  }
  read_input(fields, request, url);
  fields.read("model", request.model);
  int64_t max_tokens = 0;
  if (fields.read_integer("max_tokens", 0, INT64_C(1) << 40, max_tokens) ||
      fields.read_integer("max_completion_tokens", 0, INT64_C(1) << 40, max_tokens)) {
    request.max_tokens = max_tokens;
  }
  fields.read_integer("n", 1, kMostSamples, request.samples);
  fields.read("echo", request.echo);
  fields.read("ignore_eos", request.ignore_eos);
  fields.read("return_token_ids", request.token_ids);
  read_sampling(fields, request.params);
  read_logprobs(fields, request);
  if (const Json* stop = fields.find("stop")) request.stops = read_stops(*stop);
  if (const Json* ids = fields.find("stop_token_ids")) {
    request.stop_ids = read_ids("stop_token_ids", *ids);
  }
  if (const Json* format = fields.find("response_format")) read_response_format(*format, request);
  refuse_unsupported(fields, request);
  fields.ignore({"id", "custom_id", "method", "url", "body", "user", "metadata", "store",
                 "stream_options", "service_tier"});
  if (!request.chat) fields.ignore({"tool_choice", "parallel_tool_calls"});
  for (std::string& name : fields.unknown()) unknown.push_back(std::move(name));
  return request;
}

}  // namespace skald
