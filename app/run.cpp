// skald run: a prompt in, text out, token by token.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "app/commands.h"
#include "app/device.h"
#include "app/help.h"
#include "app/input.h"
#include "app/open.h"
#include "app/output.h"
#include "app/sampling_flags.h"
#include "app/signals.h"
#include "engine/error.h"
#include "engine/printable.h"
#include "engine/session.h"
#include "tokenizer/text_stream.h"

namespace skald {
namespace {

using Clock = std::chrono::steady_clock;

struct RunFlags {
  ModelFlags model;
  SamplingFlags sampling;
  Words words;  // [MODEL] [PROMPT]
  std::string prompt, file;
  bool escapes = false, special = false, ignore_eos = false, echo = false, stats = false;
  int64_t count = -1;
};

struct Timing {
  Clock::time_point start = Clock::now(), computing, first, last;
  int64_t prompt_tokens = 0, new_tokens = 0;
};

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

bool names_a_model(const std::string& word) {
  std::error_code error;
  const std::filesystem::path path(word);
  if (std::filesystem::is_directory(path, error)) {
    return std::filesystem::exists(path / "config.json", error) || word.ends_with("/");
  }
  return std::filesystem::is_regular_file(path, error) && is_gguf(path);
}

// Sorts out the two positional words, -p, -f and stdin; whatever is given twice is an error.
std::string resolve_prompt(RunFlags& flags, bool prompt_given) {
  std::vector<std::string> words = flags.words.given();
  const bool model_given = !flags.model.model.empty();
  const bool prompt_elsewhere = prompt_given || !flags.file.empty();
  const bool model_first =
      words.size() == 2 ||
      (words.size() == 1 && ((prompt_elsewhere && !model_given) || names_a_model(words[0])));
  if (model_first) {
    if (model_given) {
      fail(Exit::Usage, "a model is given twice: '", printable(words[0]), "' and -m ",
           printable(flags.model.model), "; quote the prompt if it has spaces");
    }
    flags.model.model = words[0];
    words.erase(words.begin());
  }
  const int sources = static_cast<int>(!words.empty()) + prompt_given + !flags.file.empty();
  if (sources > 1) fail(Exit::Usage, "a prompt is given twice; use one of: the argument, -p, -f");

  std::string prompt;
  if (!words.empty()) {
    prompt = words[0];
  } else if (prompt_given) {
    prompt = flags.prompt;
  } else if (!flags.file.empty()) {
    prompt = read_text(flags.file);
  } else if (!stdin_is_terminal()) {
    prompt = read_text("-");
  } else {
    fail(Exit::Usage, "no prompt: give it as an argument, with -p or -f, or through a pipe");
  }
  return flags.escapes ? unescape(prompt) : prompt;
}

void print_stats(const Timing& timing, const Executor& executor, int64_t context_read) {
  const double prompt = seconds(timing.computing, timing.first);
  std::string line = concat("\n", timing.prompt_tokens, " prompt tokens, first token after ");
  char text[160];
  std::snprintf(text, sizeof text, "%.3f s (%.3f s of it computing, %.1f tok/s)",
                seconds(timing.start, timing.first), prompt,
                static_cast<double>(timing.prompt_tokens) / prompt);
  line += text;
  if (timing.new_tokens > 1) {
    const double rate =
        static_cast<double>(timing.new_tokens - 1) / seconds(timing.first, timing.last);
    const double bytes = static_cast<double>(executor.program().weight_bytes() + context_read);
    std::snprintf(text, sizeof text,
                  "; %lld new tokens, %.1f tok/s, %.1f GB/s of weights and cache",
                  static_cast<long long>(timing.new_tokens), rate, rate * bytes / 1e9);
    line += text;
  }
  std::fprintf(stderr, "%s; %s\n", line.c_str(), executor.description().c_str());
}

int run(RunFlags& flags, bool prompt_given) {
  const Device device = parse_device(flags.model.device);
  const std::string prompt = resolve_prompt(flags, prompt_given);
  Timing timing;
  const OpenedModel opened = open_model(flags.model);
  check_context(flags.model, opened.model.config);
  const ModelTokenizer tokens = open_tokenizer(opened);
  const Tokenizer& tokenizer = *tokens.tokenizer;
  SamplingParams params = sampling_params(flags.sampling, opened.model.config.vocab);
  if (flags.ignore_eos) {
    for (int32_t id : tokens.stop_ids) params.logit_bias.emplace_back(id, -INFINITY);
  }

  EncodeOptions encoding;
  encoding.parse_special = flags.special;
  const std::vector<int32_t> ids = tokenizer.encode(prompt, encoding);
  if (ids.empty())
    fail(Exit::Usage, "the prompt is empty, and this model has no token to begin with");
  const auto executor = make_executor(opened.model, flags.model.run, device);
  const int64_t prompt_tokens = static_cast<int64_t>(ids.size());
  if (prompt_tokens + (flags.count != 0) > executor->context()) {
    const bool largest = executor->context() >= opened.model.config.context;
    fail(Exit::Failed, "the prompt needs ", prompt_tokens, " tokens",
         flags.count != 0 ? " and the answer at least 1" : "", ", but the context holds ",
         executor->context(), largest ? "; shorten it" : "; shorten it or ask for more with -c");
  }
  if (flags.stats)
    std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(params.seed));

