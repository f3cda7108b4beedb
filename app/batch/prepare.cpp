#include "app/batch/prepare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/embed/texts.h"
#include "app/jobs/earlier_results.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/chat/chat_encode.h"

namespace skald {
namespace {

// Thrown where a prompt is too long, and --on-overflow skip says to pass over it.
struct Skipped {};

// The random numbers of a sample. The id 0 draws those of `skald run`, which is request 0.
uint64_t stream_of(const std::string& id, size_t prompt, size_t sample) {
  if (id == "0" && prompt == 0 && sample == 0) return 0;
  return name_hash(concat(id, " ", prompt, " ", sample))[0];
}

}  // namespace

BatchPreparer::BatchPreparer(BatchPrepareOptions options) : options_(std::move(options)) {
  if (!options_.tokenizer) return;
  constraints_.emplace(*options_.tokenizer, options_.stop_ids);
  if (options_.chat_template) tools_.emplace(*options_.tokenizer, *options_.chat_template);
}

std::unique_ptr<BatchJob> BatchPreparer::prepare(JobLine line) {
  auto job = std::make_unique<BatchJob>();
  static_cast<JobLine&>(*job) = std::move(line);
  if (job->problem) return job;
  try {
    read(*job);
  } catch (const Skipped&) {
    job->skipped = true;
  } catch (const LineError& error) {
    job->problem = error.problem();
  } catch (const Error& error) {  // of the template or the tokenizer, about this text
    job->problem = LineProblem{"invalid_request", error.what()};
  }
  job->json = nullptr;
  if (job->problem || job->skipped) {
    job->prompts.clear();
    job->open = 0;
  }
  return job;
}

void BatchPreparer::read(BatchJob& job) {
  BatchRequest& request = job.request;
  if (job.json.is_null()) {  // a line of text
    request.params = options_.params;
    request.prompts = {{std::move(job.text), {}, false}};
  } else {
    std::vector<std::string> unknown;
    request = read_batch_request(job.json, options_.params, unknown);
    unknown_fields_.add(std::move(unknown));
  }
  if (request.embed) return add_embed(job);
  if (options_.headless) fail_request("the model has no head: it gives vectors, but no text");
  check(request);
  job.stop_ids = request.stop_ids;
  const bool ignore_eos = request.ignore_eos || options_.ignore_eos;
  for (int32_t id : options_.stop_ids) {
    if (!ignore_eos) {
      job.stop_ids.push_back(id);
    } else if (id < options_.vocab) {
      request.params.logit_bias.emplace_back(id, -INFINITY);
    }
  }
  if (request.chat) {
    add_chat(job);
  } else {
    for (const LineText& prompt : request.prompts) add_prompt(job, prompt);
  }
  request.conversation.clear();
  request.prompts.clear();
}

void BatchPreparer::check(BatchRequest& request) const {
  try {
    validate(request.params, options_.vocab);
  } catch (const Error& error) {
    fail_request(error.what());
  }
  if (options_.tokenizer) return;
  if (!request.has_ids()) fail_request("the model has no tokenizer: give the prompt as token ids");
  if (!request.stops.empty()) fail_request("the model has no tokenizer: stop texts need one");
  if (!request.response_format.empty()) {
    fail_request("the model has no tokenizer: response_format needs one");
  }
}

void BatchPreparer::add_prompt(BatchJob& job, const LineText& given) {
  if (given.is_ids) {
    job.request.token_ids = true;  // a prompt of ids gets a result of ids
    BatchPrompt& prompt = add_ids(job, given.ids, TextStream::Begin::Continuation);
    if (job.request.echo && options_.tokenizer) {
      prompt.text = options_.tokenizer->decode(prompt.prompt);
    }
    return;
  }
  EncodeOptions encoding;
  encoding.parse_special = options_.special;
  const TextStream::Begin begin =
      given.text.empty() ? TextStream::Begin::Text : TextStream::Begin::Continuation;
  BatchPrompt& prompt = add_ids(job, options_.tokenizer->encode(given.text, encoding), begin);
  if (job.request.echo) {
    prompt.text = prompt.cut == 0 ? given.text : options_.tokenizer->decode(prompt.prompt);
  }
}

int BatchPreparer::adapter_of(const BatchRequest& request) const {
  if (options_.adapters.empty() || request.model.empty()) return 0;
  const auto found = options_.adapters.find(request.model);
  if (found != options_.adapters.end()) return found->second;
  std::string names;
  for (const auto& [name, number] : options_.adapters) {
    names += concat(names.empty() ? "" : ", ", printable(name, 80));
  }
  throw LineError("model_not_found", concat("field 'model': there is no adapter '",
                                            printable(request.model, 80), "'; there are: ", names));
}

void BatchPreparer::add_chat(BatchJob& job) {
  if (!options_.chat_template) fail_request(options_.chat_problem);
  tools_->check(job.request);
  if (job.request.reasoning_effort && !tools_->template_has("reasoning_effort")) {
    unknown_fields_.add({"reasoning_effort"});
  }
  Conversation conversation =
      read_conversation(tools_->conversation(job.request), concat("line ", job.line));
  for (const auto& entry : options_.variables.entries()) {
    if (!conversation.more.find(entry.key)) conversation.more.set(entry.key, entry.value);
  }
  // An answer begins a text; a completion continues the prompt's text.
  add_ids(job, encode_chat(*options_.tokenizer, *options_.chat_template, conversation),
          TextStream::Begin::Text);
}

void BatchPreparer::add_embed(BatchJob& job) {
  EmbedRequest& request = *job.request.embed;
  if (!options_.embed) fail_request(options_.embed_problem);
  check_dimensions(request, options_.dim);
  for (size_t i = 0; i < request.texts.size(); ++i) {
    std::vector<int32_t> ids = embed_ids(request, i, options_.tokenizer, *options_.embed);
    add_ids(job, std::move(ids), TextStream::Begin::Text).pooling = options_.embed->pooling;
    if (!request.return_documents) request.texts[i] = {};
  }
}

BatchPrompt& BatchPreparer::add_ids(BatchJob& job, std::vector<int32_t> ids,
                                    TextStream::Begin begin) {
  const BatchRequest& request = job.request;
  if (ids.empty()) fail_request("the prompt is empty, and the model has no token to begin with");
  for (int32_t id : ids) {
    if (id < 0 || id >= options_.vocab) {
      fail_request(
          concat("token id ", id, " is outside of the model's vocabulary of ", options_.vocab));
    }
  }
  int64_t max_tokens = request.max_tokens.value_or(options_.max_tokens);
  if (max_tokens < 0) max_tokens = options_.context;
  BatchPrompt& prompt = job.prompts.emplace_back();
  fit(ids, max_tokens, prompt);
  prompt.job = &job;
  prompt.prompt = std::move(ids);
  prompt.max_tokens = max_tokens;
  prompt.params = request.params;
  prompt.adapter = adapter_of(request);
  prompt.stops = job.stop_ids;
  prompt.score_prompt = (request.echo && request.logprobs) || request.prompt_logprobs;
  prompt.score_forced = request.logprobs;
  const size_t samples = static_cast<size_t>(request.samples);
  prompt.cancelled = std::make_unique<std::atomic<bool>[]>(samples);
  const SampleTextOptions options = text_options(prompt, begin);
  for (size_t s = 0; s < samples; ++s) {
    prompt.streams.push_back(stream_of(job.id, job.prompts.size() - 1, s));
    prompt.texts.emplace_back(options);
    if (auto one = filter(request, begin, options.prompt)) {
      prompt.filters.push_back(std::move(one));
    }
  }
  job.open += request.samples;
  return prompt;
}

std::unique_ptr<TokenFilter> BatchPreparer::filter(const BatchRequest& request,
                                                   TextStream::Begin begin,
                                                   std::span<const int32_t> prompt) {
  const bool forces = request.params.logit_bias.empty();
  if (tools_ && tools_->constrains(request)) {
    const std::string end = tools_->prompt_end(prompt);
    return constraints_->filter(
        tools_->grammar_key(request, end), [&] { return tools_->rules(request, end); }, begin,
        forces);
  }
  if (request.response_format.empty()) return nullptr;
  return constraints_->filter(request.response_format, begin, prompt, forces);
}

// A prompt that leaves no room for a new token is too long. It is cut only if the user asks for it.
void BatchPreparer::fit(std::vector<int32_t>& ids, int64_t max_tokens, BatchPrompt& prompt) const {
  const int64_t length = static_cast<int64_t>(ids.size());
  if (length + (max_tokens > 0) <= options_.context) return;
  if (options_.on_overflow == OnOverflow::Skip) throw Skipped();
  if (options_.on_overflow == OnOverflow::Error) {
    throw LineError("context_length_exceeded",
                    concat("the prompt is ", counted(length, "token"), " long",
                           max_tokens > 0 ? " and the answer needs at least one" : "",
                           ", but the context holds ", options_.context));
  }
  // Room for the answer, but at least half of the context stays prompt. BOS stays first.
  const int64_t keep = std::max(options_.context - max_tokens, (options_.context + 1) / 2);
  const bool bos = options_.tokenizer && ids.front() == options_.tokenizer->special().bos;
  const int64_t first = bos && keep > 1 ? 1 : 0;
  prompt.cut = length - keep;
  ids.erase(ids.begin() + first, ids.begin() + first + prompt.cut);
}

SampleTextOptions BatchPreparer::text_options(const BatchPrompt& prompt,
                                              TextStream::Begin begin) const {
  const BatchJob& job = *prompt.job;
  SampleTextOptions options;
  options.tokenizer = options_.tokenizer;
  options.begin = begin;
  options.stops = &job.request.stops;
  options.stop_ids = &job.stop_ids;
  options.channels = job.request.chat;
  options.tags = job.request.chat && options_.separate_thinking;
  if (job.request.chat) options.prompt = prompt.prompt;
  if (job.request.tools && tools_->reads_calls()) {
    options.syntax = &tools_->syntax();
    options.tools = job.request.tools.get();
  }
  options.keep_picks = job.request.logprobs || job.request.token_ids;
  return options;
}

}  // namespace skald
