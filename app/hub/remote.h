// A repository as the hub describes it, and requests to the hub that are repeated where that can
// help.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/hub/http.h"
#include "app/hub/reference.h"
#include "app/hub/settings.h"

namespace skald {

struct RemoteFile {
  std::string name;  // path inside the repository
  int64_t size = 0;
  std::string sha256;  // of large files; empty: `etag` is git's hash, or unknown
  std::string etag;    // the name of its blob in the cache
};

struct RemoteRepository {
  std::string name;    // "owner/name" as the hub spells it
  std::string commit;  // the one that the revision names at present
  std::vector<RemoteFile> files;
  // Empty where the hub does not tell.
  std::string gguf_architecture;  // general.architecture of its GGUF files
  std::string model_type;         // of its config.json
};

// Asks the hub. Throws Error with one line that says what to do: the repository is missing,
// private or wants a licence to be accepted, or the hub cannot be reached.
RemoteRepository read_repository(HttpConnection& connection, const HubSettings& settings,
                                 const HubReference& reference);

// Reads the hub's answer, a list of the repository's files. Throws Error(Exit::Failed) that begins
// with `where` for anything else, and for a file's name that would lead out of the cache.
RemoteRepository parse_listing(const std::string& text, const HubReference& reference,
                               const std::string& where);

// The address of a file in one commit.
std::string file_url(const HubSettings& settings, const std::string& repository,
                     const std::string& commit, const std::string& file);

// The ETag by which the hub names a file: X-Linked-Etag, else ETag, without quotes.
std::string linked_etag(const HttpReply& reply);

// Waits between attempts, longer each time. One is made for each thing that is attempted.
class Patience {
 public:
  // `tell` is called before a pause with its seconds, and after it with 0.
  Patience(const HubSettings& settings, std::function<bool()> stop,
           std::function<void(int64_t seconds)> tell)
      : settings_(settings), stop_(std::move(stop)), tell_(std::move(tell)) {}

  void made_progress() { failures_ = 0; }
  // Return after a pause, or throw Error where another attempt cannot help. `what` begins the
  // message.
  void after_failure(const HttpFailure& failure, const std::string& what, bool first_contact);
  // For a status of 429 or 5xx, which may pass.
  void after_status(const HttpReply& reply, const std::string& what);

 private:
  void pause(std::chrono::milliseconds least);

  const HubSettings& settings_;
  std::function<bool()> stop_;
  std::function<void(int64_t)> tell_;
  int failures_ = 0;
};

// For work without a progress display: says on stderr that a pause has begun, if it is a long one.
std::function<void(int64_t seconds)> tell_long_pauses(const std::string& what);

bool may_pass(int status);  // 408, 429 and 5xx

// Throws the Error of a status that another attempt does not change.
[[noreturn]] void fail_with_status(const HttpReply& reply, const HubSettings& settings,
                                   const HubReference& reference);

}  // namespace skald
