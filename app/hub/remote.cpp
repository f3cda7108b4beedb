#include "app/hub/remote.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <thread>

#include "app/files/json.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLargestListing = 64 << 20;  // bytes of JSON

std::string hub_name(const HubSettings& settings) {
  const std::string host = host_of(settings.endpoint);
  return host.substr(host.find("://") + 3);
}

// Seconds, or a date. Zero: the server does not say.
milliseconds retry_after(const HttpReply& reply) {
  const std::string& text = reply.header("retry-after");
  int64_t seconds = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), seconds).ptr;
  if (text.empty() || end != text.data() + text.size()) {
    std::tm date = {};
    if (text.empty() || !strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date)) return {};
    seconds = static_cast<int64_t>(timegm(&date)) - static_cast<int64_t>(std::time(nullptr));
  }
  return milliseconds(1000 * std::clamp<int64_t>(seconds, 0, 1'000'000));
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t number_of(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
}

bool is_hash(const std::string& text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// A name from the hub becomes a path on this machine.
bool is_safe_path(const std::string& path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string::npos) return false;
  const std::string framed = "/" + path + "/";
  for (const char* bad : {"/../", "/./", "//"}) {
    if (framed.find(bad) != std::string::npos) return false;
  }
  return true;
}

}  // namespace

RemoteRepository parse_listing(const std::string& text, const HubReference& reference,
                               const std::string& where) {
  const Json listing = parse_json_or_null(text);
  RemoteRepository found;
  found.name = text_of(listing, "id");
  if (!is_repository(found.name)) found.name = reference.repository;
  found.commit = text_of(listing, "sha");
  const auto siblings = listing.is_object() ? listing.find("siblings") : listing.end();
  if (!is_hash(found.commit, 40) || siblings == listing.end() || !siblings->is_array()) {
    fail(Exit::Failed, where, ": the answer is no list of a repository's files; does ",
         "HF_ENDPOINT name a hub, and no page of a network's login?");
  }
  for (const Json& one : *siblings) {
    RemoteFile file;
    file.name = text_of(one, "rfilename");
    if (!is_safe_path(file.name)) {
      fail(Exit::Failed, where, ": lists a file named '", printable(file.name),
           "', which would lead out of the cache; nothing was downloaded");
    }
    file.size = number_of(one, "size");
    if (const auto lfs = one.find("lfs"); lfs != one.end() && lfs->is_object()) {
      file.sha256 = text_of(*lfs, "sha256");
      if (const int64_t size = number_of(*lfs, "size"); size >= 0) file.size = size;
      if (!is_hash(file.sha256, 64)) file.sha256.clear();
    }
    file.etag = file.sha256.empty() ? text_of(one, "blobId") : file.sha256;
    if (file.sha256.empty() && !is_hash(file.etag, 40)) file.etag.clear();
    found.files.push_back(std::move(file));
  }
  if (const auto gguf = listing.find("gguf"); gguf != listing.end()) {
    found.gguf_architecture = text_of(*gguf, "architecture");
  }
  if (const auto config = listing.find("config"); config != listing.end()) {
    found.model_type = text_of(*config, "model_type");
  }
  return found;
}

bool may_pass(int status) { return status == 408 || status == 429 || status >= 500; }

void Patience::pause(milliseconds least) {
  const milliseconds doubled = settings_.first_pause * (1 << std::min(failures_ - 1, 5));
  milliseconds left = std::max(least, doubled);
  tell_(left.count() / 1000);
  while (left.count() > 0) {
    if (stop_()) throw HttpFailure(HttpFailure::Kind::Stopped, "stopped");
    const milliseconds step = std::min(left, milliseconds(50));
    std::this_thread::sleep_for(step);
    left -= step;
  }
  tell_(0);
}

std::function<void(int64_t seconds)> tell_long_pauses(const std::string& what) {
  constexpr int64_t kLong = 4;  // seconds
  return [what](int64_t seconds) {
    if (seconds < kLong) return;
    std::fprintf(stderr, "skald: %s cannot answer now; trying again in %lld s\n", what.c_str(),
                 static_cast<long long>(seconds));
  };
}

void Patience::after_failure(const HttpFailure& failure, const std::string& what,
                             bool first_contact) {
  const auto kind = failure.kind();
  if (kind == HttpFailure::Kind::Stopped) throw failure;
  const bool passes =
      kind == HttpFailure::Kind::Cut ||
      (!first_contact && kind != HttpFailure::Kind::Tls && kind != HttpFailure::Kind::Other);
  if (passes && ++failures_ < settings_.attempts) return pause({});
  const char* advice = "";
  switch (kind) {
    case HttpFailure::Kind::NoHost:
      advice = "; is this machine online? A proxy is taken from https_proxy";
      break;
    case HttpFailure::Kind::Refused:
      advice = "; is a firewall in the way? A proxy is taken from https_proxy";
      break;
    case HttpFailure::Kind::Tls:
      advice = "; if a proxy signs its own certificates, name its CA file in SSL_CERT_FILE";
      break;
    case HttpFailure::Kind::Cut:
      advice = "; what has arrived is kept: the same command goes on from there";
      break;
    case HttpFailure::Kind::Stopped:
    case HttpFailure::Kind::Other:
      break;
  }
  fail(Exit::Failed, what, ": ", printable(failure.what()), advice);
}

