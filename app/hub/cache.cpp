#include "app/hub/cache.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <set>

#include "app/files/atomic_file.h"
#include "app/files/folder.h"
#include "app/files/json.h"
#include "app/files/write.h"
#include "app/hub/choice.h"
#include "app/hub/text.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/read_stream.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--", kSeparator = "--";

std::string folder_name(std::string name) {
  const size_t slash = name.find('/');
  if (slash != std::string::npos) name.replace(slash, 1, kSeparator);
  return concat(kPrefix, name);
}

// Returns "owner/name" for the folder "models--owner--name"; empty for other folders.
std::string repository_name(const fs::path& folder) {
  std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return "";
  name.erase(0, kPrefix.size());
  const size_t at = name.find(kSeparator);
  if (at != std::string::npos) name.replace(at, kSeparator.size(), "/");
  return name;
}

bool is_named(const CachedRepository& repository, const std::string& name, bool exactly) {
  std::string whole = repository.name(), wanted = name;
  if (!exactly) whole = lower(whole), wanted = lower(wanted);
  return whole == wanted || whole.substr(whole.find('/') + 1) == wanted;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    fail(Exit::Failed, printable(folder.string()), ": cannot be made: ", error.message(),
         "; set HF_HOME to a folder that you may write to");
  }
}

// The shards that an index names are all there. An index that cannot be read is left to the reader
// of models, whose message says what is wrong with it.
bool has_shards(const fs::path& folder) {
  if (is_there(folder / "model.safetensors")) return true;
  std::ifstream in(folder / "model.safetensors.index.json", std::ios::binary);
  if (!in) return false;
  const std::string text = rest_of(in);
  const Json index = parse_json_or_null(text);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) return true;
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (shard.is_string()) shards.insert(shard.get<std::string>());
  }
  return std::all_of(shards.begin(), shards.end(),
                     [&](const std::string& shard) { return is_there(folder / shard); });
}

}  // namespace

CachedRepository::CachedRepository(const fs::path& cache, const std::string& name)
    : name_(name),
      folder_(cache / folder_name(name)),
      locks_(cache / ".locks" / folder_name(name)) {}

fs::path CachedRepository::incomplete(const std::string& etag) const {
  return folder_ / "blobs" / (etag + ".incomplete");
}
fs::path CachedRepository::lock(const std::string& etag) const { return locks_ / (etag + ".lock"); }
fs::path CachedRepository::snapshot(const std::string& commit) const {
  return folder_ / "snapshots" / commit;
}
fs::path CachedRepository::ref(const std::string& revision) const {
  return folder_ / "refs" / revision;
}

std::string CachedRepository::commit_of(const std::string& revision) const {
  std::string commit;
  std::ifstream(ref(revision)) >> commit;
  return commit;
}

std::optional<fs::path> CachedRepository::find_snapshot(const std::string& revision) const {
  const std::string commit = commit_of(revision.empty() ? "main" : revision);
  for (const std::string& name : {commit, revision}) {
    const bool plain = !name.empty() && name.find('/') == std::string::npos && name != "..";
    if (plain && is_there(snapshot(name))) return snapshot(name);
  }
  const std::vector<fs::path> all = snapshots();
  if (!revision.empty()) {
    // The beginning of a commit, as 'skald ls' shows it.
    constexpr size_t kShortest = 7;
    const auto begins = [&](const fs::path& one) {
      return revision.size() >= kShortest && one.filename().string().starts_with(revision);
    };
    const auto found = std::find_if(all.begin(), all.end(), begins);
    return found == all.end() ? std::nullopt : std::optional(*found);
  }
  std::error_code error;
  const auto newest = std::max_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return fs::last_write_time(a, error) < fs::last_write_time(b, error);
  });
  return newest == all.end() ? std::nullopt : std::optional(*newest);
}

std::vector<fs::path> CachedRepository::snapshots() const {
  return entries_of(folder_ / "snapshots");
}
std::vector<fs::path> CachedRepository::blobs() const { return entries_of(folder_ / "blobs"); }

void CachedRepository::make_folders() const {
  for (const char* name : {"blobs", "refs", "snapshots"}) make_folder(folder_ / name);
  make_folder(locks_);
}

