#include "app/hub/pull.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "app/files/signals.h"
#include "app/hub/cache.h"
#include "app/hub/choice.h"
#include "app/hub/download.h"
#include "app/hub/download_progress.h"
#include "app/hub/question.h"
#include "app/hub/remote.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"
#include "models/families/family.h"
#include "models/open.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kAskAbove = 1'000'000'000;  // bytes
constexpr int64_t kSpareSpace = 64 << 20;     // bytes of the disk that stay free
constexpr int kMostListings = 3;

bool stopped() { return interrupted_by() != 0; }

// The files that the cache has when the pull is done.
struct Choice {
  std::vector<RemoteFile> files;
  std::string type;  // the GGUF's type; empty: a folder
  std::string main;  // the file that is opened; empty: the folder

  int64_t bytes() const {
    int64_t sum = 0;
    for (const RemoteFile& file : files) sum += file.size;
    return sum;
  }
};

std::vector<std::string> names_of(const RemoteRepository& repository) {
  std::vector<std::string> names;
  names.reserve(repository.files.size());
  for (const RemoteFile& file : repository.files) names.push_back(file.name);
  return names;
}

// Finds the model to which the file belongs that the user named.
const GgufModel& model_with(const std::vector<GgufModel>& models, const HubReference& reference) {
  for (const GgufModel& model : models) {
    for (const std::string& file : model.files) {
      if (file == reference.file) return model;
    }
  }
  std::vector<std::string_view> known;
  known.reserve(models.size());
  for (const GgufModel& model : models) known.push_back(model.files.front());
  const std::string_view meant = nearest(reference.file, known);
  fail(Exit::Model, printable(reference.repository), ": has no GGUF model ",
       printable(reference.file),
       meant.empty() ? "" : concat("; did you mean ", printable(meant), "?"));
}

Choice choose(const RemoteRepository& repository, const HubReference& reference) {
  const std::vector<std::string> names = names_of(repository);
  const std::vector<GgufModel> models = gguf_models(names);
  const std::string where = printable(reference.repository);
  std::vector<std::string> needed = folder_files(names);
  const bool folder = !needed.empty() && reference.type.empty() && reference.file.empty();
  Choice choice;
  if (!folder) {
    if (models.empty()) {
      fail(Exit::Model, where, ": has no GGUF ",
           needed.empty() ? "and no safetensors files, which skald reads"
                          : concat("files; pull ", where,
                                   " without a type, and quantize while loading with --type"));
    }
    const GgufModel& model = reference.file.empty() ? choose_gguf(models, reference.type, where)
                                                    : model_with(models, reference);
    if (!model.whole()) {
      fail(Exit::Model, where, ": has ", model.files.size(), " of the ", model.parts, " parts of ",
           printable(model.files.front()));
    }
    choice.type = model.type;
    choice.main = model.files.front();
    needed = model.files;
    if (!repository.gguf_architecture.empty()) family_for_gguf(repository.gguf_architecture, where);
  } else if (!repository.model_type.empty()) {
    family_for_hf(repository.model_type, where);
  }
  for (const RemoteFile& file : repository.files) {
    if (std::find(needed.begin(), needed.end(), file.name) != needed.end()) {
      choice.files.push_back(file);
    }
  }
  return choice;
}

// Asks the hub about files whose size or hash is missing in its list. Some mirrors have such lists.
void complete(HttpConnection& connection, const HubSettings& settings,
              const RemoteRepository& repository, const HubReference& reference, Choice& choice) {
  for (RemoteFile& file : choice.files) {
    if (file.size >= 0 && !file.etag.empty()) continue;
    HttpRequest request;
    request.url = file_url(settings, reference.repository, repository.commit, file.name);
    request.token = settings.token;
    request.head = true;
    const std::string what = printable(file.name);
    Patience patience(settings, stopped, tell_long_pauses(what));
    HttpReply reply;
    while (true) {
      try {
        reply = connection.get(request, [](const HttpReply&, std::string_view) { return true; });
        if (reply.status < 400) break;
        if (!may_pass(reply.status)) fail_with_status(reply, settings, reference);
        patience.after_status(reply, what);
      } catch (const HttpFailure& failure) {
        patience.after_failure(failure, what, false);
      }
    }
    file.etag = linked_etag(reply);
    if (file.etag.size() == 64) file.sha256 = file.etag;
    const std::string& linked = reply.first_header("x-linked-size");
    const std::string& size = linked.empty() ? reply.header("content-length") : linked;
    if (file.etag.empty() || size.empty() || size.find_first_not_of("0123456789") != size.npos ||
        size.size() > 18) {
      fail(Exit::Failed, what,
           ": the server tells no hash and size of it; does HF_ENDPOINT name a ", "hub?");
    }
    file.size = std::stoll(size);
  }
}

void check_space(const fs::path& cache, int64_t bytes) {
  fs::path there = fs::absolute(cache);
  std::error_code error;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  struct statvfs disk = {};
  // Without an answer, or where this is no disk (/proc), the download itself shows whether there is
  // room.
  if (::statvfs(there.c_str(), &disk) != 0 || disk.f_blocks == 0) return;
  const auto free = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  if (free >= bytes + kSpareSpace) return;
  fail(Exit::Failed, printable(cache.string()), ": the download needs ", size_text(bytes), ", and ",
       size_text(free), " are free; free some space, or set HF_HOME to a folder on a larger disk");
}

