#include "app/batch/result.h"

#include "app/batch/logprobs.h"
#include "engine/base/error.h"

namespace skald {
namespace {

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

Json usage(const BatchJob& job) {
  const int64_t in = job.prompt_tokens(), out = job.new_tokens();
  return {{"prompt_tokens", in}, {"completion_tokens", out}, {"total_tokens", in + out}};
}

int64_t cut_tokens(const BatchJob& job) {
  int64_t cut = 0;
  for (const BatchPrompt& prompt : job.prompts) cut += prompt.cut;
  return cut;
}

Json choice_json(const BatchPrompt& prompt, const SampleText& text,
                 const BatchResultOptions& options) {
  const BatchRequest& request = prompt.job->request;
  Json choice = {{"index", 0}};
  if (request.chat) {
    choice["message"] = {{"role", "assistant"},
                         {"content", text_json(prompt, text, false, options.tokenizer)}};
    choice["logprobs"] = request.logprobs ? chat_logprobs(text, options.tokenizer) : Json(nullptr);
  } else {
    choice["text"] = text_json(prompt, text, request.echo, options.tokenizer);
    choice["logprobs"] = request.logprobs
                             ? completion_logprobs(prompt, text, request.echo, options.tokenizer)
                             : Json(nullptr);
  }
  choice["finish_reason"] = text.finish_reason();
  if (request.token_ids) choice["token_ids"] = ids_json(text.picks());
  return choice;
}

Json openai_body(const BatchJob& job, const BatchResultOptions& options) {
  const bool chat = job.request.chat;
  // No time of day: a resumed run must give the same bytes.
  Json body = {{"id", concat(chat ? "chatcmpl-" : "cmpl-", job.request_hash)},
               {"object", chat ? "chat.completion" : "text_completion"},
               {"created", 0},
               {"model", job.request.model.empty() ? options.model : job.request.model}};
  Json choices = Json::array();
  for (const BatchPrompt& prompt : job.prompts) {
    for (const SampleText& text : prompt.texts) {
      Json choice = choice_json(prompt, text, options);
      choice["index"] = choices.size();
      choices.push_back(std::move(choice));
    }
  }
  body["choices"] = std::move(choices);
  body["usage"] = usage(job);
  if (const int64_t cut = cut_tokens(job)) body["truncated_prompt_tokens"] = cut;
  return body;
}

Json problem_json(const BatchProblem& problem) {
  return {{"code", problem.code}, {"message", problem.message}};
}

std::string openai_result(const BatchJob& job, const BatchResultOptions& options) {
  Json line = {{"id", concat("batch_req_", job.request_hash)},
               {"custom_id", Json::parse(job.id)},
               {"response", nullptr},
               {"error", nullptr},
               {"request_hash", job.request_hash}};
  if (job.problem) {
    line["error"] = problem_json(*job.problem);
  } else {
    line["response"] = {{"status_code", 200},
                        {"request_id", job.request_hash},
                        {"body", openai_body(job, options)}};
  }
  return dump(line);
}

Json plain_choice(const BatchPrompt& prompt, const SampleText& text,
                  const BatchResultOptions& options) {
  const BatchRequest& request = prompt.job->request;
  Json choice = {{"text", text_json(prompt, text, request.echo, options.tokenizer)},
                 {"finish_reason", text.finish_reason()}};
  if (request.token_ids) choice["token_ids"] = ids_json(text.picks());
  if (prompt.score_prompt) {
    choice["prompt_logprobs"] = plain_logprobs(prompt.scores, options.tokenizer);
  }
  if (request.logprobs) choice["logprobs"] = plain_logprobs(text.picks(), options.tokenizer);
  return choice;
}

std::string plain_result(const BatchJob& job, const BatchResultOptions& options) {
  Json line = {{"id", Json::parse(job.id)}};
  if (job.problem) {
    line["error"] = problem_json(*job.problem);
  } else {
    Json choices = Json::array();
    for (const BatchPrompt& prompt : job.prompts) {
      for (const SampleText& text : prompt.texts) {
        choices.push_back(plain_choice(prompt, text, options));
      }
    }
    if (choices.size() == 1) {
      line.update(choices.front());
    } else {
      line["choices"] = std::move(choices);
    }
    line["prompt_tokens"] = job.prompt_tokens();
    line["completion_tokens"] = job.new_tokens();
    if (const int64_t cut = cut_tokens(job)) line["truncated_prompt_tokens"] = cut;
  }
  line["request_hash"] = job.request_hash;
  return dump(line);
}

}  // namespace

std::string batch_result(const BatchJob& job, const BatchResultOptions& options) {
  return options.plain ? plain_result(job, options) : openai_result(job, options);
}

}  // namespace skald
