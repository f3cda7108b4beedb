// Models by name, so that nobody has to type paths. A name is what is behind -m: a path that
// exists, else NAME or NAME.gguf in the current folder, in a folder of $SKALD_MODELS (several with
// ':'), in Hugging Face's cache (OWNER/NAME or NAME alone, @REVISION, /FILE of it), or in
// ~/.cache/skald. The first place that has it counts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace skald {

struct ModelPlaces {
  std::vector<std::filesystem::path> folders;  // of $SKALD_MODELS
  std::filesystem::path hub;                   // of Hugging Face's cache; it need not be there
  std::filesystem::path own;                   // ~/.cache/skald
};

ModelPlaces model_places();  // by the environment

// Not: `name` is an existing path. A name that several owners use is Error(Exit::Model).
std::optional<std::filesystem::path> find_by_name(const std::string& name,
                                                  const ModelPlaces& places);

// An existing path or a model's name; Error(Exit::Model) with the places and the nearest name where
// it is neither.
std::filesystem::path find_model(const std::string& name);

// What find_by_name() would find, sorted; of the current folder only GGUF files and model folders.
std::vector<std::string> model_names(const ModelPlaces& places);

}  // namespace skald
