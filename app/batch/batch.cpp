// skald batch: a file of requests in, a file of results out.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "app/batch/dry_run.h"
#include "app/batch/flags.h"
#include "app/batch/limits.h"
#include "app/batch/manifest.h"
#include "app/batch/model.h"
#include "app/batch/report.h"
#include "app/batch/run.h"
#include "app/files/signals.h"
#include "app/model/plan_report.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/cpu/machine.h"

namespace skald {
namespace {

using Executors = std::vector<std::unique_ptr<Executor>>;

void check_flags(BatchFlags& flags) {
  if (!flags.model_word.empty()) {
    if (!flags.model.model.empty()) {
      fail(Exit::Usage, "a model is given twice: '", printable(flags.model_word), "' and -m ",
           printable(flags.model.model));
    }
    flags.model.model = flags.model_word;
  }
  if (flags.input == "-" && stdin_is_terminal()) {
    fail(Exit::Usage, "no input: name a file of requests with -i, or pipe them in");
  }
  if (!flags.dry_run) {
    check_output(flags.output, flags.resume ? Existing::GoOn : Existing::Refuse);
  }
}

void check_not_the_input(const JsonlReader& reader, const JsonlOutput& output) {
  const struct stat status = output.status();
  if (output.is_file() && reader.is_file(status.st_dev, status.st_ino)) {
    fail(Exit::Usage, output.name(), ": is the input too; name another output");
  }
}

BatchPrepareOptions prepare_options(const BatchFlags& flags, const BatchModel& model,
                                    const SamplingParams& params, int64_t context) {
  BatchPrepareOptions options;
  options.tokenizer = model.tokens.tokenizer.get();
  options.chat_template = model.chat_template ? &*model.chat_template : nullptr;
  options.chat_problem = model.chat_problem;
  options.stop_ids = model.tokens.stop_ids;
  options.vocab = model.opened.model.config.vocab;
  options.context = context;
  options.params = params;
  options.max_tokens = flags.max_tokens;
  options.ignore_eos = flags.ignore_eos;
  options.special = flags.special;
  options.on_overflow = flags.overflow();
  if (flags.text && !options.tokenizer) {
    fail(Exit::Usage, "--text: the model has no tokenizer; give prompts as token ids");
  }
  return options;
}

Json run_json(const BatchFlags& flags, const BatchLimits& limits, const Executors& executors) {
  Json devices = Json::array();
  for (const auto& executor : executors) devices.push_back(executor->description());
  return {{"model", flags.model.model},
          {"input", flags.input},
          {"lines", flags.lines},
          {"devices", devices},
          {"max_seqs", limits.run.sequences},
          {"max_tokens_per_step", limits.run.rows},
          {"cache_tokens", limits.run.cache_tokens}};
}

// Of a file, for the progress; -1: it is no file, or so large that counting would take a while.
int64_t count_lines(const BatchFlags& flags, int64_t bytes) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  if (flags.quiet || flags.input == "-" || bytes < 0 || bytes > kMostBytes) return -1;
  JsonlReader reader(flags.input, flags.range(), {.line = 1 << 10, .kept = 0});
  JsonlLine line;
  int64_t lines = 0;
  while (reader.next(line)) ++lines;
  return lines;
}

BatchProgress::Style progress_style(const BatchFlags& flags) {
  if (flags.quiet) return BatchProgress::Style::Quiet;
  return stderr_is_terminal() ? BatchProgress::Style::Terminal : BatchProgress::Style::Log;
}

// The model has the CPU's threads to itself where it runs there.
int prepare_threads(const Device& device) {
  constexpr int kMost = 8;
  return device.cuda ? std::clamp(cpu::available_threads() / 2, 1, kMost) : 1;
}

struct Setup {
  const BatchFlags& flags;
  const BatchModel& model;
  const BatchLimits& limits;
  const std::vector<Device>& devices;
  JsonlReader& reader;
  BatchPreparer& preparer;
  const Json& settings;
};

int dry_run(const Setup& s) {
  BatchInput input(s.reader, nullptr, s.flags.text, "");
  const BatchCensus census = take_census(input, s.preparer, s.limits.run.context);
  BatchRates rates;
  if (census.texts > 0) {
    const auto executor = make_executor(s.model.opened.model, s.limits.run, s.devices.front());
    rates = measure_rates(*executor, s.limits.run.sequences,
                          census.prompt_tokens / std::max<int64_t>(census.texts, 1));
  }
  StandardOutput().write(census_text(census, s.limits, rates, s.devices.size()));
  return static_cast<int>(census.bad > 0 ? Exit::SomeLines : Exit::Done);
}

int compute(const Setup& s) {
  const BatchFlags& flags = s.flags;
  Manifest manifest(flags.output, s.settings, flags.resume);  // before the model is loaded in vain
  const Executors executors = make_executors(s.model.opened.model, s.limits.run, s.devices);
  JsonlWriter writer({.path = flags.output, .resume = flags.resume, .in_order = !flags.unordered});
  check_not_the_input(s.reader, writer.output());
  const bool kept = writer.output().is_file();
  if (kept) manifest.begin(run_json(flags, s.limits, executors));
  BatchInput input(s.reader, &writer, flags.text, dump(s.settings));
  BatchCounts counts;
  BatchProgress progress(progress_style(flags), count_lines(flags, s.reader.size()), counts);
  const BatchRun run{input,
                     s.reader,
                     s.preparer,
                     writer,
                     {s.model.tokens.tokenizer.get(), s.model.name, flags.plain},
                     counts,
                     progress,
                     {.sequences = s.limits.run.sequences},
                     prepare_threads(s.devices.front())};
  SchedulerCounts work;
  const auto end = [&](int code) {
    counts.earlier = input.done_before();
    if (kept) manifest.end(code, counts_json(counts, work));
    progress.clear();
    return code;
  };
  try {
    work = run_batch(run, executors);
    interrupted_by() ? writer.give_up() : writer.finish();
  } catch (const Error& error) {
    progress.clear();
    try {
      writer.give_up();
      end(static_cast<int>(error.code()));
    } catch (const Error&) {  // the disk is full, say: the first error counts
    }
    throw;
  }
  int code = static_cast<int>(counts.failed > 0 ? Exit::SomeLines : Exit::Done);
  if (interrupted_by()) code = 128 + interrupted_by();
  end(code);
  const BatchReport report{progress, work, executors.size(), s.preparer.unknown_fields()};
  if (!flags.quiet) std::fputs(batch_report(report).c_str(), stderr);
  return code;
}

int batch(BatchFlags& flags) {
  flags.model.run.reproducible = flags.reproducible;
  std::vector<Device> devices = parse_devices(flags.devices, flags.model.device);
  check_flags(flags);
  JsonlReader reader(flags.input, flags.range());
  const BatchModel model = open_batch_model(flags.model, flags.chat_template);
  const ModelConfig& config = model.opened.model.config;
  const SamplingParams params = sampling_params(flags.sampling, config.vocab);
  devices.front() = choose_device(devices.front(), model.opened.model, flags.model.run);
  const BatchLimits limits =
      choose_batch_limits(model.opened.model, flags.model.run, flags.sequences, devices.front());
  std::fputs(plan_notes(limits.plan).c_str(), stderr);
  BatchPreparer preparer(prepare_options(flags, model, params, limits.run.context));
  Json settings = model.hashes;
  settings["context"] = limits.run.context;
  settings.update(batch_settings(flags, params));
  const Setup setup{flags, model, limits, devices, reader, preparer, settings};
  return flags.dry_run ? dry_run(setup) : compute(setup);
}

}  // namespace

void add_batch(CLI::App& program, Action& chosen) {
  CLI::App* command = add_command(
      program, "batch",
      "Runs a file of requests, many at a time: a JSON object a line, in the form of OpenAI's "
      "batches\n"
      "or plain ({\"prompt\": ...}, {\"messages\": ...}, {\"prompt_ids\": ...}). Nothing is lost "
      "when it is\n"
      "killed: --resume goes on. Exit code 5 says that some lines failed.",
      {"skald batch model.gguf -i prompts.jsonl -o results.jsonl",
       "skald batch -m folder/ --text --plain -n 50 < prompts.txt | jq -r .text",
       "skald batch model.gguf -i prompts.jsonl -o results.jsonl --resume"});
  auto flags = std::make_shared<BatchFlags>();
  add_batch_flags(*command, *flags);
  command->callback([=, &chosen] { chosen = [=] { return batch(*flags); }; });
}

}  // namespace skald
