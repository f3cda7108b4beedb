#include "app/perplexity/log.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "app/files/jsonl_reader.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr JsonlLimits kLimits{.line = size_t{1} << 30, .kept = 0};

struct LogHead {
  PplHeading heading;
  int64_t first = std::numeric_limits<int64_t>::max(), last = -1;  // chunks
};

LogHead read_head(const std::string& path) {
  LogHead head;
  read_ppl_log(
      path, true, [&](const PplHeading& heading) { head.heading = heading; },
      [&](const PplChunk& chunk) {
        if (head.last >= 0 && chunk.chunk != head.last + 1) {
          fail(Exit::Failed, printable(path), ": chunk ", chunk.chunk, " follows chunk ",
               head.last);
        }
        if (head.last < 0) head.first = chunk.chunk;
        head.last = chunk.chunk;
      });
  return head;
}

}  // namespace

int64_t read_ppl_log(const std::string& path, bool torn_end,
                     const std::function<void(const PplHeading&)>& on_heading,
                     const std::function<void(const PplChunk&)>& on_chunk) {
  JsonlReader reader(path, {}, kLimits);
  JsonlLine line;
  int64_t whole = 0;
  bool headed = false;
  while (reader.next(line)) {
    const int64_t end = line.offset + line.bytes + 1;
    const bool torn = end > reader.bytes_read();
    try {
      const Json json = Json::parse(line.text);
      if (headed) {
        on_chunk(read_chunk(json));
      } else {
        on_heading(read_heading(json));
      }
      headed = true;
    } catch (const Json::exception&) {
      if (torn && torn_end) break;
      fail(Exit::Failed, reader.name(), ": line ", line.number,
           " is no record of a perplexity run; expected a file of --checkpoint or --jsonl");
    } catch (const Error& error) {
      fail(error.code(), reader.name(), ": line ", line.number, ": ", error.what());
    }
    if (torn && torn_end) break;  // may parse as JSON, but a number may have lost digits
    whole = end;
  }
  return whole;
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
           head.heading.chunks, " chunks");
    }
    read_ppl_log(
        path, true, [](const PplHeading&) {}, [&](const PplChunk& chunk) { total.add(chunk); });
    next = head.last + 1;
  }
  return total;
}

PplCheckpoint::PplCheckpoint(const std::string& path, PplTotal& total, ChunkRange range,
                             const std::function<void(const PplChunk&)>& on_chunk)
    : output_(path, Existing::GoOn) {
  if (!output_.is_file()) {
    fail(Exit::Usage, "--checkpoint ", output_.name(),
         ": expected a regular file, since it is read again");
  }
  int64_t whole = 0;
  if (output_.bytes() > 0) {
    whole = read_ppl_log(
        path, true,
        [&](const PplHeading& heading) {
          const std::string other = heading_difference(heading, total.heading());
          if (other.empty()) return;
          fail(Exit::Usage, "was made by a different run: ", other, "; choose another file");
        },
        [&](const PplChunk& chunk) {
          const int64_t next = range.first + total.chunks();
          if (chunk.chunk != next || next >= range.last) {
            fail(Exit::Usage, "found chunk ", chunk.chunk, ", but this run needs chunk ", next,
                 " here; choose another file for these --chunks");
          }
          total.add(chunk);
          on_chunk(chunk);
        });
    output_.truncate(whole);
  }
  if (whole == 0) output_.append(dump(to_json(total.heading())));
}

void PplCheckpoint::add(const PplChunk& chunk) { output_.append(dump(to_json(chunk))); }

}  // namespace skald
