// Finds in an output which requests an earlier run has finished: --resume passes over them. Takes
// some 100 bytes for each result, whatever the length of the lines.
//
// A result is a JSON object in a line. Its request is named by "custom_id" (or else "id"), a text
// or an integer, and by "request_hash", a hash over everything that decides about the result. A
// request that has changed since, or whose result is an "error", is done again. So is one whose
// result has no checksum that fits (app/files/sealed_line.h): it may say anything.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "app/files/output_file.h"

namespace skald {

struct ResultName {
  std::string id;  // as JSON: "\"a\"", "17"
  std::string request_hash;
  bool failed = false;   // it has an "error" that is not null, or no checksum
  bool damaged = false;  // its checksum does not fit, so that its id may be wrong too
};

std::optional<ResultName> result_name(std::string_view line);  // nullopt: the line is no result

// The first half of a SHA-256, which no two names share.
using NameHash = std::array<uint64_t, 2>;
NameHash name_hash(std::string_view name);

class EarlierResults {
 public:
  // Cuts a torn last line (see app/files/resume.h). Throws Error(Exit::Usage), and changes nothing,
  // where the file holds anything but results.
  void read(OutputFile& output);

  // True if the request is done. Then its result belongs to this turn from now on. If the file
  // has another result of the same id, that result is outdated.
  bool take(int64_t turn, std::string_view id, std::string_view request_hash);

  int64_t count() const { return static_cast<int64_t>(results_.size()); }
  bool outdated() const { return outdated_; }   // some lines of the file are outdated or damaged
  int64_t damaged() const { return damaged_; }  // these lines do not count as results

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
  int64_t damaged_ = 0;
};

}  // namespace skald
