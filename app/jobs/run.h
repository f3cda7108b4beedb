// A run over the lines of an input: the flags that such commands share, and everything around the
// work itself. JobRun opens the output and its manifest, counts, shows progress, brings the output
// in order at the end, even after an Error or Ctrl-C, and gives the exit code.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/files/json.h"
#include "app/files/jsonl_reader.h"
#include "app/jobs/failures.h"
#include "app/jobs/input.h"
#include "app/jobs/latencies.h"
#include "app/jobs/manifest.h"
#include "app/jobs/progress.h"
#include "app/jobs/result_writer.h"
#include "app/model/open.h"

namespace skald {

class Command;

struct JobFlags {
  ModelFlags model;
  std::string model_word;  // [MODEL]
  std::string input = "-", output = "-", lines, report;
  bool resume = false, quiet = false;

  LineRange range() const;
};

inline constexpr const char* kJobFiles = "Input and output";  // the flags' group in --help

// -m, [MODEL], -i and -o with these helps, --resume, --lines, --report, -q.
void add_job_flags(Command& command, JobFlags& flags, const std::string& input_help,
                   const std::string& output_help = "Write results here, one line each; -: stdout");

// Names the model, and serves it if this process has another rank than the first
// (serve_other_rank()). Called before check_job_flags().
std::optional<int> serve_job_rank(JobFlags& flags);

// Call these before anything is read. The first throws Error(Exit::Usage) for a model that is given
// twice, for a terminal as the input, and for a --report that is another file of the run. The
// second claims the output, and throws Error(Exit::Usage) for one that exists without --resume.
void check_job_flags(JobFlags& flags);
std::shared_ptr<FileClaim> claim_job_output(const JobFlags& flags);

struct JobRunOptions {
  std::shared_ptr<FileClaim> claim;  // of the output
  bool text = false;                 // a line is a text, not JSON
  bool in_order = true;
  int64_t lines = -1;  // lines of the input, for the progress; -1: not known
};

class JobRun {
 public:
  // Construct it before the model is loaded: throws Error(Exit::Usage) if earlier runs of the
  // output had other settings. settings: everything beside the lines that decides about results.
  JobRun(const JobFlags& flags, JsonlReader& reader, Json settings, const JobRunOptions& options);

  // Opens the output. run: what the manifest says of this run (model, devices).
  void begin(const Json& run);

  // Call it after begin(). Calls `work`, which writes a result for every line, or returns early if
  // the program is interrupted. Then ends the output, and the manifest and --report with the counts
  // and those of more(). Returns the exit code. Throws the first Error of the work, after saving
  // what was done.
  int execute(const std::function<void()>& work, const std::function<Json()>& more);

  JobInput& input() { return *input_; }
  ResultWriter& writer() { return *writer_; }
  JobCounts& counts() { return counts_; }
  JobProgress& progress() { return progress_; }

  void fail(int64_t line, const LineProblem& problem);  // counts a line that failed
  void add_latency(double seconds);  // the time from reading a line to its result; for --report
  // What a person reads after the summary: lines that failed, results of earlier runs that were
  // damaged, and how to go on. May be empty.
  std::string closing_text() const;

  void show_progress();  // by one thread

 private:
  void end(int code, const Json& more);
  void write_report(int code, const Json& counts) const;

  const JobFlags& flags_;
  JsonlReader& reader_;
  const std::string settings_;
  const JobRunOptions options_;
  const std::shared_ptr<FileClaim> report_claim_;
  Manifest manifest_;
  std::optional<ResultWriter> writer_;
  std::optional<JobInput> input_;
  JobCounts counts_;
  JobFailures failures_;
  Latencies latencies_;
  JobProgress progress_;
};

}  // namespace skald
