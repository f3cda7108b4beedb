#include "app/hub/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "app/hub/text.h"
#include "app/program/version.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr int kMostRedirects = 10;

const std::string& find_header(const HttpHeaders& headers, const std::string& name) {
  static const std::string kNone;
  const auto found = headers.find(name);
  return found == headers.end() ? kNone : found->second;
}

HttpFailure::Kind kind_of(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return HttpFailure::Kind::NoHost;
    case CURLE_COULDNT_CONNECT:
      return HttpFailure::Kind::Refused;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
      return HttpFailure::Kind::Tls;
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return HttpFailure::Kind::Cut;
    case CURLE_ABORTED_BY_CALLBACK:
      return HttpFailure::Kind::Stopped;
    default:
      return HttpFailure::Kind::Other;
  }
}

// Returns the host's name: "huggingface.co" of "https://huggingface.co/api".
std::string host_name(const std::string& url) {
  const std::string host = host_of(url);
  const size_t start = host.find("://");
  return printable(start == host.npos ? url : host.substr(start + 3), 100);
}

// The address that a Location header names, seen from `url`.
std::string resolved(const std::string& url, const std::string& location) {
  CURLU* parts = curl_url();
  std::string result;
  char* text = nullptr;
  if (parts && curl_url_set(parts, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK &&
      curl_url_set(parts, CURLUPART_URL, location.c_str(), 0) == CURLUE_OK &&
      curl_url_get(parts, CURLUPART_URL, &text, 0) == CURLUE_OK) {
    result = text;
  }
  curl_free(text);
  curl_url_cleanup(parts);
  return result;
}

// Why no reply came from `url`. libcurl's own texts differ from version to version.
std::string reason_of(CURLcode code, CURL* curl, const std::string& url,
                      const HubSettings& settings) {
  const std::string host = host_name(url);
  long proxy_status = 0, system_error = 0;
  curl_easy_getinfo(curl, CURLINFO_HTTP_CONNECTCODE, &proxy_status);
  if (proxy_status >= 300) return concat("the proxy answers with status ", proxy_status);
  curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &system_error);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return concat("no address is known for ", host);
    case CURLE_COULDNT_RESOLVE_PROXY:
      return "no address is known for the proxy";
    case CURLE_COULDNT_CONNECT:
      return concat("no connection to ", host, system_error == 0 ? "" : ": ",
                    system_error == 0 ? "" : std::strerror(static_cast<int>(system_error)));
    case CURLE_PEER_FAILED_VERIFICATION:
      return concat("this machine does not trust the certificate of ", host);
    case CURLE_SSL_CACERT_BADFILE:
      return concat("the CA file ", printable(settings.certificates), " cannot be used");
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
      return concat("no encrypted connection to ", host);
    case CURLE_OPERATION_TIMEDOUT:
      return concat(host, " did not answer in time");
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return concat("'", printable(url, 200), "' is no http:// or https:// address");
    case CURLE_OUT_OF_MEMORY:
      return "the machine is out of memory";
    default:
      if (kind_of(code) == HttpFailure::Kind::Cut) {
        return concat("the connection to ", host, " ended early");
      }
      return concat("nothing came from ", host, " (libcurl's error ", static_cast<int>(code), ")");
  }
}

// Like curl_easy_perform(), which asks a silent transfer only once a second whether it is to stop:
// a signal would end the program before, and what has arrived would be lost.
CURLcode perform(CURL* curl, CURLM* multi) {
  constexpr int kAskEachMilliseconds = 100;
  if (curl_multi_add_handle(multi, curl) != CURLM_OK) return CURLE_OUT_OF_MEMORY;
  CURLcode code = CURLE_FAILED_INIT;  // until the transfer says how it ended
  CURLMcode state = CURLM_OK;
  for (int running = 1; running > 0 && state == CURLM_OK;) {
    state = curl_multi_perform(multi, &running);
    if (state == CURLM_OK && running > 0) {
      state = curl_multi_poll(multi, nullptr, 0, kAskEachMilliseconds, nullptr);
    }
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
    if (message->msg == CURLMSG_DONE) code = message->data.result;
  }
  curl_multi_remove_handle(multi, curl);
  return state == CURLM_OUT_OF_MEMORY ? CURLE_OUT_OF_MEMORY : code;
}

}  // namespace

struct HttpConnection::Handle {
  CURL* curl = nullptr;
  CURLM* multi = nullptr;  // keeps the open connections
};

// What the callbacks of one request share.
struct HttpConnection::Transfer {
  CURL* curl;
  HttpReply reply;
  const Body* body;
  const std::function<bool()>* stop;
  bool enough = false;        // `body` wants no more
  std::exception_ptr thrown;  // by `body`; no exception may pass through libcurl

