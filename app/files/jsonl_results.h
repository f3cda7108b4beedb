// Which requests an earlier run has finished, by its output: what --resume passes over. Takes some
// 100 bytes for each, whatever the length of the lines.
//
// A result is a JSON object in a line. It says whose it is by "custom_id" (or, without one, "id"),
// a text or an integer, and by "request_hash": a hash over all that decides about the result, so
// that a request that was changed is done again. So is one that failed: its line has an "error".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "app/files/jsonl_output.h"

namespace skald {

struct ResultName {
  std::string id;  // as JSON: "\"a\"", "17"
  std::string request_hash;
  bool failed = false;  // it has an "error" that is not null
};

std::optional<ResultName> result_name(std::string_view line);  // none: no result

// The first half of a SHA-256, which no two names share.
using NameHash = std::array<uint64_t, 2>;
NameHash name_hash(std::string_view name);

class EarlierResults {
 public:
  // Cuts a last line that a kill or a full disk left torn. Throws Error(Exit::Usage), changing
  // nothing, where the file holds anything but results.
  void read(JsonlOutput& output);

  // Whether the request is done. Its result then has this turn; another result of the same id is
  // outdated from now on.
  bool take(int64_t turn, std::string_view id, std::string_view request_hash);

  int64_t count() const { return static_cast<int64_t>(results_.size()); }
  bool outdated() const { return outdated_; }  // some of its lines

  struct Place {
    int64_t turn, offset;
  };
  std::vector<Place> taken() const;
  std::vector<int64_t> not_asked_for() const;  // in the order of the file

 private:
  struct Result {
    NameHash request;
    int64_t offset;
    int64_t turn = -1;
  };
  struct Hasher {
    size_t operator()(const NameHash& name) const { return name[0]; }
  };

  std::unordered_map<NameHash, Result, Hasher> results_;
  bool outdated_ = false;
};

}  // namespace skald
