#include "app/run/report.h"

#include <algorithm>
#include <cstdio>

#include "app/files/json.h"
#include "app/generate/guess_flags.h"
#include "app/model/expert_use.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/size_text.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

template <class T>
std::string number(const char* format, T value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// Computed prompt tokens per second; 0 if no token was generated.
double prompt_rate(const RunReport& r) {
  const double seconds = r.generated.prompt_seconds();
  return seconds > 0 ? static_cast<double>(r.prompt_tokens - r.cached_tokens) / seconds : 0;
}

// A token that holds only part of a UTF-8 character also gets its bytes as numbers.
Json token_json(int32_t id, float logprob, const Tokenizer& tokenizer) {
  const std::string_view bytes =
      tokenizer.is_control(id) ? tokenizer.piece(id) : tokenizer.piece_bytes(id);
  Json json = {{"id", id}, {"token", utf8_repaired(bytes)}, {"logprob", logprob}};
  if (utf8_valid(bytes)) return json;
  json["bytes"] = Json::array();
  for (const char byte : bytes) json["bytes"].push_back(static_cast<unsigned char>(byte));
  return json;
}

Json timings(const RunReport& r) {
  Json json = {{"load_seconds", r.load_seconds}};
  if (r.generated.tokens == 0) return json;
  json["first_token_seconds"] = r.first_seconds;
  json["prompt_seconds"] = r.generated.prompt_seconds();
  json["prompt_tokens_per_second"] = prompt_rate(r);
  if (r.generated.tokens == 1) return json;
  json["tokens_per_second"] = r.generated.tokens_per_second();
  json["bytes_per_second"] = r.bytes_per_second();
  if (r.bandwidth > 0) {
    json["read_bytes_per_second"] = r.bandwidth;
    json["share_of_read_bandwidth"] = r.bytes_per_second() / r.bandwidth;
  }
  return json;
}

Json to_json(const RunReport& r, const Tokenizer& tokenizer) {
  Json ids = Json::array();
  for (const Picked& picked : r.picked) ids.push_back(picked.token);
  Json json = {{"model", r.model},
               {"device", r.device},
               {"seed", r.seed},
               {"prompt", r.prompt},
               {"prompt_tokens", r.prompt_tokens},
               {"cached_tokens", r.cached_tokens},
               {"text", r.text},
               {"ids", std::move(ids)},
               {"finish_reason", name(r.generated.reason)},
               {"stop", nullptr},
               {"timings", timings(r)},
               {"memory_bytes", r.memory_bytes}};
  if (r.experts.all() > 0) json["experts"] = expert_use_json(r.experts);
  if (r.draft) json["draft"] = draft_json(*r.draft);
  if (r.guesses.steps > 0) json["guesses"] = guesses_json(r.guesses);
  if (r.check) {
    json["spec_check"] = {{"tokens_per_second", r.check->tokens_per_second},
                          {"gain", r.generated.tokens_per_second() / r.check->tokens_per_second},
                          {"same_text", r.check->same_text}};
  }
  if (!r.generated.stop.empty()) json["stop"] = r.generated.stop;
  if (!r.reasoning.empty()) json["reasoning"] = r.reasoning;
  for (const ToolCall& call : r.calls) {
    json["tool_calls"].push_back({{"name", call.name}, {"arguments", call.arguments}});
  }
  if (!r.logprobs) return json;
  json["logprobs"] = Json::array();
  for (const Picked& picked : r.picked) {
    Json token = token_json(picked.token, picked.logprob, tokenizer);
    token["top"] = Json::array();
    for (const auto& [id, logprob] : picked.top) {
      token["top"].push_back(token_json(id, logprob, tokenizer));
    }
    json["logprobs"].push_back(std::move(token));
  }
  return json;
}

}  // namespace

double RunReport::bytes_per_second() const {
  if (generated.tokens < 2) return 0;
  // Forced tokens, and guesses that were right, are computed with others. The last guesses may go
  // beyond the end of the text.
  const auto steps = static_cast<double>(
      std::max(generated.tokens - 1 - generated.forced - guesses.right, guesses.steps));
  return generated.tokens_per_second() * static_cast<double>(bytes_per_token) * steps /
         static_cast<double>(generated.tokens - 1);
}

std::string stats_line(const RunReport& r) {
  std::string line = counted(r.prompt_tokens, "prompt token");
  if (r.cached_tokens > 0) line += concat(" (", r.cached_tokens, " from the cache)");
  if (r.generated.tokens > 0) {
    line += number(", first token after %.3f s", r.first_seconds);
    line += number(" (%.1f tok/s", prompt_rate(r));
    if (r.most_prompt_tokens > 0) {
      line += number(", %.0f %%", 100 * prompt_rate(r) / r.most_prompt_tokens);
      line += number(" of at most %.1f", r.most_prompt_tokens);
    }
    line += ")";
  }
  line += "; " + counted(r.generated.tokens, "new token");
  if (r.generated.forced > 0) line += concat(" (", r.generated.forced, " forced)");
  if (r.generated.tokens > 1) {
    line += number(", %.1f tok/s", r.generated.tokens_per_second());
    if (r.most_tokens > 0) {
      line += number(" (%.0f %%", 100 * r.generated.tokens_per_second() / r.most_tokens);
      line += r.experts.all() == 0
                  ? number(" of at most %.1f)", r.most_tokens)
                  : number(" of %.1f, for experts chosen at random)", r.most_tokens);
    }
    line += number(", %.1f GB/s", r.bytes_per_second() / 1e9);
    if (r.bandwidth > 0) {
      line += number(" (%.0f %%", 100 * r.bytes_per_second() / r.bandwidth);
      line += number(" of %.1f)", r.bandwidth / 1e9);
    }
  }
  if (r.experts.all() > 0) line += "; " + expert_use_text(r.experts);
  if (r.guesses.steps > 0) line += "; " + guesses_text(r.guesses);
  line += concat("; ", size_text(r.memory_bytes), "; seed ", r.seed, "; ", r.device);
  if (!r.draft) return line;
  return concat(line, "; draft model: ", size_text(r.draft->memory_bytes), "; ", r.draft->device);
}

std::string check_line(const RunReport& r) {
  if (!r.check) return "--spec-check: no tokens were guessed";
  const double with = r.generated.tokens_per_second(), without = r.check->tokens_per_second;
  return concat("with guesses", number(" %.1f tok/s", with), ", without",
                number(" %.1f: ", without), times_text(with / without), " as fast, ",
                r.check->same_text ? "the same text"
                                   : "another text: a step of several rows rounds differently");
}

std::string json_text(const RunReport& report, const Tokenizer& tokenizer) {
  const std::string json = dump(to_json(report, tokenizer));
  std::string text;
  for (size_t i = 0; i < json.size(); ++i) {
    // dump() escapes controls below 0x20. What remains is DEL and the C1 controls, which are
    // U+0080 to U+009F, in UTF-8 c2 80 to c2 9f.
    const auto byte = [&](size_t at) { return static_cast<unsigned char>(json[at]); };
    const bool c1 = byte(i) == 0xc2 && i + 1 < json.size() && byte(i + 1) < 0xa0;
    if (c1) ++i;
    if (c1 || byte(i) == 0x7f) {
      text += number("\\u%04x", byte(i));
    } else {
      text += json[i];
    }
  }
  return text + "\n";
}

}  // namespace skald
