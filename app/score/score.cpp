// skald score: how probable each line's continuation is after its context, as evaluations ask it.
#include <cstdio>
#include <deque>
#include <optional>

#include "app/files/json.h"
#include "app/files/signals.h"
#include "app/jobs/fields.h"
#include "app/jobs/limits.h"
#include "app/jobs/run.h"
#include "app/model/cache_types.h"
#include "app/model/open.h"
#include "app/model/plan_report.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/score/round.h"
#include "engine/base/error.h"
#include "models/fingerprint.h"
#include "models/text/tokenizer_hash.h"

namespace skald {
namespace {

struct ScoreFlags : JobFlags {
  std::string on_overflow = "error";
  bool no_bos = false;
};

struct ScoreJob {
  JobLine line;
  ScoreText text;
};

std::string result_line(const ScoreJob& job, const std::vector<TokenScore>& scores) {
  Json json = {{"id", parse_json(job.line.id)}};
  if (job.line.problem) {
    json["error"] = problem_json(*job.line.problem);
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
  json["request_hash"] = job.line.request_hash;
  return dump(json);
}

// Reads lines, scores them in rounds and writes their results.
class Scoring {
 public:
  Scoring(Executor& executor, size_t most_texts, const ScoreOptions& options, JobRun& job)
      : round_(executor, most_texts), options_(options), job_(job) {}

  void run() {
    while (!interrupted_by()) {
      std::optional<JobLine> line = job_.input().next();
      if (!line) break;
      take({std::move(*line), {}});
      job_.show_progress();
    }
    if (!interrupted_by()) compute();
  }

  const UnknownFields& unknown_fields() const { return unknown_; }

 private:
  void take(ScoreJob job) {
    try {
      std::vector<std::string> unknown;
      if (!job.line.problem) job.text = read_score_line(job.line.json, options_, unknown);
      unknown_.add(std::move(unknown));
    } catch (const LineError& error) {
      job.line.problem = error.problem();
    }
    job.line.json = nullptr;
    if (job.line.problem) {
      job_.fail(job.line.line, *job.line.problem);
      job_.writer().write(job.line.turn, result_line(job, {}));
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
    const double start = job_.progress().seconds();
    const std::vector<std::vector<TokenScore>> scores = round_.run();
    const double seconds = job_.progress().seconds() - start;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      job_.writer().write(jobs_[i].line.turn, result_line(jobs_[i], scores[i]));
      ++job_.counts().done;
      job_.add_latency(seconds);
      job_.counts().tokens_in += jobs_[i].text.context;
      job_.counts().tokens_out += jobs_[i].text.scored();
    }
    jobs_.clear();
  }

  ScoreRound round_;
  const ScoreOptions options_;
  JobRun& job_;
  std::deque<ScoreJob> jobs_;  // the round's jobs, in its order
  UnknownFields unknown_;
};

int score(ScoreFlags& flags) {
  if (const auto code = serve_job_rank(flags)) return *code;
  check_job_flags(flags);
  const std::shared_ptr<FileClaim> claim = claim_job_output(flags);
  const Device asked = parse_device(flags.model.device);
  JsonlReader reader(flags.input, flags.range());
  const OpenedModel opened = open_model(flags.model);
  check_context(flags.model, opened.model.config);
  const ModelTokenizer tokens = open_tokenizer_if_any(opened);
  flags.model.run.scores = true;
  const Device device = choose_device(asked, opened.model, flags.model.run);
  const JobLimits limits = choose_job_limits(opened.model, flags.model.run, 0, device);
  std::fputs(context_note(limits.plan).c_str(), stderr);

  ScoreOptions options;
  options.tokenizer = tokens.tokenizer.get();
  options.vocab = opened.model.config.vocab;
  options.context = limits.run.context;
  options.no_bos = flags.no_bos;
  options.truncate_left = flags.on_overflow == "truncate-left";
  Json settings = {{"model", model_hash(opened)},
                   {"tokenizer", options.tokenizer ? tokenizer_hash(*options.tokenizer) : ""},
                   {"context", options.context},
                   {"exact", flags.model.run.exact},
                   {"no_bos", flags.no_bos},
                   {"on_overflow", flags.on_overflow}};
  add_cache_types(flags.model.run.cache_types, settings);
  JobRun job(flags, reader, settings, {.claim = claim});
  const auto executor = make_executor(opened.model, limits.run, device);
  job.begin({{"model", opened.path.string()},
             {"input", flags.input},
             {"lines", flags.lines},
             {"devices", Json::array({executor->description()})}});
  Scoring scoring(*executor, static_cast<size_t>(limits.run.sequences), options, job);
  const int code = job.execute([&] { scoring.run(); }, [] { return Json::object(); });
  if (flags.quiet) return code;
  const std::string summary = job.progress().summary(job.progress().seconds());
  std::fprintf(stderr, "skald: %s\n%s%s", summary.c_str(), scoring.unknown_fields().text().c_str(),
               job.closing_text().c_str());
  return code;
}

}  // namespace

void add_score(Command& program) {
  Command& command = program.add_command(
      "score",
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
  add_job_flags(command, *flags, "Read lines to score from here; -: stdin");
  command.flag("--no-bos", flags->no_bos, "Put no BOS before contexts, except empty ones")
      .group(kChangesOutput);
  command
      .option("--on-overflow", flags->on_overflow,
              "A text longer than the context: error, or truncate-left")
      .type_name("WHAT")
      .one_of({"error", "truncate-left"})
      .show_default()
      .group(kChangesOutput);
  add_run_flags(command, flags->model);
  add_device_flag(command, flags->model);
  add_rank_flag(command, flags->model.device);
  command.action([=] { return score(*flags); });
}

}  // namespace skald
