#include "app/perplexity/flags.h"

#include <charconv>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr int64_t kLlamaContext = 512;

void refuse_together(bool a, bool b, const char* what, const char* why) {
  if (a && b) fail(Exit::Usage, what, ": ", why);
}

}  // namespace

void check_flags(const PplFlags& flags) {
  const PplProtocol protocol = parse_protocol(flags.protocol).protocol;
  const bool resumed = !flags.checkpoint.empty();
  const bool saves = !flags.save_logits.empty() || !flags.save_base.empty();
  refuse_together(resumed, !flags.tokens.empty(), "--checkpoint and --tokens",
                  "the tokens of chunks that are already done would be missing");
  refuse_together(resumed, saves, "--checkpoint and --save-logits or --save-base",
                  "the rows of chunks that are already done would be missing");
  refuse_together(flags.json, flags.llama_format, "--json and --llama-format", "give one of them");
  refuse_together(flags.llama_format, protocol != PplProtocol::LlamaCpp, "--llama-format",
                  "these lines mean the llama.cpp protocol");
  refuse_together(!flags.save_logits.empty(), protocol != PplProtocol::LlamaCpp, "--save-logits",
                  "llama.cpp's file holds its own protocol alone; --save-base takes any");
  refuse_together(flags.files.size() > 1, protocol != PplProtocol::Documents, "several -f",
                  "only the doc protocol takes more than one text");
  refuse_together(flags.devices.find(',') != std::string::npos, saves,
                  "--devices and --save-logits or --save-base",
                  "the rows of a file come one after the other; take one device");
  if (!flags.merge.empty()) return;
  const bool has_text = !flags.files.empty() || !flags.base.empty();
  if (!has_text) fail(Exit::Usage, "no text: name a file with -f (-: stdin)");
}

PplSettings settled_protocol(const PplFlags& flags, const ModelConfig& config) {
  PplSettings settings = parse_protocol(flags.protocol);
  const int64_t asked = flags.model.run.context;
  if (settings.context > 0 && asked > 0 && asked != settings.context) {
    fail(Exit::Usage, "-c ", asked, " and --protocol ", flags.protocol,
         " name two contexts; give one of them");
  }
  if (settings.context == 0) {
    const bool documents = settings.protocol == PplProtocol::Documents;
    settings.context = asked > 0 ? asked : documents ? config.context : kLlamaContext;
    settings = parse_protocol(settings.name());
  }
  if (settings.context > config.context) {
    fail(Exit::Usage, "a context of ", settings.context, ": the model was trained for ",
         config.context, " tokens; ask for at most that, as in --protocol ",
         settings.protocol == PplProtocol::LlamaCpp ? "llama.cpp:" : "doc:", config.context);
  }
  return settings;
}

ChunkRange parse_chunk_range(const std::string& text, int64_t count) {
  if (text.empty()) return {0, count};
  const auto refuse = [&](const char* why) {
    fail(Exit::Usage, "--chunks '", printable(text), "': ", why, "; there are ", count,
         " chunks: expected A:B with 0 <= A < B <= ", count, ", or the number of the first ones");
  };
  const auto read = [&](std::string_view part, int64_t otherwise) {
    if (part.empty()) return otherwise;
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || rest != part.data() + part.size()) refuse("is no range");
    return value;
  };
  const size_t colon = text.find(':');
  ChunkRange range;
  if (colon == text.npos) {
    range = {0, read(text, 0)};
  } else {
    range = {read(text.substr(0, colon), 0), read(text.substr(colon + 1), count)};
  }
  if (range.first < 0 || range.last > count) refuse("is out of bounds");
  if (range.first >= range.last) refuse("holds nothing");
  return range;
}

}  // namespace skald
