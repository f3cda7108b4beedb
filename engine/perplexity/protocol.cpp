#include "engine/perplexity/protocol.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

struct ProtocolRow {
  PplProtocol protocol;
  std::string_view name;
  size_t fewest, most;  // numbers after the name
  int64_t least_context;
};

constexpr ProtocolRow kProtocols[] = {{PplProtocol::LlamaCpp, "llama.cpp", 0, 1, 3},
                                      {PplProtocol::HuggingFace, "hf", 2, 2, 2},
                                      {PplProtocol::Gptq, "gptq", 1, 1, 2},
                                      {PplProtocol::Documents, "doc", 0, 1, 1}};

constexpr int64_t kMostContext = int64_t{1} << 31;

const ProtocolRow& row(PplProtocol protocol) { return kProtocols[static_cast<size_t>(protocol)]; }

[[noreturn]] void fail_protocol(const std::string& text) {
  fail(
      Exit::Usage, "--protocol '", printable(text),
      "': expected llama.cpp, llama.cpp:CTX, hf:CTX:STRIDE, gptq:CTX, doc or doc:CTX, with CTX and "
      "STRIDE in tokens");
}

}  // namespace

std::string PplSettings::name() const {
  return concat(row(protocol).name, context > 0 ? concat(":", context) : "",
                stride > 0 ? concat(":", stride) : "");
}

PplSettings parse_protocol(const std::string& text) {
  std::vector<int64_t> numbers;
  const size_t colon = std::min(text.find(':'), text.size());
  for (size_t at = colon; at < text.size();) {
    const size_t end = std::min(text.find(':', at + 1), text.size());
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(&text[at] + 1, text.data() + end, number);
    if (error != std::errc() || rest != text.data() + end || number < 1 || number > kMostContext) {
      fail_protocol(text);
    }
    numbers.push_back(number);
    at = end;
  }
  for (const ProtocolRow& candidate : kProtocols) {
    if (text.substr(0, colon) != candidate.name) continue;
    if (numbers.size() < candidate.fewest || numbers.size() > candidate.most) fail_protocol(text);
    PplSettings settings;
    settings.protocol = candidate.protocol;
    if (!numbers.empty()) settings.context = numbers[0];
    if (numbers.size() > 1) settings.stride = numbers[1];
    if (!numbers.empty() && settings.context < candidate.least_context) {
      fail(Exit::Usage, "--protocol ", text, ": a context of ", settings.context,
           " scores nothing; expected ", candidate.least_context, " or more");
    }
    if (settings.stride > settings.context) {
      fail(Exit::Usage, "--protocol ", text, ": the stride of ", settings.stride,
           " is longer than the window of ", settings.context,
           ", so tokens would be skipped; take a stride of at most ", settings.context);
    }
    return settings;
  }
  fail_protocol(text);
}

int64_t fewest_tokens(const PplSettings& settings) {
  if (settings.protocol == PplProtocol::LlamaCpp) return 2 * settings.context;
  return settings.protocol == PplProtocol::Gptq ? settings.context : 2;
}

int64_t chunk_count(const PplSettings& settings, int64_t tokens) {
  if (tokens < fewest_tokens(settings)) {
    fail(Exit::Failed, "the text has ", counted(tokens, "token"), ", but ", settings.name(),
         " needs ", fewest_tokens(settings), "; take a longer text or a shorter context");
  }
  if (settings.protocol != PplProtocol::HuggingFace) return tokens / settings.context;
  const int64_t beyond = std::max<int64_t>(tokens - settings.context, 0);
  return 1 + (beyond + settings.stride - 1) / settings.stride;
}

ChunkPlace chunk_place(const PplSettings& settings, int64_t tokens, int64_t chunk) {
  const int64_t context = settings.context;
  switch (settings.protocol) {
    case PplProtocol::LlamaCpp:
      return {chunk * context, context, context / 2 + 1, true};
    case PplProtocol::Gptq:
      return {chunk * context, context, 1, false};
    case PplProtocol::HuggingFace: {
      const int64_t first = chunk * settings.stride;
      // The tokens that the previous window has scored
      const int64_t seen = chunk == 0 ? 0 : context - settings.stride;
      return {first, std::min(context, tokens - first), std::max<int64_t>(seen, 1), false};
    }
    case PplProtocol::Documents:
      break;
  }
  check(false, "Documents uses document_window()");
  return {};
}

int64_t document_windows(int64_t context, int64_t tokens) {
  return (tokens + context - 1) / context;
}

ChunkPlace document_window(int64_t context, int64_t tokens, int64_t window) {
  const int64_t done = window * context;  // document tokens scored by the windows before
  const int64_t last = std::min(done + context, tokens);  // end of the window in document tokens
  const bool whole = last - done == context;
  // The prefix token comes first, so document token i has index i + 1. A full window sees one token
  // before its first target. The shorter last window sees as many as fit.
  const int64_t first = whole ? done : std::max<int64_t>(last - context, 0);
  return {first, last + 1 - first, done + 1 - first, false};
}

}  // namespace skald
