// skald batch: a file of requests in, a file of results out.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/batch/dry_run.h"
#include "app/batch/flags.h"
#include "app/batch/guessing.h"
#include "app/batch/model.h"
#include "app/batch/run.h"
#include "app/files/atomic_file.h"
#include "app/files/json.h"
#include "app/jobs/limits.h"
#include "app/jobs/run.h"
#include "app/jobs/work.h"
#include "app/model/plan_report.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/cpu/machine.h"

namespace skald {
namespace {

using Executors = std::vector<std::unique_ptr<Executor>>;

BatchPrepareOptions prepare_options(const BatchFlags& flags, const BatchModel& model,
                                    const SamplingParams& params, int64_t context) {
  BatchPrepareOptions options;
  options.tokenizer = model.tokens.tokenizer.get();
  options.chat_template = model.chat_template ? &*model.chat_template : nullptr;
  options.chat_problem = model.chat_problem;
  options.variables = template_variables(flags.chat);
  options.stop_ids = model.tokens.stop_ids;
  options.adapters = model.adapters;
  options.vocab = model.opened.model.config.vocab;
  options.context = context;
  options.params = params;
  options.max_tokens = flags.max_tokens;
  options.ignore_eos = flags.ignore_eos;
  try {
    options.embed = choose_embedding(model.opened, flags.embed);
  } catch (const Error& error) {
    if (error.code() == Exit::Usage) throw;  // a flag is wrong
    options.embed_problem = error.what();
  }
  options.dim = model.opened.model.config.dim;
  options.headless = model.opened.headless;
  options.special = flags.special;
  options.separate_thinking = flags.separate_thinking;
  options.on_overflow = flags.overflow();
  if (flags.text && !options.tokenizer) {
    fail(Exit::Usage, "--text: the model has no tokenizer; give prompts as token ids");
  }
  return options;
}

Json run_json(const BatchFlags& flags, const JobLimits& limits, const Executors& executors,
              const BatchGuessing& guessing) {
  Json devices = Json::array();
  for (const auto& executor : executors) devices.push_back(executor->description());
  Json json = {{"model", flags.model.model},
               {"input", flags.input},
               {"lines", flags.lines},
               {"devices", devices},
               {"max_seqs", limits.run.sequences},
               {"max_tokens_per_step", limits.run.rows},
               {"cache_tokens", limits.run.cache_tokens}};
  if (const auto& draft = guessing.draft()) json["draft"] = draft_json(*draft);
  return json;
}

// The lines of the input, for the progress; -1 for a pipe, or a file that takes long to count.
int64_t count_lines(const BatchFlags& flags, int64_t bytes) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  if (flags.quiet || flags.input == "-" || bytes < 0 || bytes > kMostBytes) return -1;
  JsonlReader reader(flags.input, flags.range(), {.line = 1 << 10, .kept = 0});
  JsonlLine line;
  int64_t lines = 0;
  while (reader.next(line)) ++lines;
  return lines;
}

// A model on the CPU gets the threads for itself.
int prepare_threads(const Device& device) {
  constexpr int kMost = 8;
  return device.cuda ? std::clamp(cpu::available_threads() / 2, 1, kMost) : 1;
}

struct Setup {
  const BatchFlags& flags;
  const BatchModel& model;
  const JobLimits& limits;
  BatchGuessing& guessing;
  const std::vector<Device>& devices;
  JsonlReader& reader;
  BatchPreparer& preparer;
  const Json& settings;
  std::shared_ptr<FileClaim> claim;  // of the output
  bool normalize;                    // vectors
};

int dry_run(const Setup& s) {
  JobInput input(s.reader, nullptr, s.flags.text, "");
  BatchEstimate estimate{.census = take_census(input, s.preparer, s.limits.run.context),
                         .limits = s.limits,
                         .devices = s.devices.size()};
  for (const Device& device : s.devices) estimate.gpus += device.cuda ? device.ranks : 0;
  if (estimate.census.texts > 0) {
    const auto executor = make_executor(s.model.opened.model, s.limits.run, s.devices.front());
    estimate.rates = measure_rates(*executor, s.limits.run.sequences, estimate.census);
  }
  StandardOutput().write(to_text(estimate));
  if (!s.flags.report.empty()) {
    AtomicFile file(s.flags.report, {.mode = 0666});
    file.write(dump(to_json(estimate), 2) + "\n");
    file.commit();
  }
  return static_cast<int>(estimate.census.bad > 0 ? Exit::SomeLines : Exit::Done);
}

// What a person reads on stderr at the end.
std::string report(const JobProgress& progress, const SchedulerCounts& work, size_t devices) {
  const double seconds = progress.seconds() * static_cast<double>(devices);
  const auto percent = [&](double part) { return std::lround(100 * part / seconds); };
  std::string text = concat("skald: ", progress.summary(progress.seconds()),
                            "\nskald: ", counted(work.steps, "step"), ", the model was busy ",
                            percent(work.busy_seconds), " % of the time");
  if (work.device_seconds > 0) text += concat(", the GPU ", percent(work.device_seconds), " %");
  if (work.shared_tokens > 0) text += concat(", ", counted(work.shared_tokens, "token"), " shared");
  const int64_t begun_again = work.preemptions - work.swapped;
  if (work.swapped > 0) text += concat(", ", counted(work.swapped, "text"), " swapped");
  if (begun_again > 0) text += concat(", ", counted(begun_again, "text"), " begun again");
  const std::string guesses = guesses_text(work.guesses);
  if (!guesses.empty()) text += "\nskald: " + guesses;
  if (!work.guesses.draft_ended_by.empty()) {
    text += "\nskald: the draft model guesses no more: " + work.guesses.draft_ended_by;
  }
  if (work.lowered > 0) {
    text += concat("\nskald: the device's memory ran out ", counted(work.lowered, "time"),
                   ", and less was computed at a time; see --max-seqs and "
                   "--max-tokens-per-step");
  }
  return text + "\n";
}

int compute(const Setup& s) {
  const BatchFlags& flags = s.flags;
  JobRun job(flags, s.reader, s.settings,
             {.claim = s.claim,
              .text = flags.text,
              .in_order = !flags.unordered,
              .lines = count_lines(flags, s.reader.size())});
  const Executors executors = make_executors(s.guessing.tapped(), s.limits.run, s.devices);
  s.guessing.load(executors, s.devices);
  job.begin(run_json(flags, s.limits, executors, s.guessing));
  const BatchRun run{
      job,
      s.preparer,
      {s.model.tokens.tokenizer.get(), s.model.name, flags.plain, s.normalize},
      {.sequences = s.limits.run.sequences, .swap = swap_limits(executors, s.devices.front())},
      prepare_threads(s.devices.front()),
      s.guessing.plans(executors.size())};
  SchedulerCounts work;
  const int code =
      job.execute([&] { work = run_batch(run, executors); },
                  [&] {
                    Json counts = work_json(work);
                    if (!flags.report.empty()) {
                      counts.update(floor_json(work, *executors.front(), s.devices.front(),
                                               flags.model.run.threads));
                    }
                    return counts;
                  });
  if (flags.quiet) return code;
  std::fputs(report(job.progress(), work, executors.size()).c_str(), stderr);
  std::fputs(s.preparer.unknown_fields().text().c_str(), stderr);
  std::fputs(job.closing_text().c_str(), stderr);
  return code;
}

int batch(BatchFlags& flags) {
  flags.model.run.reproducible = flags.reproducible;
  if (const auto code = serve_job_rank(flags)) return *code;
  std::vector<Device> devices = parse_devices(flags.model.device);
  check_job_flags(flags);
  check_guess_flags(flags.guess);
  const std::shared_ptr<FileClaim> claim = flags.dry_run ? nullptr : claim_job_output(flags);
  JsonlReader reader(flags.input, flags.range());
  flags.model.headless = true;
  const BatchModel model = open_batch_model(flags.model, flags.chat_template);
  const ModelConfig& config = model.opened.model.config;
  const SamplingParams params = sampling_params(flags.sampling, config.vocab);
  devices.front() = choose_device(devices.front(), model.opened.model, flags.model.run);
  BatchGuessing guessing(flags.guess, flags.model, model);
  const JobLimits limits = guessing.choose_limits(flags.model.run, flags.sequences, devices);
  std::fputs(context_note(limits.plan).c_str(), stderr);
  const BatchPrepareOptions options = prepare_options(flags, model, params, limits.run.context);
  BatchPreparer preparer(options);
  Json settings = model.hashes;
  settings["context"] = limits.run.context;
  settings.update(batch_settings(flags, params));
  // As for other models, outputs of earlier versions can be continued.
  const bool named = options.embed && *options.embed != EmbedChoice{};
  if (named) settings["embedding"] = embed_settings(*options.embed);
  const Setup setup{
      flags,  model,    limits,   guessing, devices,
      reader, preparer, settings, claim,    !options.embed || options.embed->normalize};
  return flags.dry_run ? dry_run(setup) : compute(setup);
}

}  // namespace

void add_batch(Command& program) {
  Command& command = program.add_command(
      "batch",
      "Runs a file of requests, many at a time: a JSON object a line, in OpenAI's batch form or "
      "plain\n"
      "({\"prompt\": ...}, {\"messages\": ...}). After a kill, --resume goes on. Exit code 5: "
      "lines failed.",
      {"skald batch model.gguf -i prompts.jsonl -o results.jsonl",
       "skald batch -m folder/ --text --plain -n 50 < prompts.txt | jq -r .text"});
  auto flags = std::make_shared<BatchFlags>();
  add_batch_flags(command, *flags);
  command.action([=] { return batch(*flags); });
}

}  // namespace skald
