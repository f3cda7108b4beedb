// skald run: a prompt in, text out, token by token.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "app/files/input.h"
#include "app/files/json.h"
#include "app/files/signals.h"
#include "app/generate/chat_flags.h"
#include "app/generate/constraint.h"
#include "app/generate/constraint_flags.h"
#include "app/generate/generate.h"
#include "app/generate/guess_flags.h"
#include "app/generate/guessing.h"
#include "app/generate/sampling_flags.h"
#include "app/model/chat_template.h"
#include "app/model/device.h"
#include "app/model/open.h"
#include "app/model/words.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/run/prompt.h"
#include "app/run/prompt_cache.h"
#include "app/run/report.h"
#include "app/terminal/output.h"
#include "app/terminal/text_output.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/chat/chat_encode.h"

namespace skald {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostLogprobs = 1000;

struct RunFlags {
  ModelFlags model;
  SamplingFlags sampling;
  Words words;  // [MODEL] [PROMPT]
  PromptFlags prompt;
  ChatFlags chat_prompt;
  PromptCacheFlags cache;
  ConstraintFlags constraint;
  GuessFlags guess;
  std::vector<std::string> stops;
  bool chat = false, raw = false, special = false, ignore_eos = false;
  bool echo = false, stats = false, json = false, raw_output = false;
  int64_t count = -1;
  std::optional<int> logprobs;
};

void check_flags(RunFlags& flags) {
  if (flags.raw && (flags.chat || flags.chat_prompt.any())) {
    fail(Exit::Usage, "--raw turns the chat template off, but ",
         flags.chat ? "--chat" : "-sys, --chat-template or --chat-template-kwargs",
         " needs it; give only one of them");
  }
  flags.chat = flags.chat || flags.chat_prompt.any();
  if (flags.chat && flags.special) {
    fail(Exit::Usage,
         "--special works only without a chat template; leave out --special or --chat");
  }
  if (flags.logprobs && !flags.json) fail(Exit::Usage, "--logprobs needs --json; add --json");
  if (flags.json && flags.echo) {
    fail(Exit::Usage, "--json already contains the prompt; leave --echo out");
  }
  if (flags.cache.read_only && flags.cache.path.empty()) {
    fail(Exit::Usage, "--prompt-cache-ro needs --prompt-cache FILE");
  }
  flags.sampling.params.top_logprobs = flags.logprobs.value_or(0);
  for (std::string& stop : flags.stops) {
    stop = as_utf8(flags.prompt.escapes ? unescape(stop) : stop, "--stop");
  }
}

struct Prompt {
  std::string text;   // as the user gave it
  std::string whole;  // with the template around it
  std::vector<int32_t> ids;
};

Prompt encode_prompt(const RunFlags& flags, std::string text, const OpenedModel& opened,
                     const Tokenizer& tokenizer) {
  if (!flags.chat) {
    EncodeOptions options;
    options.parse_special = flags.special;
    const std::vector<int32_t> ids = tokenizer.encode(text, options);
    return {text, text, ids};
  }
  const ChatTemplate chat = open_chat_template(opened.path, flags.chat_prompt.chosen);
  Json messages = Json::array();
  if (!flags.chat_prompt.system.empty()) {
    const std::string& system = flags.chat_prompt.system;
    messages.push_back(
        {{"role", "system"},
         {"content", as_utf8(flags.prompt.escapes ? unescape(system) : system, "-sys")}});
  }
  messages.push_back({{"role", "user"}, {"content", text}});
  Conversation conversation = read_conversation(dump(messages), "the prompt");
  conversation.more = template_variables(flags.chat_prompt);
  return {text, chat.render(conversation), encode_chat(tokenizer, chat, conversation)};
}

void check_length(const Prompt& prompt, const RunFlags& flags, const Executor& executor,
                  const ModelConfig& config) {
  if (prompt.ids.empty()) {
    fail(Exit::Usage, "the prompt is empty, and this model has no begin token; give a prompt");
  }
  const int64_t tokens = std::ssize(prompt.ids);
  if (tokens + (flags.count != 0) <= executor.context()) return;
  const bool largest = executor.context() >= config.context;
  fail(Exit::Failed, "the prompt needs ", counted(tokens, "token"),
       flags.count != 0 ? " and the answer at least 1" : "", ", but the context holds ",
       executor.context(), largest ? "; shorten it" : "; shorten it or ask for more with -c");
}

// Tells users of a chat model that the prompt is continued, not answered.
void suggest_chat(const RunFlags& flags, const OpenedModel& opened) {
  if (flags.chat || flags.raw || !stderr_is_terminal()) return;
  if (find_chat_templates(opened.path).empty()) return;
  std::fputs(
      "skald: continuing the prompt as text; add --chat to have this model answer it, or --raw to "
      "hide this line\n",
      stderr);
}

// Prints an answer in parts. A terminal shows all of them, with dimmed thinking and a blank line
// between messages. A pipe gets the answer: of messages in channels, only final ones and tool
// calls.
class AnswerOutput {
 public:
  explicit AnswerOutput(TextOutput& out) : out_(out) {}

