// The lines of an input, one after the other, each with an id, a turn and a hash. Passes over lines
// that an earlier run has done. Any thread may ask for the next line.
//
// A line without an id is called by its number: "line-7". So is a line whose id cannot be read, or
// whose id an earlier line has. That makes every id of an output unique.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "app/files/jsonl_reader.h"
#include "app/jobs/line.h"
#include "app/jobs/name_set.h"
#include "app/jobs/result_writer.h"

namespace skald {

class JobInput {
 public:
  // writer: nullptr where nothing is written. text: a line is a text, not JSON. settings:
  // everything beside the lines that decides about results; part of each line's hash.
  JobInput(JsonlReader& reader, ResultWriter* writer, bool text, std::string settings)
      : reader_(reader), writer_(writer), text_(text), settings_(std::move(settings)) {}

  std::optional<JobLine> next();  // nothing: there are no more lines

  int64_t lines() const { return turns_; }              // so far
  int64_t done_before() const { return done_before_; }  // of these lines, by an earlier run

  void stop() { reader_.stop(); }  // next() then gives nothing

 private:
  JobLine read(const JsonlLine& line);
  void read_json(const JsonlLine& line, JobLine& job);
  bool take_id(const std::string& id) { return ids_.insert(id); }
  std::string id_by_number(int64_t number);

  std::mutex mutex_;
  JsonlReader& reader_;
  ResultWriter* writer_;
  const bool text_;
  const std::string settings_;
  NameSet ids_;
  // Other threads read these while next() waits for a slow pipe.
  std::atomic<int64_t> turns_ = 0, done_before_ = 0;
};

}  // namespace skald
