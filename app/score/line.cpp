#include "app/score/line.h"

#include "app/files/json.h"
#include "app/jobs/fields.h"
#include "engine/base/error.h"

namespace skald {
namespace {

std::vector<int32_t> read_ids(LineFields& fields, const char* name, int64_t vocab) {
  std::vector<int32_t> ids;
  const Json* list = fields.find(name);
  if (!list) return ids;
  const auto refuse = [&](const Json& found) {
    fail_field(name, concat("a list of token ids, 0 to ", vocab - 1), found);
  };
  if (!list->is_array()) refuse(*list);
  for (const Json& id : *list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocab)) refuse(id);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

int32_t first_id(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special();
  const int32_t id = special.bos >= 0 ? special.bos : special.eos;
  if (id < 0) {
    throw LineError(
        "invalid_request",
        "the context is empty, and the tokenizer has neither BOS nor EOS to begin with");
  }
  return id;
}

ScoreText encode_pair(std::string context, std::string continuation, const ScoreOptions& options) {
  const Tokenizer& tokenizer = *options.tokenizer;
  ScoreText text;
  text.bytes = std::ssize(continuation);
  EncodeOptions encoding;
  encoding.add_eos = false;
  if (options.no_bos) encoding.add_bos = false;
  if (context.empty()) {
    encoding.add_bos = false;
    text.ids = tokenizer.encode(continuation, encoding);
    text.ids.insert(text.ids.begin(), first_id(tokenizer));
    text.context = 1;
    return text;
  }
  // Python's rstrip() knows more blanks than these, but no others are parts of tokens.
  const size_t end = context.find_last_not_of(" \t\n\r\f\v") + 1;
  continuation.insert(0, context.substr(end));
  context.resize(end);
  text.ids = tokenizer.encode(context + continuation, encoding);
  text.context = std::ssize(tokenizer.encode(context, encoding));
  if (text.context == 0) {  // nothing but blanks
    text.ids.insert(text.ids.begin(), first_id(tokenizer));
    text.context = 1;
  }
  return text;
}

void fit(ScoreText& text, const ScoreOptions& options) {
  // The last token is only a target, and never in the cache.
  const int64_t extra = std::ssize(text.ids) - 1 - options.context;
  if (extra <= 0) return;
  if (!options.truncate_left || extra >= text.context) {
    throw LineError(
        "context_length_exceeded",
        concat("context and continuation are ", text.ids.size(),
               " tokens, but the model's context holds ", options.context,
               options.truncate_left ? " and the continuation alone is too long"
                                     : "; --on-overflow truncate-left drops the first"));
  }
  text.ids.erase(text.ids.begin(), text.ids.begin() + extra);
  text.context -= extra;
  text.cut = extra;
}

}  // namespace

ScoreText read_score_line(const Json& line, const ScoreOptions& options,
                          std::vector<std::string>& unknown) {
  LineFields fields(line);
  fields.ignore({"id", "custom_id"});
  std::string context, continuation;
  const bool texts = fields.read("context", context) | fields.read("continuation", continuation);
  ScoreText text;
  text.ids = read_ids(fields, "context_ids", options.vocab);
  const std::vector<int32_t> continuation_ids = read_ids(fields, "continuation_ids", options.vocab);
  const bool ids = fields.find("continuation_ids") != nullptr;
  for (std::string& name : fields.unknown()) unknown.push_back(std::move(name));
  if (texts == ids || (texts && !fields.find("continuation"))) {
    throw LineError("invalid_request",
                    "expected 'context' and 'continuation', or 'context_ids' and "
                    "'continuation_ids'");
  }
  if (texts && !options.tokenizer) {
    throw LineError("invalid_request", "the model has no tokenizer: give ids");
  }
  if (texts) {
    text = encode_pair(std::move(context), std::move(continuation), options);
  } else {
    if (text.ids.empty() && options.tokenizer) text.ids.push_back(first_id(*options.tokenizer));
    if (text.ids.empty()) throw LineError("invalid_request", "'context_ids' is empty");
    text.context = std::ssize(text.ids);
    text.ids.insert(text.ids.end(), continuation_ids.begin(), continuation_ids.end());
    for (const int32_t id : continuation_ids) {
      if (options.tokenizer) text.bytes += std::ssize(options.tokenizer->piece_bytes(id));
    }
  }
  if (text.scored() <= 0) throw LineError("invalid_request", "the continuation has no token");
  fit(text, options);
  return text;
}

}  // namespace skald
