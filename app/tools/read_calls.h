// Reads the calls of tools that stand in an answer, in a model's format (format.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/generate/answer_text.h"
#include "app/tools/format.h"
#include "app/tools/tools.h"

namespace skald {

struct ReadAnswer {
  std::string content;  // what stands around the calls
  std::vector<ToolCall> calls;
};

// `answer`: without thinking. Where a call is broken, all of the answer is content, and there are
// no calls. Arguments are a JSON object as a text, written as the model wrote them where it writes
// JSON. Where `tools` allow one call only, later ones are dropped.
ReadAnswer read_calls(std::string_view answer, const ToolFormat& format, const Tools& tools);

}  // namespace skald
