#include "app/jobs/plausible.h"

#include <algorithm>
#include <cmath>

#include "app/files/json.h"

namespace skald {
namespace {

const Json& at(const Json& object, const char* name) {
  static const Json none;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? none : *found;
}

bool is_text_or_null(const Json& object, const char* name) {
  return object.contains(name) && (object[name].is_string() || object[name].is_null());
}
bool is_count(const Json& value) { return value.is_number_integer() && value.get<double>() >= 0; }
bool is_logprob(const Json& value) { return value.is_number() && value.get<double>() <= 0; }

bool is_reason(const Json& value) {
  constexpr const char* kReasons[] = {"stop", "length", "tool_calls", "content_filter"};
  return std::any_of(std::begin(kReasons), std::end(kReasons),
                     [&](const char* reason) { return value == reason; });
}

// A text is null where the model has no tokenizer, a content where the message holds calls of
// tools.
bool plausible_choice(const Json& choice) {
  if (!choice.is_object() || !is_reason(at(choice, "finish_reason"))) return false;
  const Json& message = at(choice, "message");
  return message.is_object() ? is_text_or_null(message, "content")
                             : is_text_or_null(choice, "text");
}

bool plausible_choices(const Json& choices) {
  return choices.is_array() && !choices.empty() &&
         std::all_of(choices.begin(), choices.end(), plausible_choice);
}

// Of numbers, or in base64.
bool plausible_vector(const Json& vector) {
  if (vector.is_string()) return !vector.get_ref<const std::string&>().empty();
  const auto is_number = [](const Json& value) { return value.is_number(); };
  return vector.is_array() && !vector.empty() &&
         std::all_of(vector.begin(), vector.end(), is_number);
}

template <class Good>
bool all_good(const Json& list, const Good& good) {
  return list.is_array() && !list.empty() && std::all_of(list.begin(), list.end(), good);
}

bool plausible_data(const Json& data) {
  return all_good(data, [](const Json& one) { return plausible_vector(at(one, "embedding")); });
}

bool plausible_ranking(const Json& results) {
  return all_good(results, [](const Json& one) {
    return is_count(at(one, "index")) && at(one, "relevance_score").is_number();
  });
}

bool plausible_response(const Json& result) {
  const Json& response = at(result, "response");
  const Json& body = at(response, "body");
  const Json& usage = at(body, "usage");
  const Json &in = at(usage, "prompt_tokens"), &out = at(usage, "completion_tokens"),
             &total = at(usage, "total_tokens");
  if (at(response, "status_code") != Json(200) || !is_count(in) || !is_count(total)) return false;
  if (body.contains("choices")) {
    return plausible_choices(body["choices"]) && is_count(out) &&
           in.get<double>() + out.get<double>() == total.get<double>();
  }
  return in == total && (body.contains("results") ? plausible_ranking(body["results"])
                                                  : plausible_data(at(body, "data")));
}

bool plausible_plain(const Json& result) {
  if (!is_count(at(result, "prompt_tokens"))) return false;
  if (result.contains("embedding")) return plausible_vector(result["embedding"]);
  if (result.contains("embeddings")) return all_good(result["embeddings"], plausible_vector);
  if (result.contains("results")) return plausible_ranking(result["results"]);
  const bool text =
      result.contains("choices") ? plausible_choices(result["choices"]) : plausible_choice(result);
  return text && is_count(at(result, "completion_tokens"));
}

bool plausible_score(const Json& result) {
  const Json& logprobs = at(result, "logprobs");
  if (!logprobs.is_array() || !std::all_of(logprobs.begin(), logprobs.end(), is_logprob)) {
    return false;
  }
  double sum = 0;
  for (const Json& one : logprobs) sum += one.get<double>();
  const Json& tokens = at(result, "tokens");
  if (!is_logprob(result["logprob"]) || !is_count(tokens)) return false;
  return tokens.get<double>() == static_cast<double>(logprobs.size()) &&
         std::fabs(sum - result["logprob"].get<double>()) <= 1e-9 * std::fabs(sum) &&
         at(result, "greedy").is_boolean() && is_count(at(result, "bytes")) &&
         is_count(at(result, "context_tokens"));
}

}  // namespace

bool plausible_result(const Json& result) {
  if (result.contains("response")) return plausible_response(result);
  return result.contains("logprob") ? plausible_score(result) : plausible_plain(result);
}

}  // namespace skald
