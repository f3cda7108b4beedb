// One blob while it is downloaded: `HASH.incomplete`, which always holds the first bytes of the
// content and nothing else, so that any later download goes on behind them. Parts may come in any
// order; they wait in memory until the bytes before them are written. Used by one thread at a time.
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
  // Opens the file and reads what an earlier download left, which takes seconds for a large one.
  // Throws Error, and HttpFailure(Stopped) if `stop` asks to end.
  BlobWriter(const CachedRepository& cached, const RemoteFile& file, FileLock lock,
             const std::function<bool()>& stop);
  ~BlobWriter();
  BlobWriter(const BlobWriter&) = delete;
  BlobWriter& operator=(const BlobWriter&) = delete;

  int64_t written() const { return written_; }
  bool has_all() const { return written_ == size_; }

  // Keeps the bytes at `offset`. Writes what now follows the written bytes. Throws
  // Error(Exit::Failed) if the disk is full.
  void put(int64_t offset, std::string bytes);

  enum class Check { Good, Again };
  // With has_all(): compares the hash, and gives the blob its name. Again: the file began with
  // bytes of an earlier download, which may have been wrong; it is empty now. Throws
  // Error(Exit::Model) where bytes that all came now have the wrong hash.
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
  bool continued_ = false;  // began with bytes of an earlier download
  Hash hash_;
  std::map<int64_t, std::string> waiting_;
};

}  // namespace skald
