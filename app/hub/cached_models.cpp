#include "app/hub/cached_models.h"

#include <algorithm>
#include <set>

#include "app/hub/choice.h"
#include "app/hub/file_lock.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIncomplete = ".incomplete", kLock = ".lock";
constexpr size_t kShortCommit = 8;

int64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// The model of a snapshot whose files these are.
CachedModel make_model(const CachedRepository& repository, const fs::path& snapshot,
                       const std::vector<std::string>& files) {
  CachedModel model;
  model.repository = repository.name();
  model.commit = snapshot.filename().string();
  model.path = snapshot;
  for (const std::string& file : files) {
    model.files.push_back(snapshot / file);
    model.bytes += size_of(model.files.back());
  }
  HubReference named;
  named.repository = repository.name();
  const auto usual = repository.find_snapshot("");
  if (usual != snapshot) named.revision = model.commit.substr(0, kShortCommit);
  model.name = to_text(named);
  return model;
}

// The GGUFs of a snapshot, each with the name by which -m finds it.
void add_ggufs(const CachedRepository& repository, const fs::path& snapshot,
               const std::vector<GgufModel>& ggufs, std::vector<CachedModel>& models) {
  for (const GgufModel& gguf : ggufs) {
    CachedModel model = make_model(repository, snapshot, gguf.files);
    model.path = snapshot / gguf.files.front();
    model.type = gguf.type;
    const auto same_type = [&](const GgufModel& other) { return other.type == gguf.type; };
    const bool alone = std::count_if(ggufs.begin(), ggufs.end(), same_type) == 1;
    model.name += gguf.type.empty() || !alone ? "/" + gguf.files.front() : ":" + gguf.type;
    models.push_back(std::move(model));
  }
}

void remove_file(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  if (error) fail(Exit::Failed, printable(file.string()), ": cannot be removed: ", error.message());
}

// Throws if a lock of the repository is held.
void check_unused(const CachedRepository& repository) {
  std::error_code error;
  for (fs::directory_iterator at(repository.locks(), error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == kLock && !FileLock::try_take(at->path())) {
      fail(Exit::Failed, printable(repository.name()),
           ": another process is downloading it; end that first");
    }
  }
}

// Removes folders that became empty, from `folder` up to, and without, `top`.
void remove_empty(fs::path folder, const fs::path& top) {
  std::error_code error;
  while (folder != top && fs::is_empty(folder, error) && fs::remove(folder, error)) {
    folder = folder.parent_path();
  }
}

// The blobs that links of the remaining snapshots name.
std::set<std::string> used_blobs(const CachedRepository& repository) {
  std::set<std::string> used;
  for (const fs::path& snapshot : repository.snapshots()) {
    std::error_code error;
    for (fs::recursive_directory_iterator at(snapshot, error), end; !error && at != end;
         at.increment(error)) {
      std::error_code none;
      const fs::path target = fs::read_symlink(at->path(), none);
      if (!none) used.insert(target.filename().string());
    }
  }
  return used;
}

int64_t remove_unused_blobs(const CachedRepository& repository) {
  const std::set<std::string> used = used_blobs(repository);
  int64_t freed = 0;
  for (const fs::path& blob : repository.blobs()) {
    const std::string name = blob.filename().string();
    if (used.count(name) > 0 || name.ends_with(kIncomplete)) continue;
    freed += size_of(blob);
    remove_file(blob);
  }
  return freed;
}

// Refs that name a commit without a snapshot.
void remove_dead_refs(const CachedRepository& repository) {
  const fs::path refs = repository.folder() / "refs";
  for (const std::string& ref : files_below(refs)) {
    const std::string commit = repository.commit_of(ref);
    std::error_code error;
    if (commit.empty() || !fs::exists(repository.snapshot(commit), error)) remove_file(refs / ref);
  }
}

}  // namespace

std::vector<CachedModel> cached_models(const CachedRepository& repository) {
  std::vector<CachedModel> models;
  std::vector<fs::path> snapshots = repository.snapshots();
  const auto usual = repository.find_snapshot("");
  std::stable_partition(snapshots.begin(), snapshots.end(),
                        [&](const fs::path& one) { return usual == one; });
  for (const fs::path& snapshot : snapshots) {
    const std::vector<std::string> files = files_below(snapshot);
    const std::vector<GgufModel> ggufs = gguf_models(files);
    const std::vector<std::string> folder = folder_files(files);
    if (!folder.empty()) models.push_back(make_model(repository, snapshot, files));
    add_ggufs(repository, snapshot, ggufs, models);
    if (folder.empty() && ggufs.empty() && !files.empty()) {
      models.push_back(make_model(repository, snapshot, files));
    }
  }
  return models;
}

int64_t unfinished_bytes(const CachedRepository& repository) {
  int64_t bytes = 0;
  for (const fs::path& blob : repository.blobs()) {
    if (blob.extension() == kIncomplete) bytes += size_of(blob);
  }
  return bytes;
}

int64_t remove_models(const CachedRepository& repository, const std::vector<CachedModel>& models) {
  check_unused(repository);
  for (const CachedModel& model : models) {
    for (const fs::path& file : model.files) {
      remove_file(file);
      remove_empty(file.parent_path(), repository.folder() / "snapshots");
    }
  }
  remove_dead_refs(repository);
  return remove_unused_blobs(repository);
}

int64_t remove_repository(const CachedRepository& repository) {
  check_unused(repository);
  int64_t freed = 0;
  for (const fs::path& blob : repository.blobs()) freed += size_of(blob);
  for (const fs::path& folder : {repository.folder(), repository.locks()}) {
    std::error_code error;
    fs::remove_all(folder, error);
    if (error) {
      fail(Exit::Failed, printable(folder.string()), ": cannot be removed: ", error.message());
    }
  }
  return freed;
}

}  // namespace skald
