#include "app/jobs/openai_line.h"

#include <algorithm>

#include "app/jobs/fields.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

// Returns "a, b or c".
std::string any_of(std::span<const std::string_view> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += concat(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  }
  return text;
}

}  // namespace

const Json& line_body(const Json& line, std::span<const std::string_view> urls, std::string& url,
                      std::vector<std::string>& unknown) {
  if (!line.contains("body") || line["body"].is_null()) return line;
  LineFields fields(line);
  fields.ignore({"custom_id"});
  std::string method = "POST";
  fields.read("method", method);
  if (method != "POST") fail_request("field 'method': expected POST");
  fields.read("url", url);
  if (std::find(urls.begin(), urls.end(), url) == urls.end()) {
    fail_request(
        concat("field 'url': expected ", any_of(urls), ", found '", printable(url, 60), "'"));
  }
  const Json* body = fields.find("body");
  if (!body->is_object()) fail_field("body", "an object", *body);
  for (std::string& name : fields.unknown()) unknown.push_back(std::move(name));
  return *body;
}

std::string openai_result(const JobLine& line, const std::function<Json()>& body) {
  Json result = {{"id", concat("batch_req_", line.request_hash)},
                 {"custom_id", parse_json(line.id)},
                 {"response", nullptr},
                 {"error", nullptr},
                 {"request_hash", line.request_hash}};
  if (line.problem) {
    result["error"] = problem_json(*line.problem);
  } else {
    result["response"] = {
        {"status_code", 200}, {"request_id", line.request_hash}, {"body", body()}};
  }
  return dump(result);
}

std::string plain_result(const JobLine& line, const std::function<Json()>& fields) {
  Json result = {{"id", parse_json(line.id)}};
  if (line.problem) {
    result["error"] = problem_json(*line.problem);
  } else {
    result.update(fields());
  }
  result["request_hash"] = line.request_hash;
  return dump(result);
}

}  // namespace skald
