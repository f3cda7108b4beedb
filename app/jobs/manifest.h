// OUT.manifest.json, beside an output: which model, settings and machine the results come from, and
// when each run began and ended. The file is written when a run begins and again when it ends, so
// that a run without an end is one that was killed.
#pragma once

#include <string>

#include "app/files/json.h"

namespace skald {

class Manifest {
 public:
  // settings: an object with everything that changes a result (the model's hash, sampling). With
  // resume, Error(Exit::Usage) says what differs from the settings of earlier runs, and
  // Error(Exit::Failed) that their manifest cannot be trusted: it is no manifest, or was damaged
  // or edited since, so that its checksum does not fit.
  Manifest(const std::string& output, Json settings, bool resume);

  void begin(const Json& run);  // an object: command line, device, input
  void end(int exit_code, const Json& counts);

 private:
  void write() const;

  std::string path_;
  Json json_;
};

std::string manifest_path(const std::string& output);
std::string utc_now();  // "2026-11-21T18:47:16Z"

}  // namespace skald