  static size_t take_header(char* data, size_t, size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::string_view line(data, size);
    if (line.starts_with("HTTP/")) transfer.reply.headers.clear();  // 100 Continue came before
    const size_t colon = line.find(':');
    if (colon != line.npos) {
      transfer.reply.headers[lower(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
    }
    return size;
  }

  void read_status() {
    long code = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    reply.status = static_cast<int>(code);
  }

  static size_t take_body(char* data, size_t, size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    transfer.read_status();
    if (transfer.reply.status != 200 && transfer.reply.status != 206) return size;
    try {
      if ((*transfer.body)(transfer.reply, std::string_view(data, size))) return size;
      transfer.enough = true;
    } catch (...) {
      transfer.thrown = std::current_exception();
    }
    return 0;
  }

  static int tick(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return (*static_cast<Transfer*>(self)->stop)() ? 1 : 0;
  }
};

const std::string& HttpReply::header(const std::string& name) const {
  return find_header(headers, name);
}

const std::string& HttpReply::first_header(const std::string& name) const {
  return find_header(redirected ? first_headers : headers, name);
}

HttpLibrary::HttpLibrary() {
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    fail(Exit::Failed, "libcurl cannot be started");
  }
}
HttpLibrary::~HttpLibrary() { curl_global_cleanup(); }

HttpConnection::HttpConnection(const HubSettings& settings, std::function<bool()> stop)
    : handle_(std::make_unique<Handle>()), settings_(settings), stop_(std::move(stop)) {
  handle_->curl = curl_easy_init();
  handle_->multi = curl_multi_init();
  if (handle_->curl && handle_->multi) return;
  curl_easy_cleanup(handle_->curl);
  curl_multi_cleanup(handle_->multi);
  fail(Exit::Memory, "no memory for a connection");
}

HttpConnection::~HttpConnection() {
  curl_easy_cleanup(handle_->curl);
  curl_multi_cleanup(handle_->multi);
}

// Makes one request, without redirects. `reply` has the headers of earlier redirects.
HttpReply HttpConnection::get_once(const HttpRequest& request, const Body& body, HttpReply reply) {
  CURL* curl = handle_->curl;
  curl_easy_reset(curl);  // keeps connections that are open
  Transfer transfer{curl, std::move(reply), &body, &stop_, false, nullptr};
  transfer.reply.url = request.url;
  const std::string agent = concat("skald/", version());
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_USERAGENT, agent.c_str());
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, long{settings_.connect_timeout.count()});
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, long{settings_.stall_seconds});
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, Transfer::tick);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, Transfer::take_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Transfer::take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  if (!settings_.certificates.empty()) {
    curl_easy_setopt(curl, CURLOPT_CAINFO, settings_.certificates.c_str());
  }
  if (request.head) curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  std::string range;
  if (request.first > 0 || request.last >= 0) {
    range = concat(request.first, "-");
    if (request.last >= 0) range += std::to_string(request.last);
    curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  }
  curl_slist* headers = nullptr;
  if (!request.token.empty()) {
    headers = curl_slist_append(headers, concat("Authorization: Bearer ", request.token).c_str());
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  }
  const CURLcode code = perform(curl, handle_->multi);
  curl_slist_free_all(headers);
  transfer.read_status();
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  if (code != CURLE_OK && !transfer.enough) {
    curl_off_t connected = 0;  // microseconds; 0: the connection was never ready
    curl_easy_getinfo(curl, CURLINFO_PRETRANSFER_TIME_T, &connected);
    const HttpFailure::Kind kind = kind_of(code);
    const bool no_answer = kind == HttpFailure::Kind::Cut && connected == 0;
    throw HttpFailure(no_answer ? HttpFailure::Kind::Refused : kind,
                      reason_of(code, curl, request.url, settings_));
  }
  return transfer.reply;
}

HttpReply HttpConnection::get(const HttpRequest& request, const Body& body) {
  HttpRequest next = request;
  HttpHeaders first;
  for (int hop = 0;; ++hop) {
    HttpReply reply;
    reply.first_headers = first;
    reply.redirected = hop > 0;
    reply = get_once(next, body, std::move(reply));
    if (hop == 0) first = reply.headers;
    const std::string& location = reply.header("location");
    const bool redirects = reply.status == 301 || reply.status == 302 || reply.status == 303 ||
                           reply.status == 307 || reply.status == 308;
    if (!redirects || location.empty()) return reply;
    const std::string url = resolved(next.url, location);
    const bool same_host = host_of(url) == host_of(next.url);
    if (request.head && !same_host) return reply;
    if (hop == kMostRedirects) {
      throw HttpFailure(HttpFailure::Kind::Other,
                        concat("more than ", kMostRedirects, " redirects, the last one to ", url));
    }
    if (url.empty() || (next.url.starts_with("https://") && !url.starts_with("https://"))) {
      throw HttpFailure(HttpFailure::Kind::Other,
                        concat("the server redirects to ", printable(location),
                               ", which is no https:// address"));
    }
    if (!same_host) next.token.clear();  // and stays empty, also if a later hop comes back
    next.url = url;
  }
}

std::string host_of(std::string_view url) {
  const size_t start = url.find("://");
  if (start == url.npos) return "";
  return lower(url.substr(0, url.find_first_of("/?#", start + 3)));
}

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const unsigned char c : text) {
    const bool plain = (c < 0x80 && std::isalnum(c)) || c == '-' || c == '_' || c == '.' ||
                       c == '~' || (c == '/' && keep_slashes);
    char code[4];
    std::snprintf(code, sizeof code, "%%%02X", c);
    out += plain ? std::string(1, static_cast<char>(c)) : code;
  }
  return out;
}

}  // namespace skald
