#include "app/jobs/run.h"

#include <filesystem>
#include <utility>

#include "app/files/atomic_file.h"
#include "app/files/signals.h"
#include "app/program/command.h"
#include "app/program/version.h"
#include "app/terminal/output.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

void check_not_the_input(const JsonlReader& reader, const OutputFile& output) {
  const struct stat status = output.status();
  if (output.is_file() && reader.is_file(status.st_dev, status.st_ino)) {
    fail(Exit::Usage, output.name(), ": is the input too; name another output");
  }
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return a == b || std::filesystem::equivalent(a, b, error);
}

}  // namespace

LineRange JobFlags::range() const {
  return lines.empty() ? LineRange{} : parse_line_range(lines, "--lines");
}

void add_job_flags(Command& command, JobFlags& flags, const std::string& input_help,
                   const std::string& output_help) {
  add_model_flag(command, flags.model);
  command.word("MODEL", "[MODEL]", flags.model_word).check(not_empty());
  const auto file = [&](const char* names, std::string& value, const std::string& help) {
    command.option(names, value, help)
        .type_name("FILE")
        .check(not_empty())
        .show_default()
        .group(kJobFiles);
  };
  file("-i,--input", flags.input, input_help);
  file("-o,--output", flags.output, output_help);
  command.flag("--resume", flags.resume, "Continue an output: compute only what is missing")
      .group(kJobFiles);
  command.option("--lines", flags.lines, "Read only these lines of the input, as 1:500 or 501:")
      .type_name("A:B")
      .check(not_empty())
      .group(kJobFiles);
  command
      .option("--report", flags.report,
              "Write counts, speed and latencies of the run here, as JSON")
      .type_name("FILE")
      .check(not_empty())
      .group(kJobFiles);
  command.flag("-q,--quiet", flags.quiet, "Show no progress and no summary").group(kJobFiles);
}

std::optional<int> serve_job_rank(JobFlags& flags) {
  name_model(flags.model.model, std::exchange(flags.model_word, ""));
  return serve_other_rank(flags.model);
}

void check_job_flags(JobFlags& flags) {
  name_model(flags.model.model, flags.model_word);
  if (flags.input == "-" && stdin_is_terminal()) {
    fail(Exit::Usage,
         "no input: expected a file of lines with -i, or lines from a pipe, found a terminal");
  }
  if (flags.report.empty()) return;
  for (const std::string& other : {flags.input, flags.output, manifest_path(flags.output)}) {
    if (!same_file(flags.report, other)) continue;
    fail(Exit::Usage, "--report ", printable(flags.report),
         ": is also an input or output of the run; name another file");
  }
  check_writable(flags.report);
}

std::shared_ptr<FileClaim> claim_job_output(const JobFlags& flags) {
  std::shared_ptr<FileClaim> claim = claim_file(flags.output);
  check_output(flags.output, flags.resume ? Existing::Continue : Existing::Refuse);
  return claim;
}

JobRun::JobRun(const JobFlags& flags, JsonlReader& reader, Json settings,
               const JobRunOptions& options)
    : flags_(flags),
      reader_(reader),
      settings_(dump(settings)),
      options_(options),
      report_claim_(claim_file(flags.report)),
      manifest_(flags.output, std::move(settings), flags.resume),
      progress_(flags.quiet ? Progress::Style::Quiet : progress_style(Progress::Style::Log),
                options.lines, counts_) {}

void JobRun::begin(const Json& run) {
  writer_.emplace(ResultWriterOptions{.path = flags_.output,
                                      .resume = flags_.resume,
                                      .in_order = options_.in_order,
                                      .claim = options_.claim});
  check_not_the_input(reader_, writer_->output());
  if (writer_->output().is_file()) manifest_.begin(run);
  input_.emplace(reader_, &*writer_, options_.text, settings_);
}

void JobRun::show_progress() {
  counts_.earlier = input_->done_before();
  progress_.show();
}

void JobRun::end(int code, const Json& more) {
  counts_.earlier = input_->done_before();
  Json counts = {{"done", counts_.done.load()},
                 {"failed", counts_.failed.load()},
                 {"skipped", counts_.skipped.load()},
                 {"done_before", counts_.earlier.load()},
                 {"damaged_before", writer_->damaged()},
                 {"tokens_in", counts_.tokens_in.load()},
                 {"tokens_out", counts_.tokens_out.load()}};
  counts.update(more);
  if (writer_->output().is_file()) manifest_.end(code, counts);
  if (!flags_.report.empty()) write_report(code, counts);
}

void JobRun::write_report(int code, const Json& counts) const {
  const double seconds = progress_.seconds();
  const auto rate = [&](int64_t tokens) { return static_cast<double>(tokens) / seconds; };
  const Json report = {
      {"skald", version()},
      {"ended", utc_now()},
      {"exit_code", code},
      {"wall_seconds", seconds},
      {"tokens_per_second", {{"in", rate(counts_.tokens_in)}, {"out", rate(counts_.tokens_out)}}},
      {"latency_seconds", latencies_.json()},
      {"counts", counts}};
  AtomicFile file(flags_.report, {.mode = 0666});
  file.write(dump(report, 2));
  file.write("\n");
  file.commit();
}

void JobRun::add_latency(double seconds) {
  if (!flags_.report.empty()) latencies_.add(seconds);
}

void JobRun::fail(int64_t line, const LineProblem& problem) {
  ++counts_.failed;
  failures_.add(line, problem);
}

std::string JobRun::closing_text() const {
  std::string text = failures_.text();
  if (const int64_t damaged = writer_->damaged()) {
    text += concat("skald: ", counted(damaged, "result"), " of ", writer_->output().name(),
                   damaged == 1 ? " was" : " were",
                   " damaged or edited since (the checksum does not fit), and not kept\n");
  }
  return text + (interrupted_by() ? how_to_go_on(writer_->output().is_file()) : "");
}

int JobRun::execute(const std::function<void()>& work, const std::function<Json()>& more) {
  try {
    work();
    take_time_to_end();
    interrupted_by() ? writer_->give_up() : writer_->finish();
  } catch (const Error& error) {
    progress_.clear();
    take_time_to_end();
    try {
      writer_->give_up();
      end(static_cast<int>(error.code()), more());
    } catch (const Error&) {  // perhaps the disk is full: the first error counts
    }
    throw;
  }
  progress_.clear();
  int code = static_cast<int>(counts_.failed > 0 ? Exit::SomeLines : Exit::Done);
  if (interrupted_by()) code = 128 + interrupted_by();
  end(code, more());
  return code;
}

}  // namespace skald
