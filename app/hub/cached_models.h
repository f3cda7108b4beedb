// The models in the cache, for the commands that list and remove them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/hub/cache.h"

namespace skald {

struct CachedModel {
  std::string name;  // that -m accepts: "owner/name:Q4_K_M", "owner/name@1a2b3c4d"
  std::string repository, commit;
  std::string type;                          // of a GGUF, by its name; may be empty
  std::filesystem::path path;                // the folder, or the GGUF's first file
  std::vector<std::filesystem::path> files;  // its links in the snapshot
  int64_t bytes = 0;                         // of the blobs behind them
};

// Sorted by repository; a repository's newest revision first.
std::vector<CachedModel> cached_models(const CachedRepository& repository);

// Bytes of downloads that did not end.
int64_t unfinished_bytes(const CachedRepository& repository);

// Removes the links of some models of one repository, and then the blobs, snapshots and refs that
// nothing uses any more. Returns the bytes that became free. Throws Error(Exit::Failed) if another
// process is downloading a file of the repository.
int64_t remove_models(const CachedRepository& repository, const std::vector<CachedModel>& models);

int64_t remove_repository(const CachedRepository& repository);

}  // namespace skald