  void write(const AnswerPart& part) {
    const bool thinking = part.kind == AnswerPart::Kind::Thinking;
    const bool aside = thinking || part.kind == AnswerPart::Kind::Preamble;
    if (part.channel && aside && !out_.is_terminal()) return;
    if (part.begins && written_) out_.write("\n\n");
    written_ = true;
    if (thinking) {
      out_.write_dimmed(part.text);
    } else {
      out_.write(part.text);
    }
  }

  // Preambles are the answer if nothing else is.
  void end(const AnswerText& text) {
    if (!written_) out_.write(text.content());
  }

 private:
  TextOutput& out_;
  bool written_ = false;
};

// One run, after the model's files are open: makes the executor, generates and reports.
class Run {
 public:
  Run(RunFlags& flags, const OpenedModel& opened, std::optional<grammar::Rules> rules,
      Clock::time_point start)
      : flags_(flags),
        opened_(opened),
        rules_(std::move(rules)),
        start_(start),
        tokens_(open_tokenizer(opened)),
        guessing_(flags.guess, flags.model, opened, *tokens_.tokenizer, rules_.has_value()) {}

  int run(const std::string& text) {
    SamplingParams params = sampling_params(flags_.sampling, opened_.model.config.vocab);
    biased_ = !params.logit_bias.empty();
    if (flags_.ignore_eos) {
      for (int32_t id : tokens_.stop_ids) params.logit_bias.emplace_back(id, -INFINITY);
    }
    const Prompt prompt = encode_prompt(flags_, text, opened_, *tokens_.tokenizer);
    RunOptions options = flags_.model.run;
    options.checkpoints = kSessionCheckpoints;
    options.tokens = std::ssize(prompt.ids) + std::max<int64_t>(flags_.count, flags_.count < 0);
    device_ = choose_device(parse_device(flags_.model.device), opened_.model, options);
    executor_ = guessing_.load(options, device_);
    check_length(prompt, flags_, *executor_, opened_.model.config);
    if (!flags_.cache.path.empty()) cache_.emplace(flags_.cache, opened_, *executor_);
    describe(prompt, params);
    Session session(*executor_, params);
    guessing_.start(session);
    if (cache_) {
      report_.cached_tokens = cache_->feed(session, prompt.ids);
    } else {
      session.feed(prompt.ids);
    }
    TextOutput out(flags_.raw_output);
    show_prompt(prompt, out);
    write_text(session, prompt, out);
    if (flags_.guess.check) check_guesses(session, prompt, params, out);
    finish(out);
    return interrupted_by() ? 128 + interrupted_by() : 0;
  }

 private:
  void describe(const Prompt& prompt, const SamplingParams& params) {
    report_.model = opened_.path.string();
    report_.device = executor_->description();
    report_.prompt = prompt.whole;
    report_.seed = params.seed;
    report_.logprobs = flags_.logprobs.has_value();
    report_.prompt_tokens = std::ssize(prompt.ids);
    report_.memory_bytes = executor_->plan().needed();
    report_.draft = guessing_.draft();
    report_.most_tokens = executor_->plan().most_tokens();
  }

  void show_prompt(const Prompt& prompt, TextOutput& out) {
    if (flags_.json || !(flags_.echo || out.is_terminal())) return;
    if (out.is_terminal()) suggest_chat(flags_, opened_);
    out.write_dimmed(prompt.text);
    if (flags_.chat) out.write("\n\n");
  }

  // In a pipe, thinking between tags is a part of the text.
  AnswerTextOptions text_options(const Prompt& prompt, const TextOutput& out) const {
    AnswerTextOptions options;
    const bool continues = !flags_.chat && !prompt.text.empty();
    options.begin = continues ? TextStream::Begin::Continuation : TextStream::Begin::Text;
    options.stops = flags_.stops;
    options.channels = flags_.chat;
    options.tags = flags_.chat && out.is_terminal() && !flags_.json;
    options.prompt = prompt.ids;
    return options;
  }

