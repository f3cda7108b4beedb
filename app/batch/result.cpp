#include "app/batch/result.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "app/batch/tools.h"
#include "app/embed/result.h"
#include "app/files/json_number.h"
#include "app/jobs/openai_line.h"
#include "engine/base/error.h"

namespace skald {
namespace {

// The text of a token, or the name of a control token. Half a character becomes U+FFFD when the
// JSON is written.
std::string token_text(int32_t id, const Tokenizer& tokenizer) {
  const std::string_view bytes = tokenizer.piece_bytes(id);
  return std::string(bytes.empty() ? tokenizer.piece(id) : bytes);
}

Json token_json(int32_t id, const Tokenizer* tokenizer) {
  return tokenizer ? Json(token_text(id, *tokenizer)) : Json(nullptr);
}

int64_t characters(const std::string& text) {
  int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

using Alternatives = std::vector<std::pair<int32_t, float>>;

std::span<const Alternatives::value_type> first(const Alternatives& all, int most) {
  return std::span(all).first(std::min(all.size(), static_cast<size_t>(most)));
}

class CompletionLists {
 public:
  CompletionLists(const Tokenizer* tokenizer, int most) : tokenizer_(tokenizer), most_(most) {}

  void add(int32_t token, const Picked* picked) {
    ids_.push_back(token);
    tokens_.push_back(token_json(token, tokenizer_));
    offsets_.push_back(offset_);
    if (tokenizer_) offset_ += characters(std::string(tokenizer_->piece_bytes(token)));
    logprobs_.push_back(picked ? float_json(picked->logprob) : Json(nullptr));
    top_.push_back(picked ? top(*picked) : Json(nullptr));
  }

  Json take() {
    Json json = {{"tokens", std::move(tokens_)},
                 {"token_logprobs", std::move(logprobs_)},
                 {"top_logprobs", std::move(top_)},
                 {"text_offset", tokenizer_ ? std::move(offsets_) : Json(nullptr)}};
    json["token_ids"] = std::move(ids_);
    return json;
  }

 private:
  // Several tokens may have the same text; the best of them counts.
  Json top(const Picked& picked) const {
    Json object = Json::object();
    for (const auto& [id, logprob] : first(picked.top, most_)) {
      const std::string name = tokenizer_ ? token_text(id, *tokenizer_) : std::to_string(id);
      if (!object.contains(name)) object[name] = float_json(logprob);
    }
    return object;
  }

  const Tokenizer* tokenizer_;
  const int most_;  // alternatives of a token
  Json ids_ = Json::array(), tokens_ = Json::array(), offsets_ = Json::array(),
       logprobs_ = Json::array(), top_ = Json::array();
  int64_t offset_ = 0;
};

Json chat_token(int32_t id, float logprob, const Tokenizer* tokenizer) {
  Json json = {{"token", token_json(id, tokenizer)}, {"logprob", float_json(logprob)}};
  Json bytes = nullptr;
  if (tokenizer) {
    bytes = Json::array();
    for (const char c : tokenizer->piece_bytes(id)) {
      bytes.push_back(static_cast<unsigned char>(c));
    }
  }
  json["bytes"] = std::move(bytes);
  return json;
}

// Log-probabilities as OpenAI's API for completions writes them: parallel lists. With `echo` the
// prompt's tokens come first; the first of them has none.
Json completion_logprobs(const BatchPrompt& prompt, const SampleText& text, bool echo,
                         const Tokenizer* tokenizer) {
  CompletionLists lists(tokenizer, prompt.job->request.top_logprobs);
  if (echo) {
    for (size_t i = 0; i < prompt.prompt.size(); ++i) {
      const bool scored = i > 0 && i - 1 < prompt.scores.size();
      lists.add(prompt.prompt[i], scored ? &prompt.scores[i - 1] : nullptr);
    }
  }
  for (const Picked& picked : text.picks()) lists.add(picked.token, &picked);
  return lists.take();
}

// Writes log-probabilities as OpenAI's API for chats does: a list of objects.
Json chat_logprobs(const SampleText& text, const Tokenizer* tokenizer) {
  Json content = Json::array();
  for (const Picked& picked : text.picks()) {
    Json token = chat_token(picked.token, picked.logprob, tokenizer);
    Json top = Json::array();
    for (const auto& [id, logprob] : picked.top) {
      top.push_back(chat_token(id, logprob, tokenizer));
    }
    token["top_logprobs"] = std::move(top);
    content.push_back(std::move(token));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

// Writes them as vLLM does: null for the first token, then objects of token ids, in which the
// prompt's token comes first. The rank of a token that is not among the best is not known.
Json prompt_logprobs(const BatchPrompt& prompt, const Tokenizer* tokenizer) {
  Json list = Json::array({nullptr});
  for (const Picked& picked : prompt.scores) {
    Json token = Json::object();
    const auto add = [&](int32_t id, float logprob, Json rank) {
      token[std::to_string(id)] = {{"logprob", float_json(logprob)},
                                   {"rank", std::move(rank)},
                                   {"decoded_token", token_json(id, tokenizer)}};
    };
    add(picked.token, picked.logprob, nullptr);
    int rank = 0;
    for (const auto& [id, logprob] : first(picked.top, *prompt.job->request.prompt_logprobs)) {
      add(id, logprob, ++rank);
    }
    list.push_back(std::move(token));
  }
  return list;
}

// For --plain: [{"id", "token", "logprob", "top": [...]}].
Json plain_logprobs(const std::vector<Picked>& picks, int most, const Tokenizer* tokenizer) {
  const auto token = [&](int32_t id, float logprob) -> Json {
    return {{"id", id}, {"token", token_json(id, tokenizer)}, {"logprob", float_json(logprob)}};
  };
  Json list = Json::array();
  for (const Picked& picked : picks) {
    Json one = token(picked.token, picked.logprob);
    if (!picked.top.empty() && most > 0) {
      one["top"] = Json::array();
      for (const auto& [id, logprob] : first(picked.top, most)) {
        one["top"].push_back(token(id, logprob));
      }
    }
    list.push_back(std::move(one));
  }
  return list;
}

Json ids_json(const std::vector<Picked>& picks) {
  Json ids = Json::array();
  for (const Picked& picked : picks) ids.push_back(picked.token);
  return ids;
}

Json text_json(const BatchPrompt& prompt, const SampleText& text, bool echo,
               const Tokenizer* tokenizer) {
  if (!tokenizer) return nullptr;
  return echo ? prompt.text + text.text() : text.text();
}

// Writes tool calls as OpenAI's API does. The id of a call is unique in the output, and the same in
// every run.
Json calls_json(const BatchPrompt& prompt, const SampleText& text, size_t choice) {
  Json list = Json::array();
  for (const ToolCall& call : text.calls()) {
    const std::string id = concat("call_", prompt.job->request_hash, "_", choice, "_", list.size());
    list.push_back({{"id", text.short_call_ids() ? short_call_id(id) : id},
                    {"type", "function"},
                    {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return list;
}

Json message_json(const BatchPrompt& prompt, const SampleText& text, size_t choice,
                  const Tokenizer* tokenizer) {
  Json message = {{"role", "assistant"}, {"content", text_json(prompt, text, false, tokenizer)}};
  if (std::string reasoning = text.reasoning(); !reasoning.empty()) {
    message["reasoning_content"] = std::move(reasoning);
  }
  if (!text.calls().empty()) message["tool_calls"] = calls_json(prompt, text, choice);
  return message;
}

Json usage(const BatchJob& job) {
  const int64_t in = job.prompt_tokens(), out = job.new_tokens();
  return {{"prompt_tokens", in}, {"completion_tokens", out}, {"total_tokens", in + out}};
}

int64_t cut_tokens(const BatchJob& job) {
  int64_t cut = 0;
  for (const BatchPrompt& prompt : job.prompts) cut += prompt.cut;
  return cut;
}

Json choice_json(const BatchPrompt& prompt, const SampleText& text, size_t index,
                 const BatchResultOptions& options) {
  const BatchRequest& request = prompt.job->request;
  Json choice = {{"index", index}};
  if (request.chat) {
    choice["message"] = message_json(prompt, text, index, options.tokenizer);
    choice["logprobs"] = request.logprobs ? chat_logprobs(text, options.tokenizer) : Json(nullptr);
  } else {
    choice["text"] = text_json(prompt, text, request.echo, options.tokenizer);
    choice["logprobs"] = request.logprobs
                             ? completion_logprobs(prompt, text, request.echo, options.tokenizer)
                             : Json(nullptr);
    if (request.prompt_logprobs) {
      choice["prompt_logprobs"] = prompt_logprobs(prompt, options.tokenizer);
    }
  }
  choice["finish_reason"] = text.finish_reason();
  if (request.token_ids) choice["token_ids"] = ids_json(text.picks());
  return choice;
}

Json openai_body(const BatchJob& job, const BatchResultOptions& options) {
  const bool chat = job.request.chat;
  // "created" is 0, because a resumed run must give the same bytes.
  Json body = {{"id", concat(chat ? "chatcmpl-" : "cmpl-", job.request_hash)},
               {"object", chat ? "chat.completion" : "text_completion"},
               {"created", 0},
               {"model", job.request.model.empty() ? options.model : job.request.model}};
  Json choices = Json::array();
  for (const BatchPrompt& prompt : job.prompts) {
    for (const SampleText& text : prompt.texts) {
      choices.push_back(choice_json(prompt, text, choices.size(), options));
    }
  }
  body["choices"] = std::move(choices);
  if (chat && job.request.prompt_logprobs) {
    body["prompt_logprobs"] = prompt_logprobs(job.prompts.front(), options.tokenizer);
  }
  body["usage"] = usage(job);
  if (const int64_t cut = cut_tokens(job)) body["truncated_prompt_tokens"] = cut;
  return body;
}

Json plain_choice(const BatchPrompt& prompt, const SampleText& text, size_t index,
                  const BatchResultOptions& options) {
  const BatchRequest& request = prompt.job->request;
  Json choice = {{"text", text_json(prompt, text, request.echo, options.tokenizer)},
                 {"finish_reason", text.finish_reason()}};
  if (std::string reasoning = text.reasoning(); !reasoning.empty()) {
    choice["reasoning"] = std::move(reasoning);
  }
  if (!text.calls().empty()) choice["tool_calls"] = calls_json(prompt, text, index);
  if (request.token_ids) choice["token_ids"] = ids_json(text.picks());
  if (prompt.score_prompt) {
    const int most = request.prompt_logprobs.value_or(request.top_logprobs);
    choice["prompt_logprobs"] = plain_logprobs(prompt.scores, most, options.tokenizer);
  }
  if (request.logprobs) {
    choice["logprobs"] = plain_logprobs(text.picks(), request.top_logprobs, options.tokenizer);
  }
  return choice;
}

Json plain_fields(const BatchJob& job, const BatchResultOptions& options) {
  Json fields = Json::object();
  Json choices = Json::array();
  for (const BatchPrompt& prompt : job.prompts) {
    for (const SampleText& text : prompt.texts) {
      choices.push_back(plain_choice(prompt, text, choices.size(), options));
    }
  }
  if (choices.size() == 1) {
    fields.update(choices.front());
  } else {
    fields["choices"] = std::move(choices);
  }
  fields["prompt_tokens"] = job.prompt_tokens();
  fields["completion_tokens"] = job.new_tokens();
  if (const int64_t cut = cut_tokens(job)) fields["truncated_prompt_tokens"] = cut;
  return fields;
}

EmbedResult embed_result(const BatchJob& job, const BatchResultOptions& options) {
  EmbedResult result;
  for (const BatchPrompt& prompt : job.prompts) result.vectors.push_back(prompt.vector);
  result.tokens = job.prompt_tokens();
  result.cut = cut_tokens(job);
  result.model = job.request.model.empty() ? options.model : job.request.model;
  result.normalize = options.normalize;
  return result;
}

}  // namespace

std::string batch_result(const BatchJob& job, const BatchResultOptions& options) {
  const std::optional<EmbedRequest>& embed = job.request.embed;
  if (options.plain) {
    return plain_result(job, [&] {
      return embed ? embed_fields(*embed, embed_result(job, options)) : plain_fields(job, options);
    });
  }
  return openai_result(job, [&] {
    return embed ? embed_body(*embed, embed_result(job, options), job.request_hash)
                 : openai_body(job, options);
  });
}

}  // namespace skald
