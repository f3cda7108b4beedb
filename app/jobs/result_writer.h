// Writes the results of requests to a file, in the order of the requests or as they are finished,
// beside the results that an earlier run left there. Each request has a turn: 0, 1, 2 … in the
// order of the input. A turn ends with done_before(), write() or pass(). Any thread may call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/output_file.h"
#include "app/jobs/earlier_results.h"

namespace skald {

struct ResultWriterOptions {
  std::string path;  // "-": stdout
  bool resume = false;
  bool in_order = true;
  std::shared_ptr<FileClaim> claim = nullptr;  // of the file, where the caller has one
};

class ResultWriter {
 public:
  // Throws Error(Exit::Usage) if the output exists and `resume` is false, or if it holds anything
  // but results.
  explicit ResultWriter(const ResultWriterOptions& options);

  // True if an earlier run has finished the request. Then the turn has ended.
  bool done_before(int64_t turn, std::string_view id, std::string_view request_hash);

  // Writes the result, a JSON object, with a checksum behind its last field: at once, or in order
  // when all turns before it have ended. After an Error the file has whole lines.
  void write(int64_t turn, std::string line);

  // The request gets no result.
  void pass(int64_t turn);

  // True if so many results wait for earlier ones that this request should not be started yet.
  bool too_far_ahead(int64_t turn) const;
  int64_t held_bytes() const;

  // Call it after the last turn. Removes outdated results from the file, and sorts results that
  // several runs wrote.
  void finish();

  // Call it if the run ends early. Results that wait for their turn are written out of order; the
  // finish() of the run that goes on sorts them. A pipe cannot be sorted later, so it gets none of
  // them.
  void give_up();

  int64_t earlier() const { return earlier_.count(); }    // results of earlier runs
  int64_t damaged() const { return earlier_.damaged(); }  // of these runs, not kept
  const OutputFile& output() const { return output_; }

 private:
  void append(int64_t turn, std::string_view line);
  void hold(int64_t turn, std::string line);
  void append_held();
  void put_in_order();

  mutable std::mutex mutex_;
  const ResultWriterOptions options_;
  OutputFile output_;
  EarlierResults earlier_;
  std::vector<EarlierResults::Place> written_;    // by this run, if it goes on with a file
  std::map<int64_t, std::string> waiting_lines_;  // by turn; "": no line to write
  int64_t waiting_bytes_ = 0;
  int64_t next_turn_ = 0;  // the next turn to be written in order
};

}  // namespace skald