  std::unique_ptr<TokenFilter> filter(const AnswerTextOptions& text) const {
    if (!rules_) return nullptr;
    const auto vocabulary =
        constraint_vocabulary(*tokens_.tokenizer, tokens_.stop_ids, rules_->tokens());
    return answer_constraint(constraint_masks(*rules_, vocabulary), *tokens_.tokenizer, text.begin,
                             flags_.chat ? text.prompt : std::span<const int32_t>(), !biased_);
  }

  void write_text(Session& session, const Prompt& prompt, TextOutput& out) {
    const AnswerTextOptions text_options = this->text_options(prompt, out);
    AnswerText text(*tokens_.tokenizer, text_options);
    const std::unique_ptr<TokenFilter> filter = this->filter(text_options);
    AnswerOutput answer(out);
    GenerateOptions options = generate_options();
    options.filter = filter.get();
    options.score_forced = flags_.logprobs.has_value();
    if (!flags_.json) options.part = [&](const AnswerPart& part) { answer.write(part); };
    if (flags_.json) options.token = [&](const Picked& p) { report_.picked.push_back(p); };
    report_.load_seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    try {
      report_.generated = generate(session, text, options);
      report_.experts = executor_->expert_use();
      report_.guesses = session.guesses();
      guesses_ended_by_ = session.guesses_ended_by();
      if (!flags_.json) answer.end(text);
    } catch (const Error& error) {
      if (cache_ && error.code() == Exit::Closed) cache_->save(session);
      throw;
    }
    report_.text = text.content();
    report_.reasoning = text.reasoning();
    report_.calls = text.calls();
    if (!cache_) return;
    // With -n 0 nothing was computed yet: one step fills the cache.
    if (flags_.count == 0 && !interrupted_by()) session.next();
    cache_->save(session);
  }

  GenerateOptions generate_options() const {
    GenerateOptions options;
    options.stop_ids = tokens_.stop_ids;
    options.most_tokens = flags_.count;
    options.interrupted = [] { return interrupted_by() != 0; };
    return options;
  }

  // Writes the text again without guesses. The session gives up its part of the cache.
  void check_guesses(Session& session, const Prompt& prompt, const SamplingParams& params,
                     const TextOutput& out) {
    if (report_.guesses.steps == 0 || interrupted_by()) return;
    const std::vector<int32_t> guessed(session.tokens().begin(), session.tokens().end());
    session.truncate(0);
    Session plain(*executor_, params);
    plain.feed(prompt.ids);
    AnswerText text(*tokens_.tokenizer, text_options(prompt, out));
    const Generated again = generate(plain, text, generate_options());
    if (interrupted_by()) return;
    report_.check = {
        again.tokens_per_second(),
        std::equal(plain.tokens().begin(), plain.tokens().end(), guessed.begin(), guessed.end())};
  }

  void finish(TextOutput& out) {
    const Generated& generated = report_.generated;
    if (out.is_terminal() && !flags_.json) out.write("\n");
    if (generated.reason == FinishReason::Context) {
      std::fprintf(stderr, "skald: stopped after %s: the context of %lld tokens is full\n",
                   counted(generated.tokens, "token").c_str(),
                   static_cast<long long>(executor_->context()));
    }
    if (!guesses_ended_by_.empty()) {
      std::fprintf(stderr, "skald: no tokens are guessed any more: %s\n",
                   guesses_ended_by_.c_str());
    }
    report_.most_prompt_tokens =
        executor_->plan().most_prompt_tokens(report_.prompt_tokens - report_.cached_tokens);
    report_.first_seconds = report_.load_seconds + generated.prompt_seconds();
    report_.bytes_per_token =
        executor_->program().weight_bytes() +
        executor_->cache_bytes_per_token() * (report_.prompt_tokens + generated.tokens / 2) +
        2 * executor_->state_bytes();  // read and written
    if (flags_.stats && generated.tokens > 1 && !interrupted_by()) {
      report_.bandwidth = measured_bandwidth(device_, *executor_, flags_.model.run.threads);
    }
    if (flags_.json) StandardOutput().write(json_text(report_, *tokens_.tokenizer));
    if (flags_.guess.check && !interrupted_by()) {
      std::fprintf(stderr, "skald: %s\n", check_line(report_).c_str());
    }
    if (!flags_.stats) return;
    // The text of a pipe may end within a line that the terminal shows too.
    const bool mixed = !out.is_terminal() && stderr_is_terminal();
    std::fprintf(stderr, "%s%s\n", mixed ? "\n" : "", stats_line(report_).c_str());
  }

