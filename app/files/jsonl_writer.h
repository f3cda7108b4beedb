// Results to a file, in the order of their requests or as they are finished, beside those that an
// earlier run left there. Each request has a turn: 0, 1, 2 … in the order of the input; its result
// is either done already or written, once. Any thread may call.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/jsonl_output.h"
#include "app/files/jsonl_results.h"

namespace skald {

struct JsonlWriterOptions {
  std::string path;  // "-": stdout
  bool resume = false;
  bool in_order = true;
};

class JsonlWriter {
 public:
  // Throws Error(Exit::Usage) where the output is there and may not be, or is no output of ours.
  explicit JsonlWriter(const JsonlWriterOptions& options);

  // Whether an earlier run has finished the request; it then has had its turn.
  bool done_before(int64_t turn, std::string_view id, std::string_view request_hash);

  // At once, or in order once all turns before are written. An Error of it leaves whole lines.
  void write(int64_t turn, std::string line);

  // The request gets no result.
  void pass(int64_t turn);

  // Whether so much waits for its turn already that the turn should not be begun yet.
  bool too_far_ahead(int64_t turn) const;
  int64_t held_bytes() const;

  // All turns are written. Outdated results leave the file, and one that several runs wrote in
  // order is put in order.
  void finish();

  // The run ends early: what waits for its turn is written out of order, and the next finish() puts
  // it in its place. Not to a pipe, which would show it in the wrong place for ever.
  void give_up();

  int64_t earlier() const { return earlier_.count(); }  // results that were there
  const JsonlOutput& output() const { return output_; }

 private:
  void append(int64_t turn, std::string_view line);
  void hold(int64_t turn, std::string line);
  void append_held();
  void put_in_order();

  mutable std::mutex mutex_;
  const JsonlWriterOptions options_;
  JsonlOutput output_;
  EarlierResults earlier_;
  std::vector<EarlierResults::Place> written_;  // by this run, where an earlier one was before
  std::map<int64_t, std::string> held_;         // by turn; "" is one that is done
  int64_t held_bytes_ = 0;
  int64_t turn_ = 0;  // the next to be written in order
};

}  // namespace skald
