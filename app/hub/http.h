// HTTP for the hub, over libcurl. http.cpp alone includes curl.h.
//
// Nothing here opens a connection before get(). A connection is used by one thread; several may
// run side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "app/hub/settings.h"

namespace skald {

// Thrown if no reply came, or not all of it.
class HttpFailure : public std::runtime_error {
 public:
  enum class Kind {
    NoHost,   // the name cannot be resolved
    Refused,  // no connection
    Tls,      // the server's certificate is not trusted, or the handshake failed
    Cut,      // the connection ended early, or nothing came for too long
    Stopped,  // `stop` asked for it
    Other,
  };
  HttpFailure(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

using HttpHeaders = std::map<std::string, std::string>;  // names in small letters

struct HttpReply {
  int status = 0;
  HttpHeaders headers;        // of the last reply
  HttpHeaders first_headers;  // of the first one, where redirects followed
  std::string url;            // the address of the last reply
  bool redirected = false;

  // A header's value; empty: the reply has none.
  const std::string& header(const std::string& name) const;
  const std::string& first_header(const std::string& name) const;
};

struct HttpRequest {
  std::string url;
  std::string token;  // sent to the host of `url` alone, never to one that a redirect names
  int64_t first = 0;  // the range of bytes asked for
  int64_t last = -1;  // -1: to the end, and with first == 0 no range at all
  bool head = false;  // headers without a body, and no redirect to another host is followed
};

class HttpConnection {
 public:
  // `stop` is asked several times a second during a transfer.
  HttpConnection(const HubSettings& settings, std::function<bool()> stop);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Passes the bytes of a reply with status 200 or 206 to `body`. If `body` returns false, the
  // transfer ends, which is not a failure. Follows at most ten redirects, and none from https to
  // http. Throws HttpFailure; `body` has then got the bytes before the failure.
  using Body = std::function<bool(const HttpReply& reply, std::string_view bytes)>;
  HttpReply get(const HttpRequest& request, const Body& body);

  bool stopped() const { return stop_(); }

 private:
  struct Transfer;
  HttpReply get_once(const HttpRequest& request, const Body& body, HttpReply reply);

  struct Handle;
  std::unique_ptr<Handle> handle_;
  const HubSettings& settings_;
  std::function<bool()> stop_;
};

// Returns "https://host:port" of an address, in small letters.
std::string host_of(std::string_view url);

std::string percent_encoded(std::string_view text, bool keep_slashes);

// Libcurl's state of the process: made before the first connection, in one thread.
class HttpLibrary {
 public:
  HttpLibrary();
  ~HttpLibrary();
  HttpLibrary(const HttpLibrary&) = delete;
  HttpLibrary& operator=(const HttpLibrary&) = delete;
};

}  // namespace skald
