// How a model writes calls of tools in its answers. The format is chosen from the chat template's
// text: which marks it writes around the calls of earlier messages, or tells the model to write.
//
// An answer has calls one after the other, or a block of them:
//   block_begin (call_begin NAME name_end ARGUMENTS call_end)(between …)* block_end
// Spaces and line ends in these texts are what the model was taught; read_calls.h reads calls with
// other white space too.
#pragma once

#include <cstdint>
#include <string_view>

namespace skald {

struct ToolFormat {
  enum class Arguments : uint8_t {
    Json,      // an object
    Tags,      // each argument on its own: key_begin NAME key_end VALUE value_end
    Gemma,     // NAME:VALUE,NAME:VALUE; texts between <|"|>
    Channels,  // gpt-oss' messages (tokenizer/chat/channels.h); app/generate/ reads them
  };

  std::string_view name;
  Arguments arguments = Arguments::Json;
  // Calls are JSON objects with a name and arguments, or a list of them.
  bool objects = false;
  bool bare = false;       // objects: without a mark too, where they are the whole answer
  bool one = false;        // an answer has one call at most
  bool short_ids = false;  // ids of calls have 9 letters or digits
  bool writes_id = false;  // [CALL_ID] and an id stand between name and arguments
  std::string_view begin;  // the mark that a call or a block begins with
  std::string_view end;    // objects: the mark behind them, or ""

  std::string_view block_begin, call_begin, name_end, call_end, between, block_end;
  std::string_view key_begin, key_end, value_end;  // Tags

  // True if one of this format's marks contains `piece`. A control token for which this is true
  // belongs to the calls.
  bool writes(std::string_view piece) const;
};

inline constexpr std::string_view kMistralCalls = "[TOOL_CALLS]", kMistralId = "[CALL_ID]",
                                  kMistralArguments = "[ARGS]";
inline constexpr std::string_view kGemmaQuote = "<|\"|>";

// The format of a template's calls; nullptr: skald does not know it. Formats live as long as the
// program.
const ToolFormat* tool_format(std::string_view chat_template);

}  // namespace skald
