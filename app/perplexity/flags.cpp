#include "app/perplexity/flags.h"

#include <charconv>

#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr int64_t kLlamaContext = 512;

// Throws if both conditions hold: `what` names the flags, `why` the reason and the way out.
void refuse_together(bool a, bool b, const char* what, const char* why) {
  if (a && b) fail(Exit::Usage, what, ": ", why);
}

}  // namespace

void check_flags(const PplFlags& flags) {
  const PplProtocol protocol = parse_protocol(flags.protocol).protocol;
  const bool resumed = !flags.checkpoint.empty();
  const bool saves = !flags.save_logits.empty() || !flags.save_base.empty();
  refuse_together(resumed, !flags.tokens.empty(), "--checkpoint and --tokens",
                  "chunks that are already done would be missing in the file; leave one out");
  refuse_together(resumed, saves, "--checkpoint and --save-logits or --save-base",
                  "chunks that are already done would be missing in the file; leave one out");
  refuse_together(flags.json, flags.llama_format, "--json and --llama-format",
                  "give only one of them");
  refuse_together(flags.llama_format, protocol != PplProtocol::LlamaCpp, "--llama-format",
                  "needs --protocol llama.cpp, the protocol of llama-perplexity");
  refuse_together(!flags.save_logits.empty(), protocol != PplProtocol::LlamaCpp, "--save-logits",
                  "llama.cpp's format needs --protocol llama.cpp; --save-base takes any protocol");
  refuse_together(flags.files.size() > 1, protocol != PplProtocol::Documents, "several -f",
                  "only --protocol doc takes more than one text");
  refuse_together(parse_devices(flags.model.device).size() > 1, saves,
                  "--devices and --save-logits or --save-base",
                  "the file's rows are written in order by one device; name one device");
  if (!flags.merge.empty()) return;
  const bool has_text = !flags.files.empty() || !flags.base.empty();
  if (!has_text) fail(Exit::Usage, "no text given; give a file with -f (-: stdin)");
}

PplSettings resolve_protocol(const PplFlags& flags, const ModelConfig& config) {
  PplSettings settings = parse_protocol(flags.protocol);
  const int64_t asked = flags.model.run.context;
  if (settings.context > 0 && asked > 0 && asked != settings.context) {
    fail(Exit::Usage, "-c ", asked, " and --protocol ", flags.protocol,
         " give different contexts; leave -c out");
  }
  if (settings.context == 0) {
    const bool documents = settings.protocol == PplProtocol::Documents;
    settings.context = asked > 0 ? asked : documents ? config.context : kLlamaContext;
    settings = parse_protocol(settings.name());
  }
  if (settings.context > config.context) {
    fail(Exit::Usage, "a context of ", settings.context, ": the model was trained for ",
         config.context, " tokens; give at most that, as in --protocol ",
         settings.protocol == PplProtocol::LlamaCpp ? "llama.cpp:" : "doc:", config.context);
  }
  return settings;
}

ChunkRange parse_chunk_range(const std::string& text, int64_t count) {
  if (text.empty()) return {0, count};
  const auto refuse = [&](const char* why) {
    fail(Exit::Usage, "--chunks '", printable(text), "': ", why, "; the text has ",
         counted(count, "chunk"), ": expected A:B with 0 <= A < B <= ", count,
         ", or N for the first N chunks");
  };
  const auto read = [&](std::string_view part, int64_t missing) {
    if (part.empty()) return missing;
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || rest != part.data() + part.size()) refuse("not a range");
    return value;
  };
  const size_t colon = text.find(':');
  ChunkRange range;
  if (colon == text.npos) {
    range = {0, read(text, 0)};
  } else {
    range = {read(text.substr(0, colon), 0), read(text.substr(colon + 1), count)};
  }
  if (range.first < 0 || range.last > count) refuse("out of bounds");
  if (range.first >= range.last) refuse("the range is empty");
  return range;
}

}  // namespace skald
