// skald embed: texts in, vectors out.
#include <cstdio>
#include <filesystem>

#include "app/embed/npy.h"
#include "app/embed/run.h"
#include "app/files/json.h"
#include "app/files/output_file.h"
#include "app/files/write.h"
#include "app/jobs/limits.h"
#include "app/jobs/run.h"
#include "app/jobs/work.h"
#include "app/model/cache_types.h"
#include "app/model/open.h"
#include "app/model/plan_report.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/fingerprint.h"
#include "models/text/tokenizer_hash.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

struct EmbedCommandFlags : JobFlags {
  EmbedFlags embed;
  std::vector<std::string> texts;
  std::string on_overflow = "error";
  int64_t dimensions = 0;
  bool text = false, plain = false, reproducible = false;
  std::string npy;  // -o, if it ends with .npy: `output` is then the file of lines beside it
};

// Lines go to a file beside the .npy, which is made of them at the end: so --resume can go on.
void name_lines(EmbedCommandFlags& flags) {
  if (!flags.output.ends_with(".npy")) return;
  if (flags.plain) fail(Exit::Usage, "--plain: is for lines of JSON, but the output is a .npy");
  if (fs::exists(flags.output)) {
    fail(Exit::Usage, printable(flags.output),
         ": is there already and is not overwritten; name another file");
  }
  flags.npy = std::exchange(flags.output, flags.output + ".jsonl");
}

std::string lines_of(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) lines += dump(Json{{"input", text}}) + "\n";
  return lines;
}

std::unique_ptr<JsonlReader> open_lines(EmbedCommandFlags& flags, bool from_arguments) {
  if (!from_arguments) return std::make_unique<JsonlReader>(flags.input, flags.range());
  if (flags.text) fail(Exit::Usage, "--text: is for lines of -i; -p gives a text");
  return std::make_unique<JsonlReader>("-p", lines_of(flags.texts), flags.range());
}

// Turns the lines into the .npy, if all of them have a vector. Returns the exit code.
int end_npy(const EmbedCommandFlags& flags, int code, int64_t cols) {
  const std::string name = printable(flags.npy);
  if (code == static_cast<int>(Exit::SomeLines)) {
    std::fprintf(stderr,
                 "skald: %s is not written, because lines without a vector have no row in it; "
                 "correct them and go on with --resume\n",
                 name.c_str());
  }
  if (code != 0) return code;
  const int64_t rows = write_npy(flags.output, flags.npy, cols);
  fs::remove(flags.output);
  fs::rename(manifest_path(flags.output), manifest_path(flags.npy));
  sync_folder_of(flags.npy);
  if (!flags.quiet) {
    std::fprintf(stderr, "skald: %s: %s of %lld numbers\n", name.c_str(),
                 counted(rows, "row").c_str(), static_cast<long long>(cols));
  }
  return code;
}

EmbedOptions embed_options(const EmbedCommandFlags& flags, const OpenedModel& opened,
                           const EmbedChoice& choice, int64_t context) {
  EmbedOptions options;
  options.choice = choice;
  options.model = model_name(opened);
  options.dim = opened.model.config.dim;
  options.vocab = opened.model.config.vocab;
  options.context = context;
  options.dimensions = flags.dimensions;
  options.truncate = flags.on_overflow == "truncate-right";
  options.text = flags.text;
  options.rows_alike = !flags.npy.empty();
  options.plain = flags.plain || options.rows_alike;
  if (options.dimensions > options.dim) {
    fail(Exit::Usage, "--dimensions ", options.dimensions, ": the model's vectors have ",
         options.dim, " numbers");
  }
  return options;
}

