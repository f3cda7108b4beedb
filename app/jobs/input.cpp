#include "app/jobs/input.h"

#include "engine/base/error.h"
#include "engine/base/sha256.h"

namespace skald {

std::optional<JobLine> JobInput::next() {
  const std::lock_guard lock(mutex_);
  JsonlLine line;
  while (reader_.next(line)) {
    JobLine job = read(line);
    if (!writer_ || !writer_->done_before(job.turn, job.id, job.request_hash)) return job;
    ++done_before_;
  }
  return {};
}

JobLine JobInput::read(const JsonlLine& line) {
  JobLine job;
  job.turn = turns_++;
  job.line = line.number;
  try {
    if (line.too_long) {
      throw LineError("line_too_long", concat("the line is ", line.bytes, " bytes long"));
    }
    if (text_) {
      job.text = line.text;
    } else {
      read_json(line, job);
    }
  } catch (const LineError& error) {
    job.problem = error.problem();
  }
  if (job.id.empty()) job.id = id_by_number(line.number);
  constexpr size_t kDigits = 32;
  job.request_hash = Sha256()
                         .add_field(settings_)
                         .add_field(job.id)
                         .add_field(line.text)
                         .add_number(static_cast<uint64_t>(line.bytes))
                         .hex()
                         .substr(0, kDigits);
  return job;
}

void JobInput::read_json(const JsonlLine& line, JobLine& job) {
  job.json = parse_line(line.text);
  const std::optional<std::string> id = line_id(job.json);
  if (!id) return;
  if (!take_id(*id)) {
    throw LineError("duplicate_id", concat("the id ", *id, " is an earlier line's"));
  }
  job.id = *id;
}

// Another line may have this name as its id.
std::string JobInput::id_by_number(int64_t number) {
  std::string id = concat("\"line-", number, "\"");
  for (int next = 2; !take_id(id); ++next) id = concat("\"line-", number, "-", next, "\"");
  return id;
}

}  // namespace skald
