// The layout of Hugging Face's cache, which this file alone knows. Other tools read and write the
// same folders:
//
//   models--OWNER--NAME/blobs/HASH             the content of a file, named by its hash
//   models--OWNER--NAME/blobs/HASH.incomplete  its first bytes, while it is downloaded
//   models--OWNER--NAME/snapshots/COMMIT/FILE  a relative link to a blob
//   models--OWNER--NAME/refs/REVISION          the commit that a branch or tag stood for
//   .locks/models--OWNER--NAME/HASH.lock       held (flock) by the process that downloads the blob
//
// Reading takes no lock: a snapshot's links appear when all their blobs are whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/hub/reference.h"

namespace skald {

// The folders of one repository. They may not exist.
class CachedRepository {
 public:
  CachedRepository(const std::filesystem::path& cache, const std::string& name);

  const std::string& name() const { return name_; }  // "owner/name"
  const std::filesystem::path& folder() const { return folder_; }
  const std::filesystem::path& locks() const { return locks_; }
  std::filesystem::path blob(const std::string& etag) const { return folder_ / "blobs" / etag; }
  std::filesystem::path incomplete(const std::string& etag) const;
  std::filesystem::path lock(const std::string& etag) const;
  std::filesystem::path snapshot(const std::string& commit) const;
  std::filesystem::path ref(const std::string& revision) const;

  // The snapshot of a revision, a branch or tag listed in refs/ or a commit; empty revision:
  // refs/main, or the newest snapshot if refs/main is missing.
  std::optional<std::filesystem::path> find_snapshot(const std::string& revision) const;

  std::vector<std::filesystem::path> snapshots() const;      // sorted
  std::vector<std::filesystem::path> blobs() const;          // whole and incomplete ones
  std::string commit_of(const std::string& revision) const;  // in refs/; empty: not there

  void make_folders() const;  // throws Error(Exit::Failed)
  // Makes the link of a file to its blob in a snapshot, in place of an older one.
  void link(const std::string& commit, const std::string& file, const std::string& etag) const;
  void write_ref(const std::string& revision, const std::string& commit) const;

 private:
  std::string name_;
  std::filesystem::path folder_, locks_;
};

std::vector<CachedRepository> cached_repositories(const std::filesystem::path& cache);  // sorted

// The repository named "owner/name", or "name" alone. Capitals count only where they decide between
// two. Throws Error(Exit::Model) if several owners use the name.
std::optional<CachedRepository> find_repository(const std::filesystem::path& cache,
                                                const std::string& name);

// The file or folder of a model that is in the cache, by what a user typed. Empty: not there.
std::optional<std::filesystem::path> find_in_cache(const std::filesystem::path& cache,
                                                   std::string_view text);
std::optional<std::filesystem::path> find_in_cache(const std::filesystem::path& cache,
                                                   const HubReference& reference);

// False if parts of the model's weights are missing, as other tools' interrupted downloads leave
// it. `path` is one that find_in_cache() gave.
bool is_whole(const std::filesystem::path& path);

// Paths of all files below a folder, relative to it, with '/', sorted.
std::vector<std::string> files_below(const std::filesystem::path& folder);

}  // namespace skald