void Patience::after_status(const HttpReply& reply, const std::string& what) {
  const milliseconds asked = retry_after(reply);
  if (asked > settings_.longest_pause) {
    fail(Exit::Failed, what, ": the server asks to come back in ", asked.count() / 60'000,
         " minutes (status ", reply.status, "); what has arrived is kept");
  }
  if (++failures_ < settings_.attempts) return pause(asked);
  fail(Exit::Failed, what, ": the server answers with status ", reply.status, " after ", failures_,
       " attempts",
       reply.status == 429 ? "; too many requests: wait some minutes, or set HF_TOKEN for a higher "
                             "limit"
                           : "; try again later",
       "; what has arrived is kept");
}

void fail_with_status(const HttpReply& reply, const HubSettings& settings,
                      const HubReference& reference) {
  const std::string name = printable(reference.repository), hub = hub_name(settings);
  const std::string& code = reply.first_header("x-error-code");
  const std::string& message = reply.first_header("x-error-message");
  const bool has_token = !settings.token.empty();
  if (host_of(reply.url) != host_of(settings.endpoint)) {
    fail(Exit::Failed, name, ": ", printable(host_of(reply.url)), ", which ", hub,
         " redirects to, answers with status ", reply.status, "; try again later");
  }
  if (reply.status == 403 && code.empty()) {
    fail(Exit::Model, name, ": ", hub,
         " refuses it (status 403): a licence may have to be accepted ", "at ",
         printable(settings.endpoint), "/", name, " and HF_TOKEN to be set, or a firewall ",
         "forbids it");
  }
  if (code == "GatedRepo" || (reply.status == 403 && code != "RepoNotFound")) {
    fail(Exit::Model, name, ": its owner asks to accept a licence first (status ", reply.status,
         "): accept it at ", printable(settings.endpoint), "/", name, ", ",
         has_token ? "with the account of your HF_TOKEN" : "then set HF_TOKEN to your token");
  }
  if (code == "RevisionNotFound") {
    fail(Exit::Model, name, ": has no revision '", printable(reference.revision), "' on ", hub);
  }
  if (code == "EntryNotFound") fail(Exit::Model, name, ": the file is missing on ", hub);
  if (reply.status == 401 || reply.status == 404 || code == "RepoNotFound") {
    const std::string_view meant = nearest(reference.repository, short_repositories());
    fail(Exit::Model, name, ": is not on ", hub, ", or is private (status ", reply.status, ")",
         meant.empty() || meant == reference.repository ? ""
                                                        : concat("; did you mean '", meant, "'?"),
         has_token ? "; check the name, and that HF_TOKEN may read it"
                   : "; check the name; for a private one, set HF_TOKEN");
  }
  fail(Exit::Failed, name, ": ", hub, " answers with status ", reply.status,
       message.empty() ? "" : ": ", printable(message));
}

std::string linked_etag(const HttpReply& reply) {
  std::string etag = reply.first_header("x-linked-etag");
  if (etag.empty() && !reply.redirected) etag = reply.header("etag");
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  return is_hash(etag, 40) || is_hash(etag, 64) ? etag : "";
}

std::string file_url(const HubSettings& settings, const std::string& repository,
                     const std::string& commit, const std::string& file) {
  return concat(settings.endpoint, "/", repository, "/resolve/", commit, "/",
                percent_encoded(file, true));
}

RemoteRepository read_repository(HttpConnection& connection, const HubSettings& settings,
                                 const HubReference& reference) {
  const std::string revision = reference.revision.empty() ? "main" : reference.revision;
  HttpRequest request;
  request.url = concat(settings.endpoint, "/api/models/", reference.repository, "/revision/",
                       percent_encoded(revision, false), "?blobs=true");
  request.token = settings.token;
  const std::string where = printable(hub_name(settings));
  Patience patience(
      settings, [&] { return connection.stopped(); }, tell_long_pauses(where));
  while (true) {
    std::string text;
    try {
      const HttpReply reply =
          connection.get(request, [&](const HttpReply&, std::string_view bytes) {
            if (text.size() + bytes.size() > kLargestListing) {
              fail(Exit::Failed, where, ": the list of the repository's files does not end");
            }
            text += bytes;
            return true;
          });
      if (reply.status == 200) return parse_listing(text, reference, where);
      if (!may_pass(reply.status)) fail_with_status(reply, settings, reference);
      patience.after_status(reply, where);
    } catch (const HttpFailure& failure) {
      patience.after_failure(failure, where, true);
    }
  }
}

}  // namespace skald
