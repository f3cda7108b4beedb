// Prints the report of `skald doctor` as text or JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/doctor/facts.h"
#include "app/doctor/findings.h"
#include "app/files/json_fwd.h"

namespace skald {

struct GpuSpeeds {
  int index = 0;
  cuda::Speeds speeds;
};

// How fast the GPUs with these numbers exchange their parts of a model's results.
struct SharedSpeeds {
  std::vector<int> gpus;
  cuda::ExchangeSpeeds speeds;
};

struct DoctorReport {
  Facts facts;
  std::vector<GpuSpeeds> gpu_speeds;     // one for each measured GPU
  std::optional<SharedSpeeds> exchange;  // of all usable GPUs, if there are several
  double cpu_read = 0;  // the CPU's read bandwidth, bytes per second; 0: not measured
  std::vector<Finding> findings;
};

std::string to_text(const DoctorReport& report);
Json to_json(const DoctorReport& report);

}  // namespace skald
