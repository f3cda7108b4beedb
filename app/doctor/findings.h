// What is wrong with a machine, judged from facts alone: the same facts give the same findings, so
// that each case can be tested anywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/doctor/facts.h"

namespace skald {

// Note: worth knowing. Warning: skald runs, but not as well as it could. Problem: a GPU is there
// that skald cannot use.
enum class Severity { Note, Warning, Problem };
std::string_view name(Severity severity);

struct Finding {
  Severity severity;
  std::string what, advice;  // sentences without the capital and the full stop
};

std::vector<Finding> judge(const Facts& facts);

// Why none of the GPUs can be used; facts.gpus may hold those looked at so far. `severity` is
// Problem where a user would expect one to be used.
Finding why_no_gpu(const Facts& facts);

// Whether a GPU is in this machine, as far as can be told without CUDA, and not hidden on purpose.
bool expects_gpu(const Facts& facts);

int usable_gpu(const Facts& facts);  // the first; -1: none

}  // namespace skald