void CachedRepository::link(const std::string& commit, const std::string& file,
                            const std::string& etag) const {
  const fs::path place = snapshot(commit) / file;
  const fs::path target = blob(etag).lexically_relative(place.parent_path());
  make_folder(place.parent_path());
  std::error_code error;
  if (fs::read_symlink(place, error) == target) return;
  // Another process may make the same link: a rename leaves one of the two, whole.
  const fs::path beside = concat(place.string(), ".", ::getpid());
  fs::remove(beside, error);
  fs::create_symlink(target, beside, error);
  if (!error) fs::rename(beside, place, error);
  if (error) {
    fail(Exit::Failed, printable(place.string()), ": the link cannot be made: ", error.message(),
         "; set HF_HOME to a disk whose file system has links");
  }
  sync_folder_of(place);
}

void CachedRepository::write_ref(const std::string& revision, const std::string& commit) const {
  make_folder(ref(revision).parent_path());
  AtomicFile file(ref(revision), {.mode = 0666});
  file.write(commit);
  file.commit();
}

std::vector<CachedRepository> cached_repositories(const fs::path& cache) {
  std::vector<CachedRepository> all;
  for (const fs::path& folder : entries_of(cache)) {
    if (const std::string name = repository_name(folder); !name.empty())
      all.emplace_back(cache, name);
  }
  return all;
}

std::optional<CachedRepository> find_repository(const fs::path& cache, const std::string& name) {
  const std::vector<CachedRepository> all = cached_repositories(cache);
  for (const bool exactly : {true, false}) {
    std::vector<CachedRepository> found;
    for (const CachedRepository& one : all) {
      if (is_named(one, name, exactly)) found.push_back(one);
    }
    if (found.size() == 1) return found.front();
    if (found.empty()) continue;
    std::string owners;
    for (const CachedRepository& one : found) {
      owners += concat(owners.empty() ? "" : ", ", printable(one.name()));
    }
    fail(Exit::Model, printable(name), ": several models have this name: ", owners,
         "; give the name with its owner");
  }
  return {};
}

std::optional<fs::path> find_in_cache(const fs::path& cache, const HubReference& reference) {
  const auto repository = find_repository(cache, reference.repository);
  const auto folder = repository ? repository->find_snapshot(reference.revision) : std::nullopt;
  if (!folder) return {};
  if (!reference.file.empty()) {
    const fs::path file = *folder / reference.file;
    return is_there(file) ? std::optional(file) : std::nullopt;
  }
  const std::vector<std::string> files = files_below(*folder);
  const std::vector<GgufModel> models = gguf_models(files);
  if (!reference.type.empty()) {
    for (const char* prefix : {"", "UD-"}) {
      for (const GgufModel& model : models) {
        if (model.type == prefix + reference.type) return *folder / model.files.front();
      }
    }
    return {};
  }
  // Beside a configuration, GGUFs are the model only where it has no other weights.
  const bool own_weights = is_there(*folder / "config.json") && !folder_files(files).empty();
  if (own_weights || models.empty()) return folder;
  return *folder / choose_gguf(models, "", to_text(reference)).files.front();
}

std::optional<fs::path> find_in_cache(const fs::path& cache, std::string_view text) {
  if (const auto reference = parse_reference(text)) {
    if (auto found = find_in_cache(cache, *reference)) return found;
  }
  const auto known = parse_short_name(text);
  return known ? find_in_cache(cache, *known) : std::nullopt;
}

bool is_whole(const fs::path& path) {
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  const fs::path parent = folder ? path : path.parent_path();
  const std::vector<std::string> files = files_below(parent);
  const std::vector<GgufModel> models = gguf_models(files);
  if (folder && is_there(path / "config.json")) return has_shards(path);
  for (const GgufModel& model : models) {
    const bool named = folder || model.files.front() == path.filename().string();
    if (named && !model.whole()) return false;
  }
  return folder ? !models.empty() : is_there(path);
}

std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    // A link to a blob that is missing is no file.
    std::error_code none;
    if (fs::is_regular_file(at->path(), none)) {
      files.push_back(at->path().lexically_relative(folder).generic_string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace skald
