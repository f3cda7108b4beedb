#include "app/model/find_model.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/open.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHubPrefix = "models--", kHubSeparator = "--";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path cache_folder() {
  const std::string xdg = environment("XDG_CACHE_HOME"), home = environment("HOME");
  if (!xdg.empty()) return xdg;
  return home.empty() ? fs::path() : fs::path(home) / ".cache";
}

fs::path hub_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string value = environment(name); !value.empty()) return value;
  }
  if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  return cache_folder() / "huggingface" / "hub";
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    all.push_back(at->path());
  }
  std::sort(all.begin(), all.end());
  return all;
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
  if (!fs::is_directory(folder, error)) return false;
  if (is_there(folder / "config.json")) return true;
  const auto files = entries(folder);
  return std::any_of(files.begin(), files.end(),
                     [](const fs::path& file) { return file.extension() == ".gguf"; });
}

std::optional<fs::path> in_folder(const fs::path& folder, const std::string& name) {
  if (is_there(folder / (name + ".gguf"))) return folder / (name + ".gguf");
  if (!folder.empty() && is_there(folder / name)) return folder / name;
  return {};
}

// The folder of one revision in a repository of the Hub cache. `revision` is a branch or tag listed
// in refs/, or a commit; empty: refs/main, or the newest snapshot if refs/main is missing.
std::optional<fs::path> snapshot(const fs::path& repository, const std::string& revision) {
  const fs::path snapshots = repository / "snapshots";
  std::string commit;
  std::ifstream(repository / "refs" / (revision.empty() ? "main" : revision)) >> commit;
  for (const std::string& name : {commit, revision}) {
    const bool plain = !name.empty() && name.find('/') == std::string::npos && name != "..";
    if (plain && is_there(snapshots / name)) return snapshots / name;
  }
  if (!revision.empty()) return {};
  std::vector<fs::path> all = entries(snapshots);
  std::error_code error;
  const auto newest = std::max_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return fs::last_write_time(a, error) < fs::last_write_time(b, error);
  });
  if (newest == all.end()) return {};
  return *newest;
}

// "owner/name" for the folder "models--owner--name"; empty for other folders.
std::string hub_name(const fs::path& repository) {
  std::string name = repository.filename().string();
  if (!name.starts_with(kHubPrefix)) return "";
  name.erase(0, kHubPrefix.size());
  const size_t at = name.find(kHubSeparator);
  if (at != std::string::npos) name.replace(at, kHubSeparator.size(), "/");
  return name;
}

std::optional<fs::path> in_hub(const fs::path& hub, const std::string& name) {
  const size_t at = name.find('@');
  std::string repository = name.substr(0, at), revision, file;
  if (at != std::string::npos) revision = name.substr(at + 1);
  // OWNER/NAME/FILE or OWNER/NAME@REVISION/FILE; FILE may contain folders.
  std::string& last = at == std::string::npos ? repository : revision;
  size_t slash = last.find('/');
  if (at == std::string::npos && slash != std::string::npos) slash = last.find('/', slash + 1);
  if (slash != std::string::npos) {
    file = last.substr(slash + 1);
    last.erase(slash);
  }
  std::vector<fs::path> found;
  for (const fs::path& folder : entries(hub)) {
    const std::string whole = hub_name(folder);
    if (whole == repository || whole.substr(whole.find('/') + 1) == repository) {
      found.push_back(folder);
    }
  }
  if (found.size() > 1) {
    std::string owners;
    for (const fs::path& folder : found)
      owners += concat(owners.empty() ? "" : ", ", hub_name(folder));
    fail(Exit::Model, printable(name), ": several models have this name: ", printable(owners),
         "; give the name with its owner");
  }
  if (found.empty()) return {};
  const auto files = snapshot(found.front(), revision);
  if (!files || file.empty()) return files;
  return is_there(*files / file) ? std::optional(*files / file) : std::nullopt;
}

void add_names(const fs::path& folder, std::set<std::string>& names) {
  for (const fs::path& entry : entries(folder.empty() ? fs::path(".") : folder)) {
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
  places.hub = hub_folder();
  places.own = cache_folder() / "skald";
  return places;
}

std::optional<fs::path> find_by_name(const std::string& name, const ModelPlaces& places) {
  if (is_path_alone(name)) return {};
  if (auto found = in_folder("", name)) return found;
  for (const fs::path& folder : places.folders) {
    if (auto found = in_folder(folder, name)) return found;
  }
  if (auto found = in_hub(places.hub, name)) return found;
  return in_folder(places.own, name);
}

std::vector<std::string> model_names(const ModelPlaces& places) {
  std::set<std::string> names;
  add_names("", names);
  for (const fs::path& folder : places.folders) add_names(folder, names);
  for (const fs::path& folder : entries(places.hub)) {
    if (const std::string name = hub_name(folder); !name.empty()) names.insert(name);
  }
  add_names(places.own, names);
  return {names.begin(), names.end()};
}

fs::path find_model(const std::string& name) {
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
  fail(Exit::Model, printable(name),
       ": there is no such file or folder, and no model of that name ",
       places.folders.empty() ? "" : "in $SKALD_MODELS, ", "in ", printable(places.hub.string()),
       " or ", printable(places.own.string()),
       meant.empty() ? "" : concat("; did you mean '", printable(meant), "'?"));
}

}  // namespace skald
