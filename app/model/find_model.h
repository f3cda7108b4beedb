// Finds a model by the path or name that -m gives. An existing path wins. A name is searched, in
// this order, as NAME or NAME.gguf in the current folder and in the folders of $SKALD_MODELS
// (separated by ':'), in Hugging Face's cache (app/hub: OWNER/NAME, NAME or a short name, then
// @REVISION, /FILE, :TYPE), and in ~/.cache/skald.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace skald {

// The model that a command's flags and words name.
struct ModelName {
  std::string model;     // path or name; empty: the bundled model
  bool pull = false;     // -hf: a name of the hub, downloaded where it is not there
  bool offline = false;  // --offline: no connection, and no question about one
};

struct ModelPlaces {
  std::vector<std::filesystem::path> folders;  // from $SKALD_MODELS
  std::filesystem::path hub;                   // Hugging Face's cache; may not exist
  std::filesystem::path own;                   // ~/.cache/skald
};

ModelPlaces model_places();  // from the environment variables

// Searches the places only: an existing path outside them is not found. Throws Error(Exit::Model)
// if several owners in Hugging Face's cache use the name.
std::optional<std::filesystem::path> find_by_name(const std::string& name,
                                                  const ModelPlaces& places);

// Returns an existing path as it is, else searches by name. A name of the hub that is not there is
// downloaded if -hf gave it, or if a person at the terminal wants it. Otherwise throws
// Error(Exit::Model) with the places searched, the most similar name and the command that gets it.
std::filesystem::path find_model(const ModelName& name);

// All names that find_by_name() accepts, sorted. A file or folder counts only if it is a GGUF or a
// folder with a config.json or a GGUF.
std::vector<std::string> model_names(const ModelPlaces& places);

}  // namespace skald
