#include "app/tools/format.h"

#include <algorithm>
#include <iterator>

namespace skald {
namespace {

using Arguments = ToolFormat::Arguments;

// A format belongs to a template that has all of `signs`. The first row that fits
// counts: marks such as <tool_call> belong to several formats, which further signs tell apart.
struct Row {
  std::string_view signs[3];
  ToolFormat format;
};

constexpr std::string_view kObject = "{\"name\": \"", kArguments = "\", \"arguments\": ";

constexpr Row kRows[] = {
    {{"<|channel|>", "<|call|>"},
     {.name = "gpt-oss",
      .arguments = Arguments::Channels,
      .one = true,
      .call_begin = "<|channel|>commentary to=functions.",
      .name_end = " <|constrain|>json<|message|>"}},
    {{"<minimax:tool_call>"},
     {.name = "minimax",
      .arguments = Arguments::Tags,
      .begin = "<minimax:tool_call>",
      .block_begin = "<minimax:tool_call>\n",
      .call_begin = "<invoke name=\"",
      .name_end = "\">\n",
      .call_end = "</invoke>\n",
      .block_end = "</minimax:tool_call>",
      .key_begin = "<parameter name=\"",
      .key_end = "\">",
      .value_end = "</parameter>\n"}},
    {{"<|tool_call>call:"},
     {.name = "gemma",
      .arguments = Arguments::Gemma,
      .begin = "<|tool_call>",
      .call_begin = "<|tool_call>call:",
      .name_end = "{",
      .call_end = "}<tool_call|>"}},
    {{"<\uff5ctool\u2581calls\u2581begin\uff5c>", "```json"},
     {.name = "deepseek-v3",
      .begin = "<\uff5ctool\u2581calls\u2581begin\uff5c>",
      .block_begin = "<\uff5ctool\u2581calls\u2581begin\uff5c>",
      .call_begin = "<\uff5ctool\u2581call\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>",
      .name_end = "\n```json\n",
      .call_end = "\n```<\uff5ctool\u2581call\u2581end\uff5c>",
      .between = "\n",
      .block_end = "<\uff5ctool\u2581calls\u2581end\uff5c>"}},
    {{"<\uff5ctool\u2581calls\u2581begin\uff5c>"},
     {.name = "deepseek-v3.1",
      .begin = "<\uff5ctool\u2581calls\u2581begin\uff5c>",
      .block_begin = "<\uff5ctool\u2581calls\u2581begin\uff5c>",
      .call_begin = "<\uff5ctool\u2581call\u2581begin\uff5c>",
      .name_end = "<\uff5ctool\u2581sep\uff5c>",
      .call_end = "<\uff5ctool\u2581call\u2581end\uff5c>",
      .block_end = "<\uff5ctool\u2581calls\u2581end\uff5c>"}},
    {{kMistralCalls, kMistralArguments, kMistralId},
     {.name = "mistral-id",
      .short_ids = true,
      .writes_id = true,
      .begin = kMistralCalls,
      .call_begin = kMistralCalls,
      .name_end = kMistralArguments}},
    {{kMistralCalls, kMistralArguments},
     {.name = "mistral-args",
      .short_ids = true,
      .begin = kMistralCalls,
      .call_begin = kMistralCalls,
      .name_end = kMistralArguments}},
    {{kMistralCalls},
     {.name = "mistral",
      .objects = true,
      .short_ids = true,
      .begin = kMistralCalls,
      .block_begin = "[TOOL_CALLS][",
      .call_begin = kObject,
      .name_end = kArguments,
      .call_end = "}",
      .between = ", ",
      .block_end = "]"}},
    {{"<arg_key>", "<tool_call>"},
     {.name = "glm",
      .arguments = Arguments::Tags,
      .begin = "<tool_call>",
      .call_begin = "<tool_call>",
      .name_end = "\n",
      .call_end = "</tool_call>",
      .between = "\n",
      .key_begin = "<arg_key>",
      .key_end = "</arg_key>\n<arg_value>",
      .value_end = "</arg_value>\n"}},
    {{"<seed:tool_call>", "<function="},
     {.name = "seed",
      .arguments = Arguments::Tags,
      .begin = "<seed:tool_call>",
      .call_begin = "<seed:tool_call>\n<function=",
      .name_end = ">\n",
      .call_end = "</function>\n</seed:tool_call>",
      .between = "\n",
      .key_begin = "<parameter=",
      .key_end = ">",
      .value_end = "</parameter>\n"}},
    {{"<tool_call>", "<function=", "<parameter="},
     {.name = "qwen-xml",
      .arguments = Arguments::Tags,
      .begin = "<tool_call>",
      .call_begin = "<tool_call>\n<function=",
      .name_end = ">\n",
      .call_end = "</function>\n</tool_call>",
      .between = "\n",
      .key_begin = "<parameter=",
      .key_end = ">\n",
      .value_end = "\n</parameter>\n"}},
    {{"<|START_ACTION|>", "tool_name"},
     {.name = "command",
      .objects = true,
      .one = true,
      .begin = "<|START_ACTION|>",
      .end = "<|END_ACTION|>",
      .block_begin = "<|START_ACTION|>[\n    ",
      .call_begin = "{\"tool_call_id\": \"0\", \"tool_name\": \"",
      .name_end = "\", \"parameters\": ",
      .call_end = "}",
      .block_end = "\n]<|END_ACTION|>"}},
    {{"<tool_call>", "arguments"},
     {.name = "hermes",
      .objects = true,
      .begin = "<tool_call>",
      .end = "</tool_call>",
      .call_begin = "<tool_call>\n{\"name\": \"",
      .name_end = kArguments,
      .call_end = "}\n</tool_call>",
      .between = "\n"}},
    {{"<|tool|>"},
     {.name = "phi-4-mini",
      .objects = true,
      .begin = "<|tool_call|>",
      .end = "<|/tool_call|>",
      .block_begin = "<|tool_call|>[",
      .call_begin = kObject,
      .name_end = kArguments,
      .call_end = "}",
      .between = ", ",
      .block_end = "]<|/tool_call|>"}},
    {{"functools["},
     {.name = "functools",
      .objects = true,
      .begin = "functools",
      .block_begin = "functools[",
      .call_begin = kObject,
      .name_end = kArguments,
      .call_end = "}",
      .between = ", ",
      .block_end = "]"}},
    {{"<|tool_call|>"},
     {.name = "granite",
      .objects = true,
      .begin = "<|tool_call|>",
      .block_begin = "<|tool_call|>[",
      .call_begin = kObject,
      .name_end = kArguments,
      .call_end = "}",
      .between = ", ",
      .block_end = "]"}},
    {{"{\"name\": function name, \"parameters\":"},
     {.name = "llama",
      .objects = true,
      .bare = true,
      .one = true,
      .begin = "<|python_tag|>",
      .call_begin = kObject,
      .name_end = "\", \"parameters\": ",
      .call_end = "}"}},
};

bool fits(const Row& row, std::string_view text) {
  return std::all_of(std::begin(row.signs), std::end(row.signs), [&](std::string_view sign) {
    return text.find(sign) != std::string_view::npos;
  });
}

}  // namespace

bool ToolFormat::writes(std::string_view piece) const {
  if (piece.empty()) return false;
  const std::string_view texts[] = {begin,   end,       block_begin, call_begin, name_end, call_end,
                                    between, block_end, key_begin,   key_end,    value_end};
  if (std::any_of(std::begin(texts), std::end(texts), [&](std::string_view text) {
        return text.find(piece) != std::string_view::npos;
      })) {
    return true;
  }
  if (arguments == Arguments::Gemma) return piece == kGemmaQuote;
  return short_ids && (piece == kMistralArguments || piece == kMistralId);
}

const ToolFormat* tool_format(std::string_view chat_template) {
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const Row& one) { return fits(one, chat_template); });
  return row == std::end(kRows) ? nullptr : &row->format;
}

}  // namespace skald
