// OpenAI's batch format around a request and its result: {"custom_id", "method", "url", "body"} in,
// {"id", "custom_id", "response", "error"} out.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json_fwd.h"
#include "app/jobs/line.h"

namespace skald {

// The body of a line that has one, whose url is one of `urls`; else the line itself, and `url`
// stays empty. Adds the names of fields without effect to `unknown`. Throws LineError.
const Json& line_body(const Json& line, std::span<const std::string_view> urls, std::string& url,
                      std::vector<std::string>& unknown);

// A line's result in OpenAI's form, with the body that `body` makes; or with the line's problem.
std::string openai_result(const JobLine& line, const std::function<Json()>& body);
// The same in the short form of --plain: `fields` gives an object.
std::string plain_result(const JobLine& line, const std::function<Json()>& fields);

}  // namespace skald
