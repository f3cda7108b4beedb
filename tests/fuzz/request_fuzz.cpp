// The input is a line of a batch, of a file of texts or of a file to score. Reads its JSON and its
// fields, and makes the variables of a chat template.
#include <string>
#include <string_view>
#include <vector>

#include "app/batch/request.h"
#include "app/embed/request.h"
#include "app/score/line.h"
#include "engine/base/error.h"
#include "tests/fuzz/driver.h"
#include "tokenizer/chat/chat_template.h"

namespace {

using namespace skald;

template <class Read>
void read_line(const Read& read) {
  try {
    read();
  } catch (const LineError&) {
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Json line;
  try {
    line = parse_line(text);
  } catch (const LineError&) {
    return 0;
  }
  std::vector<std::string> unknown;
  read_line([&] { line_id(line); });
  read_line([&] {
    const BatchRequest request = read_batch_request(line, {}, unknown);
    if (request.chat) read_conversation(request.conversation, "messages");
  });
  read_line([&] { read_embed_request(line, "", unknown); });
  // Without a tokenizer, lines hold ids.
  read_line([&] { read_score_line(line, {.vocab = 100, .context = 16}, unknown); });
  return 0;
}
