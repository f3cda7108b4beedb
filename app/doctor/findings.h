// Judges the facts about a machine. Findings depend on the facts only, so every case can be tested
// on any machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/doctor/facts.h"

namespace skald {

// Note: worth knowing. Warning: skald runs, but slower than it could. Problem: skald cannot use a
// GPU of this machine.
enum class Severity { Note, Warning, Problem };
std::string_view name(Severity severity);

struct Finding {
  Severity severity;
  std::string what, advice;  // sentences without capital and full stop
};

std::vector<Finding> judge(const Facts& facts);

// Says why no GPU can be used. Call it only if no GPU in facts.gpus is usable; the list may be
// incomplete. The severity is Problem if the machine has a GPU that is not hidden on purpose.
Finding why_no_gpu(const Facts& facts);

// True if the machine seems to have a GPU that is not hidden on purpose. Needs no facts from CUDA.
bool expects_gpu(const Facts& facts);

int usable_gpu(const Facts& facts);  // index of the first usable GPU; -1: none

}  // namespace skald