  RunFlags& flags_;
  const OpenedModel& opened_;
  const std::optional<grammar::Rules> rules_;  // the rules that the generated text follows
  bool biased_ = false;                        // the user gave biases, which may ban tokens
  Clock::time_point start_;
  ModelTokenizer tokens_;
  Guessing guessing_;
  Device device_;
  std::unique_ptr<Executor> executor_;
  std::optional<PromptCache> cache_;
  std::string guesses_ended_by_;  // Session's
  RunReport report_;
};

int run(RunFlags& flags) {
  const Clock::time_point start = Clock::now();
  check_flags(flags);
  parse_device(flags.model.device);  // reports a wrong name before anything is read
  check_guess_flags(flags.guess);
  const TakenWords words =
      take_words(flags.words.given(), flags.model.model, {.text_given = flags.prompt.given()});
  if (const auto code = serve_other_rank(flags.model)) return *code;
  const std::string text = as_utf8(read_prompt(flags.prompt, words.text), "the prompt");
  std::optional<grammar::Rules> rules = constraint_rules(flags.constraint);
  const OpenedModel opened = open_model_of_words(flags.model, words);
  check_context(flags.model, opened.model.config);
  return Run(flags, opened, std::move(rules), start).run(text);
}

void add_prompt_group(Command& command, RunFlags& flags) {
  add_prompt_flags(command, flags.prompt);
  command.flag("--chat", flags.chat, "Answer the prompt as a message, with the chat template")
      .group("Prompt");
  add_system_flag(command, flags.chat_prompt);
  command.flag("--raw", flags.raw, "Continue the prompt as text, also with a chat model")
      .group("Prompt");
  command.flag("--special", flags.special, "Read control tokens such as </s> in the prompt")
      .group("Prompt");
  command
      .option("--prompt-cache", flags.cache.path,
              "Keep the prompt's KV cache in FILE, for prompts that begin alike")
      .type_name("FILE")
      .check(not_empty())
      .group("Prompt");
  command.flag("--prompt-cache-ro", flags.cache.read_only, "Read --prompt-cache, never write it")
      .group("Prompt");
}

}  // namespace

void add_run(Command& program) {
  Command& command = program.add_command(
      "run",
      "Continues a prompt and prints the text as it is generated. The prompt is the last "
      "argument,\n"
      "-p, -f or stdin; stdin is appended if another source is given. A terminal shows the prompt\n"
      "too; a pipe gets only the new text. Ctrl-C ends the text; a second Ctrl-C ends the program.",
      {"skald run \"Once upon a time\"", "skald run -m model.gguf -n 100 --temp 0 -p \"The sea\"",
       "cat letter.txt | skald run -m folder/ --chat \"Answer this letter:\" > answer.txt"});
  auto flags = std::make_shared<RunFlags>();
  add_model_flag(command, flags->model);
  add_words(command, flags->words, "MODEL", "PROMPT");
  add_prompt_group(command, *flags);
  command.option("-n,--n-predict", flags->count, "Generate at most N tokens; -1: no limit")
      .type_name("N")
      .check(in_range(-1, int64_t{1} << 40))
      .show_default()
      .group(kChangesOutput);
  command.option("--stop", flags->stops, "End before TEXT would appear; may be repeated")
      .type_name("TEXT")
      .repeatable()
      .check(not_empty())
      .group(kChangesOutput);
  add_sampling_flags(command, flags->sampling);
  command.flag("--ignore-eos", flags->ignore_eos, "Never generate a token that ends the text")
      .group(kChangesOutput);
  add_constraint_flags(command, flags->constraint);
  add_guess_flags(command, flags->guess);
  add_template_flags(command, flags->chat_prompt);
  add_run_flags(command, flags->model);
  add_device_flag(command, flags->model);
  add_rank_flag(command, flags->model.device);
  command.flag("--echo", flags->echo, "Print the prompt in a pipe too").group("Output");
  command.flag("--json", flags->json, "Print one JSON object at the end").group("Output");
  command
      .option("--logprobs", flags->logprobs,
              "With --json: add log-probabilities of each token and of the N best")
      .type_name("N")
      .check(in_range(0, kMostLogprobs))
      .group("Output");
  command
      .flag("--raw-output", flags->raw_output,
            "Send control characters in the text to a terminal unchanged")
      .group("Output");
  command.flag("--stats", flags->stats, "Print seed, timings and memory to stderr").group("Output");
  command
      .flag("--spec-check", flags->guess.check,
            "Write the text again without guesses, and compare the times")
      .group("Output");
  command.action([=] { return run(*flags); });
}

}  // namespace skald
