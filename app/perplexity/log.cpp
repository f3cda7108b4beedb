#include "app/perplexity/log.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "app/files/json.h"
#include "app/files/resume.h"
#include "app/files/sealed_line.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

[[noreturn]] void fail_not_log(const std::string& path, int64_t line) {
  fail(Exit::Failed, printable(path), ": line ", line,
       " is no record of a perplexity run; expected a file of --checkpoint or --jsonl");
}

void check_seal(const JsonlLine& line) {
  if (seal_fits(line.text)) return;
  fail(Exit::Failed, "is damaged or was edited: its checksum does not fit; remove the lines from ",
       line.number, " on, and the same command measures them again");
}

struct LogHead {
  PplHeading heading;
  int64_t first = std::numeric_limits<int64_t>::max(), last = -1;  // chunks
};

LogHead read_head(const std::string& path) {
  LogHead head;
  const auto on_chunk = [&](const PplChunk& chunk) {
    if (head.last >= 0 && chunk.chunk != head.last + 1) {
      fail(Exit::Failed, "chunk ", chunk.chunk, " follows chunk ", head.last);
    }
    if (head.last < 0) head.first = chunk.chunk;
    head.last = chunk.chunk;
  };
  PplLogReader(
      path, [&](const PplHeading& heading) { head.heading = heading; }, on_chunk)
      .read();
  return head;
}

}  // namespace

PplLogReader::PplLogReader(std::string path, std::function<void(const PplHeading&)> on_heading,
                           std::function<void(const PplChunk&)> on_chunk)
    : path_(std::move(path)), on_heading_(std::move(on_heading)), on_chunk_(std::move(on_chunk)) {}

void PplLogReader::take(const JsonlLine& line) {
  try {
    const Json json = parse_json(line.text);
    if (headed_) {
      const PplChunk chunk = read_chunk(json);
      check_seal(line);
      on_chunk_(chunk);
    } else {
      const PplHeading heading = read_heading(json);
      check_seal(line);
      on_heading_(heading);
    }
    headed_ = true;
  } catch (const Json::exception&) {
    fail_not_log(path_, line.number);
  } catch (const Error& error) {
    fail(error.code(), printable(path_), ": line ", line.number, ": ", error.what());
  }
}

void PplLogReader::read() {
  read_whole_lines(path_, [this](const JsonlLine& line) { take(line); });
}

void PplLogReader::resume(OutputFile& output) {
  continue_lines(
      output, [this](const JsonlLine& line) { take(line); },
      [this](int64_t line) { fail_not_log(path_, line); });
}

PplTotal merge_ppl_logs(const std::vector<std::string>& paths) {
  std::vector<std::pair<LogHead, std::string>> logs;
  for (const std::string& path : paths) {
    LogHead head = read_head(path);
    if (head.last < 0) fail(Exit::Failed, printable(path), ": has no chunk; leave the file out");
    logs.emplace_back(std::move(head), path);
  }
  std::sort(logs.begin(), logs.end(),
            [](const auto& a, const auto& b) { return a.first.first < b.first.first; });
  PplTotal total(logs.front().first.heading);
  int64_t next = logs.front().first.first;
  for (const auto& [head, path] : logs) {
    const std::string other = heading_difference(total.heading(), head.heading);
    if (!other.empty()) {
      fail(Exit::Failed, printable(path), ": was made by a different run: ", other);
    }
    if (head.first > next) {
      fail(Exit::Failed, "chunks ", next, " to ", head.first - 1,
           " are in none of the files; add the file that has them");
    }
    if (head.first < next) {
      fail(Exit::Failed, printable(path), ": chunks from ", head.first,
           " on are also in another file; give each part once");
    }
    if (head.last >= head.heading.chunks) {
      fail(Exit::Failed, printable(path), ": has chunk ", head.last, ", but its text has only ",
           counted(head.heading.chunks, "chunk"));
    }
    PplLogReader(
        path, [](const PplHeading&) {}, [&](const PplChunk& chunk) { total.add(chunk); })
        .read();
    next = head.last + 1;
  }
  return total;
}

PplCheckpoint::PplCheckpoint(const std::string& path, std::shared_ptr<FileClaim> claim,
                             PplTotal& total, ChunkRange range,
                             const std::function<void(const PplChunk&)>& on_chunk)
    : output_(path, Existing::Continue, std::move(claim)) {
  if (!output_.is_file()) {
    fail(Exit::Failed, "--checkpoint ", output_.name(),
         ": expected a regular file, since it is read again");
  }
  const auto check_heading = [&](const PplHeading& heading) {
    const std::string other = heading_difference(heading, total.heading());
    if (other.empty()) return;
    fail(Exit::Usage, "was made by a different run: ", other, "; choose another file");
  };
  const auto take = [&](const PplChunk& chunk) {
    const int64_t next = range.first + total.chunks();
    if (chunk.chunk != next || next >= range.last) {
      fail(Exit::Usage, "found chunk ", chunk.chunk, ", but this run needs chunk ", next,
           " here; choose another file for these --chunks");
    }
    total.add(chunk);
    on_chunk(chunk);
  };
  PplLogReader(path, check_heading, take).resume(output_);
  if (output_.bytes() == 0) output_.append(record_line(total.heading()));
}

void PplCheckpoint::add(const PplChunk& chunk) { output_.append(record_line(chunk)); }

}  // namespace skald