int embed(EmbedCommandFlags& flags) {
  if (const auto code = serve_job_rank(flags)) return *code;
  const bool from_arguments = !flags.texts.empty();
  if (from_arguments) flags.input = "-p";
  check_job_flags(flags);
  name_lines(flags);
  const std::shared_ptr<FileClaim> claim = claim_job_output(flags);
  const Device asked = parse_device(flags.model.device);
  const std::unique_ptr<JsonlReader> reader = open_lines(flags, from_arguments);
  flags.model.headless = true;
  const OpenedModel opened = open_model(flags.model);
  check_context(flags.model, opened.model.config);
  const EmbedChoice choice = choose_embedding(opened, flags.embed);
  const ModelTokenizer tokens = open_tokenizer_if_any(opened);
  flags.model.run.scores = choice.pooling == Pooling::Mean;  // every hidden row is read
  flags.model.run.reproducible = flags.reproducible;
  const Device device = choose_device(asked, opened.model, flags.model.run);
  const JobLimits limits = choose_job_limits(opened.model, flags.model.run, 0, device);
  std::fputs(context_note(limits.plan).c_str(), stderr);
  EmbedOptions options = embed_options(flags, opened, choice, limits.run.context);
  options.tokenizer = tokens.tokenizer.get();
  Json settings = {{"model", model_hash(opened)},
                   {"tokenizer", options.tokenizer ? tokenizer_hash(*options.tokenizer) : ""},
                   {"context", options.context},
                   {"type", flags.model.type},
                   {"exact", flags.model.run.exact},
                   {"reproducible", flags.reproducible},
                   {"dimensions", options.dimensions},
                   {"on_overflow", flags.on_overflow},
                   {"text", flags.text},
                   {"plain", options.plain},
                   {"npy", options.rows_alike}};
  add_cache_types(flags.model.run.cache_types, settings);
  settings.update(embed_settings(choice));
  JobRun job(flags, *reader, settings, {.claim = claim, .text = flags.text});
  std::vector<std::unique_ptr<Executor>> executors;
  executors.push_back(make_executor(opened.model, limits.run, device));
  job.begin({{"model", opened.path.string()},
             {"input", flags.input},
             {"lines", flags.lines},
             {"devices", Json::array({executors.front()->description()})}});
  UnknownFields unknown;
  const SchedulerLimits scheduling{.sequences = limits.run.sequences,
                                   .swap = swap_limits(executors, device)};
  SchedulerCounts work;
  const int code = job.execute(
      [&] { work = run_embedding(*executors.front(), scheduling, options, job, unknown); },
      [&] { return work_json(work); });
  if (!flags.quiet) {
    const std::string summary = job.progress().summary(job.progress().seconds());
    std::fprintf(stderr, "skald: %s\n%s%s", summary.c_str(), unknown.text().c_str(),
                 job.closing_text().c_str());
  }
  const int64_t cols = options.dimensions > 0 ? options.dimensions : options.dim;
  return flags.npy.empty() ? code : end_npy(flags, code, cols);
}

}  // namespace

void add_embed(Command& program) {
  Command& command = program.add_command(
      "embed",
      "Turns texts into vectors, for search and comparison. A line is an object with \"input\" (a "
      "text,\n"
      "token ids, or a list of either), in OpenAI's batch form or plain; or one with \"query\" "
      "and\n"
      "\"documents\", which are ranked by the cosine of their vectors. Exit code 5 says that some "
      "lines\n"
      "failed.",
      {"skald embed model/ -i texts.jsonl -o vectors.jsonl",
       "skald embed model/ --text -i texts.txt -o vectors.npy",
       "skald embed model/ --plain -p \"The sky is blue\" | jq .embedding"});
  auto flags = std::make_shared<EmbedCommandFlags>();
  add_job_flags(command, *flags, "Read lines from here; -: stdin",
                "Write results here, one line each; -: stdout; X.npy: one matrix of all vectors");
  command.option("-p,--prompt", flags->texts, "Take this text, not lines; may be repeated")
      .type_name("TEXT")
      .repeatable()
      .excludes(command.find_flag("--input"))
      .group(kJobFiles);
  command.flag("--text", flags->text, "Read each line as a text, not as JSON").group(kJobFiles);
  command.flag("--plain", flags->plain, "Write plain results instead of OpenAI's form")
      .group(kJobFiles);
  add_embed_flags(command, flags->embed, kChangesOutput);
  command
      .option("--dimensions", flags->dimensions,
              "Keep the first N numbers of a vector, before it is normalized; 0: all")
      .type_name("N")
      .check(in_range(0, 1 << 20))
      .show_default()
      .group(kChangesOutput);
  command
      .option("--on-overflow", flags->on_overflow,
              "A text longer than the context: error, or truncate-right")
      .type_name("WHAT")
      .one_of({"error", "truncate-right"})
      .show_default()
      .group(kChangesOutput);
  command
      .flag("--reproducible", flags->reproducible,
            "Results that do not depend on their neighbours, to the last bit")
      .group(kChangesOutput);
  add_run_flags(command, flags->model);
  add_device_flag(command, flags->model);
  add_rank_flag(command, flags->model.device);
  command.action([=] { return embed(*flags); });
}

}  // namespace skald
