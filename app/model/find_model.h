// Finds a model by the path or name that -m gives. An existing path wins. A name is searched, in
// this order, as NAME or NAME.gguf in the current folder and in the folders of $SKALD_MODELS
// (separated by ':'), in Hugging Face's cache (OWNER/NAME or NAME, then @REVISION, then /FILE), and
// in ~/.cache/skald.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace skald {

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

// Returns an existing path as it is, else searches by name. Throws Error(Exit::Model) with the
// places searched and the most similar name if nothing is found.
std::filesystem::path find_model(const std::string& name);

// All names that find_by_name() accepts, sorted. A file or folder counts only if it is a GGUF or a
// folder with a config.json or a GGUF.
std::vector<std::string> model_names(const ModelPlaces& places);

}  // namespace skald