void allow(const std::string& name, int64_t missing, const PullOptions& options) {
  if (options.yes || missing <= kAskAbove) return;
  if (!can_ask()) {
    fail(Exit::Usage, printable(name), ": ", size_text(missing),
         " are to be downloaded, and a script gets more than 1 GB only with -y: skald pull -y ",
         printable(name));
  }
  if (!ask(concat(printable(name), " is ", size_text(missing), " to download. Go on?"))) {
    fail(Exit::Failed, printable(name), ": not downloaded");
  }
}

class Pull {
 public:
  Pull(const HubSettings& settings, const HubReference& reference, const PullOptions& options)
      : settings_(settings), reference_(reference), options_(options) {}

  PulledModel run() {
    for (int listing = 1;; ++listing) {
      try {
        return run_once();
      } catch (const ListingChanged& changed) {
        if (listing < kMostListings) continue;
        fail(Exit::Failed, printable(changed.what()),
             ": the hub sends another version than it lists; try again later");
      }
    }
  }

 private:
  PulledModel run_once() {
    RemoteRepository remote = read_repository(connection_, settings_, reference_);
    Choice choice = choose(remote, reference_);
    complete(connection_, settings_, remote, reference_, choice);
    const CachedRepository cached(settings_.cache, remote.name);
    HubReference named = reference_;
    named.repository = remote.name;
    if (named.file.empty()) named.type = choice.type;
    PulledModel pulled{{}, to_text(named), choice.bytes(), missing_bytes(cached, choice.files)};
    allow(pulled.name, pulled.fetched, options_);
    check_space(settings_.cache, pulled.fetched);
    cached.make_folders();
    fetch(cached, remote, choice, pulled);
    for (const RemoteFile& file : choice.files) cached.link(remote.commit, file.name, file.etag);
    const std::string revision = reference_.revision.empty() ? "main" : reference_.revision;
    if (revision != remote.commit) cached.write_ref(revision, remote.commit);
    pulled.path = cached.snapshot(remote.commit) / choice.main;
    if (choice.main.empty()) pulled.path = cached.snapshot(remote.commit);
    return pulled;
  }

  void fetch(const CachedRepository& cached, const RemoteRepository& remote, const Choice& choice,
             const PulledModel& pulled) {
    const auto before = missing_bytes(cached, choice.files);
    if (before > 0 && !options_.quiet) {
      std::fprintf(
          stderr, "skald: pulling %s, %s in %zu file%s%s\n", printable(pulled.name).c_str(),
          size_text(pulled.bytes).c_str(), choice.files.size(), choice.files.size() == 1 ? "" : "s",
          before < pulled.bytes ? concat(", of which ", size_text(before), " are missing").c_str()
                                : "");
    }
    DownloadProgress progress(pulled.bytes);
    download({settings_, cached, reference_, remote.name, remote.commit, choice.files,
              [&](const DownloadState& state) {
                if (!options_.quiet) progress.show(state);
              },
              stopped});
  }

  const HubSettings& settings_;
  const HubReference& reference_;
  const PullOptions& options_;
  HttpLibrary library_;
  HttpConnection connection_{settings_, stopped};
};

fs::path pull_now(const std::string& name, HubSettings settings, const PullOptions& options) {
  const PulledModel pulled = pull(settings, remote_reference(name), options);
  return pulled.path;
}

}  // namespace

PulledModel pull(const HubSettings& settings, const HubReference& reference,
                 const PullOptions& options) {
  if (settings.offline) {
    fail(Exit::Model, printable(to_text(reference)),
         ": is not downloaded, because HF_HUB_OFFLINE or --offline forbids connections");
  }
  try {
    return Pull(settings, reference, options).run();
  } catch (const HttpFailure& failure) {
    if (failure.kind() != HttpFailure::Kind::Stopped) throw;
    fail_interrupted("; what has arrived is kept, and the same command goes on");
  }
}

fs::path pull_if_missing(const std::string& name, bool offline) {
  HubSettings settings = hub_settings();
  settings.offline = settings.offline || offline;
  if (const auto found = find_in_cache(settings.cache, name); found && is_whole(*found)) {
    return *found;
  }
  if (settings.offline) {
    fail(
        Exit::Model, printable(name), ": is not in ", printable(settings.cache.string()),
        ", and HF_HUB_OFFLINE or --offline forbids to download it; where a connection is allowed: ",
        "skald pull ", printable(name));
  }
  return pull_now(name, std::move(settings), {});
}

std::string pull_command(const std::string& name) {
  const auto known = parse_short_name(name);
  const auto reference = known ? known : parse_reference(name);
  const bool path = name.ends_with("/") || name.ends_with(".gguf") || name.ends_with(".json") ||
                    name.ends_with(".safetensors");
  if (!reference || !reference->has_owner() || (path && reference->file.empty())) return "";
  return "skald pull " + printable(name);
}

fs::path offer_pull(const std::string& name, const std::string& meant, bool offline) {
  if (offline || !can_ask() || pull_command(name).empty()) return {};
  HubSettings settings = hub_settings();
  if (settings.offline) return {};
  const std::string hub = host_of(settings.endpoint);
  const std::string question =
      concat(printable(name), " is not on this machine",
             meant.empty() ? "" : concat(", '", printable(meant), "' is"), ". Pull it from ",
             printable(hub.substr(hub.find("://") + 3)), "?");
  if (!ask(question)) return {};
  return pull_now(name, std::move(settings), {});
}

}  // namespace skald
