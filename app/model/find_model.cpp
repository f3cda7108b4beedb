#include "app/model/find_model.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "app/files/folder.h"
#include "app/hub/cache.h"
#include "app/hub/pull.h"
#include "app/hub/reference.h"
#include "app/hub/settings.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/open.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// True if `name` can only be a path. A model's name may not lead out of the folders searched.
bool is_path_alone(const std::string& name) {
  if (name.empty() || name.front() == '/' || name.front() == '.' || name.front() == '~')
    return true;
  const fs::path path(name);
  return std::find(path.begin(), path.end(), "..") != path.end();
}

bool is_model_folder(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) && seems_a_model(folder);
}

std::optional<fs::path> in_folder(const fs::path& folder, const std::string& name) {
  if (is_there(folder / (name + ".gguf"))) return folder / (name + ".gguf");
  if (!folder.empty() && is_there(folder / name)) return folder / name;
  return {};
}

void add_names(const fs::path& folder, std::set<std::string>& names) {
  for (const fs::path& entry : entries_of(folder.empty() ? fs::path(".") : folder)) {
    if (entry.extension() == ".gguf") {
      names.insert(entry.stem().string());
    } else if (is_model_folder(entry)) {
      names.insert(entry.filename().string());
    }
  }
}

}  // namespace

ModelPlaces model_places() {
  ModelPlaces places;
  const std::string list = environment("SKALD_MODELS");
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(':', at), list.size());
    if (end > at) places.folders.emplace_back(list.substr(at, end - at));
    at = end + 1;
  }
  places.hub = hub_cache_folder();
  places.own = user_cache_folder() / "skald";
  return places;
}

std::optional<fs::path> find_by_name(const std::string& name, const ModelPlaces& places) {
  if (is_path_alone(name)) return {};
  if (auto found = in_folder("", name)) return found;
  for (const fs::path& folder : places.folders) {
    if (auto found = in_folder(folder, name)) return found;
  }
  if (auto found = find_in_cache(places.hub, name)) return found;
  return in_folder(places.own, name);
}

std::vector<std::string> model_names(const ModelPlaces& places) {
  std::set<std::string> names;
  add_names("", names);
  for (const fs::path& folder : places.folders) add_names(folder, names);
  for (const CachedRepository& one : cached_repositories(places.hub)) names.insert(one.name());
  add_names(places.own, names);
  return {names.begin(), names.end()};
}

fs::path find_model(const ModelName& wanted) {
  const std::string& name = wanted.model;
  if (wanted.pull) return pull_if_missing(name, wanted.offline);
  // A broken link counts as existing, so that opening it reports the link.
  std::error_code error;
  if (is_path_alone(name) || fs::exists(fs::symlink_status(name, error))) return name;
  const ModelPlaces places = model_places();
  if (auto found = find_by_name(name, places)) return *found;
  std::string meant = similar_entry(name);
  if (meant.empty()) {
    const std::vector<std::string> names = model_names(places);
    meant = nearest(name, std::vector<std::string_view>(names.begin(), names.end()));
  }
  if (const fs::path pulled = offer_pull(name, meant, wanted.offline); !pulled.empty()) {
    return pulled;
  }
  std::string command = pull_command(name);
  if (meant.empty() && command.empty()) {
    meant = nearest(name, short_names());
    if (!meant.empty()) command = pull_command(meant);
  }
  fail(Exit::Model, printable(name),
       ": there is no such file or folder, and no model of that name ",
       places.folders.empty() ? "" : "in $SKALD_MODELS, ", "in ", printable(places.hub.string()),
       " or ", printable(places.own.string()),
       meant.empty() ? "" : concat("; did you mean '", printable(meant), "'?"),
       command.empty()
           ? ""
           : concat(meant.empty() ? "; to download it: " : " To download it: ", command));
}

}  // namespace skald
