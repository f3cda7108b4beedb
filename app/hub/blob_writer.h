// Writes one blob (a file of the cache) during its download. `HASH.incomplete` always holds the
// first bytes of the content and nothing else, so that a later download can continue after them.
// Parts may come in any order; they wait in memory until the bytes before them are written. Used by
// one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "app/hub/cache.h"
#include "app/hub/file_lock.h"
#include "app/hub/hash.h"
#include "app/hub/remote.h"

namespace skald {

class BlobWriter {
 public:
  // Opens the file and hashes what an earlier download has written, which takes seconds if it is
  // large. Throws Error, and HttpFailure(Stopped) if `stop` asks to end.
  BlobWriter(const CachedRepository& cached, const RemoteFile& file, FileLock lock,
             const std::function<bool()>& stop);
  ~BlobWriter();
  BlobWriter(const BlobWriter&) = delete;
  BlobWriter& operator=(const BlobWriter&) = delete;

  int64_t written() const { return written_; }
  bool has_all() const { return written_ == size_; }

  // Takes the bytes at `offset`. Writes all bytes that follow the written ones without a gap.
  // Throws Error(Exit::Failed) if the disk is full.
  void put(int64_t offset, std::string bytes);

  enum class Check { Good, Again };
  // Call it when has_all() is true: compares the hash, and gives the blob its name. Again: the hash
  // is wrong, but the file began with bytes of an earlier download. It is empty now, for another
  // try. Throws Error(Exit::Model) if the hash of a download without such bytes is wrong.
  Check finish();

 private:
  void start_over();
  [[noreturn]] void fail_to(const char* what, int error) const;

  const CachedRepository& cached_;
  const RemoteFile& file_;
  FileLock lock_;
  std::filesystem::path path_;
  int fd_ = -1;
  int64_t size_, written_ = 0;
  bool continued_ = false;  // the file began with bytes of an earlier download
  Hash hash_;
  std::map<int64_t, std::string> waiting_;
};

}  // namespace skald
