// skald score: how probable each line's continuation is after its context, as evaluations ask it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <deque>

#include "app/batch/input.h"
#include "app/batch/limits.h"
#include "app/batch/manifest.h"
#include "app/batch/progress.h"
#include "app/files/json.h"
#include "app/files/jsonl_writer.h"
#include "app/files/signals.h"
#include "app/model/open.h"
#include "app/model/plan_report.h"
#include "app/program/commands.h"
#include "app/program/help.h"
#include "app/score/round.h"
#include "app/terminal/output.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/fingerprint.h"
#include "models/text/tokenizer_hash.h"

namespace skald {
namespace {

struct ScoreFlags {
  ModelFlags model;
  std::string model_word, input = "-", output = "-", lines, on_overflow = "error";
  bool resume = false, no_bos = false, quiet = false;
};

struct ScoreJob {
  std::unique_ptr<BatchJob> line;
  ScoreText text;
};

std::string result_line(const ScoreJob& job, const std::vector<TokenScore>& scores) {
  Json json = {{"id", Json::parse(job.line->id)}};
  if (job.line->problem) {
    json["error"] = {{"code", job.line->problem->code}, {"message", job.line->problem->message}};
  } else {
    double sum = 0;
    bool greedy = true;
    Json logprobs = Json::array();
    for (const TokenScore& score : scores) {
      sum += score.logprob;
      greedy = greedy && score.rank == 0;
      logprobs.push_back(score.logprob);
    }
    json["logprob"] = sum;
    json["greedy"] = greedy;
    json["logprobs"] = std::move(logprobs);
    json["tokens"] = scores.size();
    json["bytes"] = job.text.bytes;
    json["context_tokens"] = job.text.context;
    if (job.text.cut > 0) json["truncated_context_tokens"] = job.text.cut;
  }
  json["request_hash"] = job.line->request_hash;
  return dump(json);
}

// Reads lines, scores them in rounds and writes their results.
class Scoring {
 public:
  Scoring(Executor& executor, size_t most_texts, const ScoreOptions& options, JsonlWriter& writer,
          BatchCounts& counts, BatchProgress& progress)
      : round_(executor, most_texts),
        options_(options),
        writer_(writer),
        counts_(counts),
        progress_(progress) {}

  void run(BatchInput& input) {
    while (!interrupted_by()) {
      std::unique_ptr<BatchJob> line = input.next();
      if (!line) break;
      counts_.earlier = input.done_before();
      take({std::move(line), {}});
      progress_.show();
    }
    if (!interrupted_by()) compute();
    counts_.earlier = input.done_before();
  }

  const std::set<std::string>& unknown_fields() const { return unknown_; }

 private:
  void take(ScoreJob job) {
    try {
      std::vector<std::string> unknown;
      if (!job.line->problem) job.text = read_score_line(job.line->json, options_, unknown);
      unknown_.insert(unknown.begin(), unknown.end());
    } catch (const BatchError& error) {
      job.line->problem = error.problem();
    }
    job.line->json = nullptr;
    if (job.line->problem) {
      ++counts_.failed;
      writer_.write(job.line->turn, result_line(job, {}));
      return;
    }
    jobs_.push_back(std::move(job));
    if (round_.add(jobs_.back().text)) return;
    ScoreJob next = std::move(jobs_.back());
    jobs_.pop_back();
    compute();
    jobs_.push_back(std::move(next));
    round_.add(jobs_.back().text);
  }

  void compute() {
    if (jobs_.empty()) return;
    const std::vector<std::vector<TokenScore>> scores = round_.run();
    for (size_t i = 0; i < jobs_.size(); ++i) {
      writer_.write(jobs_[i].line->turn, result_line(jobs_[i], scores[i]));
      ++counts_.done;
      counts_.tokens_in += jobs_[i].text.context;
      counts_.tokens_out += jobs_[i].text.scored();
    }
    jobs_.clear();
  }