  StandardOutput out;
  const bool dim = out.is_terminal();
  if (flags.echo || dim) {
    out.write(dim ? concat("\x1b[2m", printable_text(prompt), "\x1b[0m") : prompt);
  }
  auto show = [&](const std::string& text) { out.write(dim ? printable_text(text) : text); };

  Session session(*executor, params);
  session.feed(ids);
  TextStream stream(tokenizer,
                    prompt.empty() ? TextStream::Begin::Text : TextStream::Begin::Continuation);
  timing.prompt_tokens = prompt_tokens;
  timing.computing = Clock::now();
  bool ended = false, full = false;
  while (!ended && timing.new_tokens != flags.count && !interrupted_by()) {
    full = session.full();
    if (full) break;
    if (session.compute_part()) continue;
    const Picked picked = session.next();
    timing.last = Clock::now();
    if (timing.new_tokens++ == 0) timing.first = timing.last;
    ended = std::find(tokens.stop_ids.begin(), tokens.stop_ids.end(), picked.token) !=
            tokens.stop_ids.end();
    if (!ended) show(stream.feed(picked.token));
  }
  show(stream.flush());
  if (dim) out.write("\n");
  if (full) {
    std::fprintf(stderr, "skald: stopped after %lld tokens, the context is full (%lld)\n",
                 static_cast<long long>(timing.new_tokens),
                 static_cast<long long>(executor->context()));
  }
  if (flags.stats && timing.new_tokens > 0) {
    const int64_t mean_length = prompt_tokens + timing.new_tokens / 2;
    print_stats(timing, *executor, executor->cache_bytes_per_token() * mean_length);
  }
  return interrupted_by() ? 128 + interrupted_by() : 0;
}

}  // namespace

void add_run(CLI::App& program, Action& chosen) {
  CLI::App* command = add_command(
      program, "run",
      "Continues a prompt and prints the text as it comes. The prompt is the last argument, -p, "
      "-f\n"
      "or stdin. On a terminal the prompt is shown too; in a pipe stdout is the new text alone.",
      {"skald run \"Once upon a time\"", "skald run -m model.gguf -n 100 --temp 0 -p \"The sea\"",
       "cat prompt.txt | skald run -m folder/ > answer.txt"});
  auto flags = std::make_shared<RunFlags>();
  add_model_flag(*command, flags->model);
  add_words(*command, flags->words, "MODEL", "PROMPT");
  CLI::Option* prompt = command->add_option("-p,--prompt", flags->prompt, "The prompt")
                            ->type_name("TEXT")
                            ->group("Prompt");
  command->add_option("-f,--file", flags->file, "Read it from a file; -: from stdin")
      ->type_name("FILE")
      ->check(not_empty())
      ->group("Prompt");
  command->add_flag("-e,--escape", flags->escapes, "Read \\n, \\t, \\\\ and \\xHH in it")
      ->group("Prompt");
  command->add_flag("--special", flags->special, "Read control tokens such as </s> in it")
      ->group("Prompt");
  command->add_option("-n,--n-predict", flags->count, "Most new tokens; -1: to the end")
      ->type_name("N")
      ->transform(in_range(-1, int64_t{1} << 40))
      ->capture_default_str()
      ->group(kChangesOutput);
  add_sampling_flags(*command, flags->sampling);
  command->add_flag("--ignore-eos", flags->ignore_eos, "Go on after the end of the text")
      ->group(kChangesOutput);
  add_run_flags(*command, flags->model);
  add_device_flag(*command, flags->model);
  command->add_flag("--echo", flags->echo, "Print the prompt in a pipe too")->group(kOther);
  command->add_flag("--stats", flags->stats, "Print seed and timings to stderr")->group(kOther);
  command->callback([=, &chosen] { chosen = [=] { return run(*flags, prompt->count() > 0); }; });
}

}  // namespace skald
