// Brings a model from the hub into the cache. pull() and pull_if_missing() are the only functions
// of skald that open a connection.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "app/hub/reference.h"
#include "app/hub/settings.h"

namespace skald {

struct PullOptions {
  bool yes = false;    // a download of more than 1 GB needs no question
  bool quiet = false;  // shows nothing on stderr
};

struct PulledModel {
  std::filesystem::path path;  // the folder, or the GGUF's first file
  std::string name;            // that -m accepts: "owner/name:Q4_K_M"
  int64_t bytes = 0;           // of all its files
  int64_t fetched = 0;         // of them, those that were missing
};

// Returns when the model is whole. Throws Error: README.md of this folder lists the reasons and
// their exit codes.
PulledModel pull(const HubSettings& settings, const HubReference& reference,
                 const PullOptions& options);

// For -hf: the model's path in the cache, after pulling it where it is not there or not whole.
std::filesystem::path pull_if_missing(const std::string& name, bool offline);

// The command that gets a model, for messages: "skald pull llama3.2". Empty if `name` cannot be one
// of the hub, for instance because it is a path.
std::string pull_command(const std::string& name);

// For -m NAME of a model that is not on this machine: on a terminal asks whether to pull it, and
// does. `meant`: a model with a similar name that is here, or empty. The result is empty if nothing
// was asked, or if the answer was no.
std::filesystem::path offer_pull(const std::string& name, const std::string& meant, bool offline);

}  // namespace skald