  ScoreRound round_;
  ScoreOptions options_;
  JsonlWriter& writer_;
  BatchCounts& counts_;
  BatchProgress& progress_;
  std::deque<ScoreJob> jobs_;  // of the round, in its order
  std::set<std::string> unknown_;
};

void check_flags(ScoreFlags& flags) {
  if (!flags.model_word.empty()) {
    if (!flags.model.model.empty()) fail(Exit::Usage, "a model is given twice");
    flags.model.model = flags.model_word;
  }
  if (flags.on_overflow != "error" && flags.on_overflow != "truncate-left") {
    fail(Exit::Usage, "--on-overflow '", printable(flags.on_overflow),
         "': expected error or truncate-left");
  }
  if (flags.input == "-" && stdin_is_terminal()) {
    fail(Exit::Usage, "no input: name a file of lines with -i, or pipe them in");
  }
  check_output(flags.output, flags.resume ? Existing::GoOn : Existing::Refuse);
}

int score(ScoreFlags& flags) {
  check_flags(flags);
  const Device asked = parse_device(flags.model.device);
  const LineRange range =
      flags.lines.empty() ? LineRange() : parse_line_range(flags.lines, "--lines");
  JsonlReader reader(flags.input, range);
  const OpenedModel opened = open_model(flags.model);
  check_context(flags.model, opened.model.config);
  const ModelTokenizer tokens = open_tokenizer_if_any(opened);
  flags.model.run.scores = true;
  const Device device = choose_device(asked, opened.model, flags.model.run);
  const BatchLimits limits = choose_batch_limits(opened.model, flags.model.run, 0, device);
  std::fputs(plan_notes(limits.plan).c_str(), stderr);

  ScoreOptions options;
  options.tokenizer = tokens.tokenizer.get();
  options.vocab = opened.model.config.vocab;
  options.context = limits.run.context;
  options.no_bos = flags.no_bos;
  options.truncate_left = flags.on_overflow == "truncate-left";
  const Json settings = {{"model", model_hash(opened)},
                         {"tokenizer", options.tokenizer ? tokenizer_hash(*options.tokenizer) : ""},
                         {"context", options.context},
                         {"exact", flags.model.run.exact},
                         {"no_bos", flags.no_bos},
                         {"on_overflow", flags.on_overflow}};
  const auto executor = make_executor(opened.model, limits.run, device);
  JsonlWriter writer({.path = flags.output, .resume = flags.resume, .in_order = true});
  const struct stat status = writer.output().status();
  if (writer.output().is_file() && reader.is_file(status.st_dev, status.st_ino)) {
    fail(Exit::Usage, writer.output().name(), ": is the input too; name another output");
  }
  std::optional<Manifest> manifest;
  if (writer.output().is_file()) {
    manifest.emplace(flags.output, settings, flags.resume);
    manifest->begin({{"model", opened.path.string()},
                     {"input", flags.input},
                     {"lines", flags.lines},
                     {"devices", Json::array({executor->description()})}});
  }

  BatchInput input(reader, &writer, false, dump(settings));
  BatchCounts counts;
  using Style = BatchProgress::Style;
  BatchProgress progress(flags.quiet            ? Style::Quiet
                         : stderr_is_terminal() ? Style::Terminal
                                                : Style::Log,
                         -1, counts);
  Scoring scoring(*executor, static_cast<size_t>(limits.run.sequences), options, writer, counts,
                  progress);
  const auto end = [&](int code) {
    progress.clear();
    if (!manifest) return;
    manifest->end(code, {{"done", counts.done.load()},
                         {"failed", counts.failed.load()},
                         {"earlier", counts.earlier.load()},
                         {"tokens_in", counts.tokens_in.load()},
                         {"tokens_out", counts.tokens_out.load()}});
  };
  try {
    scoring.run(input);
    interrupted_by() ? writer.give_up() : writer.finish();
  } catch (const Error& error) {
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
  if (flags.quiet) return code;
  for (const std::string& name : scoring.unknown_fields()) {
    std::fprintf(stderr, "skald: field '%s' is not known and was left aside\n",
                 printable(name, 60).c_str());
  }
  std::fprintf(stderr, "skald: %s\n", progress.summary(progress.seconds()).c_str());
  return code;
}

}  // namespace

void add_score(CLI::App& program, Action& chosen) {
  CLI::App* command = add_command(
      program, "score",
      "Says how probable continuations are after their contexts. A line is an object "
      "with \"context\"\n"
      "and \"continuation\", or \"context_ids\" and \"continuation_ids\". A context that "
      "several lines\n"
      "have is computed once. Exit code 5 says that some lines failed.",
      {"skald score model.gguf -i questions.jsonl -o scores.jsonl",
       "skald score model.gguf -i questions.jsonl -o scores.jsonl --resume",
       "echo '{\"context\": \"The sky is\", \"continuation\": \" blue\"}' | skald "
       "score -m model/"});
  auto flags = std::make_shared<ScoreFlags>();
  command->add_option("MODEL", flags->model_word, "")->option_text("[MODEL]")->check(not_empty());
  add_model_flag(*command, flags->model);
  constexpr const char* kGroup = "Input and output";
  const auto text = [&](const char* names, std::string& value, const char* type,
                        const char* description) {
    return command->add_option(names, value, description)
        ->type_name(type)
        ->check(not_empty())
        ->group(kGroup);
  };
  text("-i,--input", flags->input, "FILE", "Lines to score; -: stdin")->capture_default_str();
  text("-o,--output", flags->output, "FILE", "Results, a line each; -: stdout")
      ->capture_default_str();
  command->add_flag("--resume", flags->resume, "Go on with an output: only what is missing")
      ->group(kGroup);
  text("--lines", flags->lines, "A:B", "Only these lines of the input, as 1:500 or 501:");
  command->add_flag("-q,--quiet", flags->quiet, "No progress and no summary")->group(kGroup);
  command->add_flag("--no-bos", flags->no_bos, "No BOS before contexts that are not empty")
      ->group(kChangesOutput);
  command
      ->add_option("--on-overflow", flags->on_overflow,
                   "A text longer than the context: error, or truncate-left")
      ->type_name("WAY")
      ->capture_default_str()
      ->group(kChangesOutput);
  add_run_flags(*command, flags->model);
  add_device_flag(*command, flags->model);
  command->callback([=, &chosen] { chosen = [=] { return score(*flags); }; });
}

}  // namespace skald
