// Downloads files of one commit into the cache's blobs: several files and several ranges of a file
// at once, from where an earlier download ended, checked by their hash.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>

#include "app/hub/cache.h"
#include "app/hub/remote.h"
#include "app/hub/settings.h"

namespace skald {

struct DownloadState {
  int64_t bytes = 0;    // that are on the disk or in another process's hands
  int64_t fetched = 0;  // that came over the network in this call
  std::string file;     // that is in work
  bool waits = false;   // for another process, which downloads `file`
  bool checks = false;  // reads what an earlier download left of `file`
  int64_t pause = 0;    // seconds until the server is asked again; 0: it answers
};

// The hub has another version of a file than it listed. The list is to be read again.
class ListingChanged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Download {
  const HubSettings& settings;
  const CachedRepository& cached;
  const HubReference& reference;  // for messages
  std::string repository, commit;
  std::span<const RemoteFile> files;  // each with an etag
  // Called ten times a second, in the caller's thread.
  std::function<void(const DownloadState&)> show;
  std::function<bool()> stop;  // whether the user wants to end
};

// Returns when all files are whole blobs. What has arrived stays in the cache's .incomplete files,
// whatever ends the call. Throws Error, ListingChanged, and Error(Exit::Interrupted) after `stop`.
void download(const Download& download);

// Bytes of the files that are not in the cache yet.
int64_t missing_bytes(const CachedRepository& cached, std::span<const RemoteFile> files);

}  // namespace skald
