// The lines of a batch, one after the other, as jobs with an id, a turn and a hash. Lines that an
// earlier run has done are passed over. Any thread may ask for the next one.
//
// A line without an id is called by its number: "line-7". So is one whose id cannot be read or is
// an earlier line's, which makes every id of an output its only one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "app/batch/job.h"
#include "app/files/jsonl_reader.h"
#include "app/files/jsonl_writer.h"

namespace skald {

class BatchInput {
 public:
  // writer: nullptr where nothing is to be written. text: a line is a prompt, not JSON. settings:
  // all that decides about results beside the lines.
  BatchInput(JsonlReader& reader, JsonlWriter* writer, bool text, std::string settings)
      : reader_(reader), writer_(writer), text_(text), settings_(std::move(settings)) {}

  std::unique_ptr<BatchJob> next();  // nullptr: there are no more

  int64_t lines() const { return turns_; }              // so far
  int64_t done_before() const { return done_before_; }  // of them, by an earlier run

 private:
  struct IdHasher {
    size_t operator()(const NameHash& id) const { return id[0]; }
  };

  std::unique_ptr<BatchJob> read(const JsonlLine& line);
  void read_json(const JsonlLine& line, BatchJob& job);
  bool take_id(const std::string& id) { return ids_.insert(name_hash(id)).second; }
  std::string id_by_number(int64_t number);

  std::mutex mutex_;
  JsonlReader& reader_;
  JsonlWriter* writer_;
  const bool text_;
  const std::string settings_;
  std::unordered_set<NameHash, IdHasher> ids_;
  // Seen by others while next() waits for a slow pipe.
  std::atomic<int64_t> turns_ = 0, done_before_ = 0;
};

}  // namespace skald
