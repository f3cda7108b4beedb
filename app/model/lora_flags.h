// --lora and --lora-merge: adapters that change a model.
#pragma once

#include <string>
#include <vector>

namespace skald {

class Command;
struct OpenedModel;

struct LoraFlags {
  std::vector<std::string> uses;  // PATH[:SCALE], or NAME=PATH[:SCALE]
  bool names = false;             // the command's lines choose an adapter by its name
  bool merge = false;
};

// The caller sets `names` before the call.
void add_lora_flags(Command& command, LoraFlags& flags);

// Loads the adapters. Without names, all together change every sequence: they are the model's first
// adapter. With names, the first adapter changes nothing, and each name is an adapter.
// Throws Error(Exit::Usage) for flags that contradict each other, Error(Exit::Model) for files that
// do not fit the model.
void add_adapters(const LoraFlags& flags, OpenedModel& opened);

// Throws Error(Exit::Usage) if adapters are given, for random weights.
void refuse_adapters(const LoraFlags& flags);

}  // namespace skald
