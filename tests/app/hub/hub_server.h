// A hub for tests: a small HTTP server on 127.0.0.1 that lists and sends files as Hugging Face's
// hub does. A large file is sent by a redirect to another host name of the same server: the hub is
// 127.0.0.1, the other host is localhost.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "app/hub/hash.h"
#include "tests/sha256.h"

namespace skald::test {

class HubServer {
 public:
  struct Request {
    std::string method, path;
    std::map<std::string, std::string> headers;  // names in small letters

    std::string header(const std::string& name) const {
      const auto found = headers.find(name);
      return found == headers.end() ? "" : found->second;
    }
    bool to_localhost() const { return header("host").starts_with("localhost"); }
  };

  struct Reply {
    int status = 200;
    std::vector<std::string> headers = {};  // "Name: value"
    std::string body = {};
    size_t cut_after = std::string::npos;   // closes the connection after so many bytes of the body
    size_t hold_after = std::string::npos;  // waits for release() there
  };

  // Called for every request before the server's own answer; what it returns is sent instead. Runs
  // in the connections' threads, one at a time.
  using Hook = std::function<std::optional<Reply>(const Request&)>;

  HubServer() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) ||
        ::listen(listener_, 64) ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size)) {
      throw std::runtime_error("no listening socket");
    }
    port_ = ntohs(address.sin_port);
    threads_.emplace_back([this] { accept_all(); });
  }

  ~HubServer() {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
      ::shutdown(listener_, SHUT_RDWR);
      for (const int fd : connections_) ::shutdown(fd, SHUT_RDWR);
    }
    release();
    threads_.front().join();  // the others are complete when no new connection can come
    for (size_t i = 1; i < threads_.size(); ++i) threads_[i].join();
    ::close(listener_);
  }
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string other_host() const { return "http://localhost:" + std::to_string(port_); }

  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

  void add(const std::string& repository, const std::string& file, const std::string& content,
           bool large = true) {
    const std::lock_guard guard(mutex_);
    repositories_[repository].files[file] = {content, large, etag_of(content, large)};
  }
  void set_commit(const std::string& repository, const std::string& commit) {
    const std::lock_guard guard(mutex_);
    repositories_[repository].commit = commit;
  }
  void set_more(const std::string& repository, const std::string& json) {  // ", \"key\": …"
    const std::lock_guard guard(mutex_);
    repositories_[repository].more = json;
  }
  void set_hook(Hook hook) {
    const std::lock_guard guard(mutex_);
    hook_ = std::move(hook);
  }

  std::vector<Request> requests() const {
    const std::lock_guard guard(mutex_);
    return requests_;
  }
  // Those for the bytes of files, by either host.
  std::vector<Request> file_requests() const {
    std::vector<Request> all = requests();
    std::erase_if(all, [](const Request& one) { return one.path.starts_with("/api/"); });
    return all;
  }

  static std::string etag_of(const std::string& content, bool large) {
    if (large) return sha256_hex(content);
    Hash hash = Hash::git_blob(std::ssize(content));
    hash.add(content);
    return hash.hex();
  }

  void wait_until_held() {
    std::unique_lock guard(hold_mutex_);
    held_changed_.wait(guard, [this] { return held_; });
  }
  void release() {
    const std::lock_guard guard(hold_mutex_);
    released_ = true;
    held_changed_.notify_all();
  }

  // What the server answers without a hook.
  Reply answer(const Request& request) const {
    const std::string path = request.path.substr(0, request.path.find('?'));
    for (const auto& [name, repository] : repositories_) {
      if (path.starts_with("/api/models/" + name + "/revision/")) return list(name, repository);
      const std::string start = "/" + name + "/resolve/" + repository.commit + "/";
      if (!path.starts_with(start)) continue;
      const auto file = repository.files.find(path.substr(start.size()));
      if (file != repository.files.end()) return resolve(request, repository, file->second);
    }
    for (const auto& [name, repository] : repositories_) {
      for (const auto& [file, stored] : repository.files) {
        if (path == "/cdn/" + stored.etag) return send(request, stored, {});
      }
    }
    return {404, {"X-Error-Code: RepoNotFound"}, "Repository not found"};
  }

 private:
  struct File {
    std::string content;
    bool large = true;
    std::string etag;
  };
  struct Repository {
    std::string commit = kCommit, more;
    std::map<std::string, File> files;
  };

  static Reply list(const std::string& name, const Repository& repository) {
    std::string files;
    for (const auto& [file, stored] : repository.files) {
      const std::string size = std::to_string(stored.content.size());
      files +=
          (files.empty() ? "" : ", ") + ("{\"rfilename\": \"" + file) + "\", \"size\": " + size;
      files += stored.large ? ", \"blobId\": \"0\", \"lfs\": {\"sha256\": \"" + stored.etag +
                                  "\", \"size\": " + size + ", \"pointerSize\": 134}}"
                            : ", \"blobId\": \"" + stored.etag + "\"}";
    }
    return {200,
            {"Content-Type: application/json"},
            "{\"id\": \"" + name + "\", \"sha\": \"" + repository.commit + "\", \"siblings\": [" +
                files + "]" + repository.more + "}"};
  }

  Reply resolve(const Request& request, const Repository& repository, const File& file) const {
    std::vector<std::string> headers = {"X-Repo-Commit: " + repository.commit};
    if (!file.large) return send(request, file, headers);
    headers.push_back("Location: " + other_host() + "/cdn/" + file.etag);
    headers.push_back("X-Linked-Etag: \"" + file.etag + "\"");
    headers.push_back("X-Linked-Size: " + std::to_string(file.content.size()));
    return {302, headers, "Found"};
  }

  static Reply send(const Request& request, const File& file, std::vector<std::string> headers) {
    headers.push_back("ETag: \"" + file.etag + "\"");
    const std::string range = request.header("range");
    if (range.empty()) return {200, headers, file.content};
    const size_t equals = range.find('='), dash = range.find('-');
    const size_t first = std::stoul(range.substr(equals + 1));
    size_t end = file.content.size();
    if (dash + 1 < range.size()) end = std::min(end, std::stoul(range.substr(dash + 1)) + 1);
    if (first >= file.content.size()) return {416, headers, ""};
    headers.push_back("Content-Range: bytes " + std::to_string(first) + "-" +
                      std::to_string(end - 1) + "/" + std::to_string(file.content.size()));
    return {206, headers, file.content.substr(first, end - first)};
  }

  void accept_all() {
    while (true) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const std::lock_guard guard(mutex_);
      if (fd < 0 || stopping_) {
        if (fd >= 0) ::close(fd);
        return;
      }
      connections_.insert(fd);
      threads_.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    std::string received;
    while (const auto request = read_request(fd, received)) {
      Reply reply;
      {
        const std::lock_guard guard(mutex_);
        requests_.push_back(*request);
        const auto hooked = hook_ ? hook_(*request) : std::nullopt;
        reply = hooked ? *hooked : answer(*request);
      }
      if (!send_reply(fd, *request, reply)) break;
    }
    const std::lock_guard guard(mutex_);
    connections_.erase(fd);
    ::close(fd);
  }

  static std::optional<Request> read_request(int fd, std::string& received) {
    size_t end = 0;
    while ((end = received.find("\r\n\r\n")) == std::string::npos) {
      char part[4096];
      const ssize_t count = ::recv(fd, part, sizeof part, 0);
      if (count <= 0) return {};
      received.append(part, static_cast<size_t>(count));
      if (received.front() == '\x16') {  // a TLS handshake, which this server does not know
        send_all(fd, "HTTP/1.1 400 Bad Request\r\n\r\n");
        return {};
      }
    }
    Request request;
    const std::string head = received.substr(0, end + 2);
    received.erase(0, end + 4);
    size_t at = head.find("\r\n");
    const std::string line = head.substr(0, at);
    request.method = line.substr(0, line.find(' '));
    request.path = line.substr(request.method.size() + 1);
    request.path.erase(request.path.rfind(' '));
    for (at += 2; at < head.size();) {
      const size_t stop = head.find("\r\n", at), colon = head.find(": ", at);
      std::string name = head.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(), ::tolower);
      request.headers[name] = head.substr(colon + 2, stop - colon - 2);
      at = stop + 2;
    }
    return request;
  }

  static bool send_all(int fd, const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t count = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<size_t>(count);
    }
    return true;
  }

  // False: the connection is to be closed.
  bool send_reply(int fd, const Request& request, const Reply& reply) {
    std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " Status\r\n";
    for (const std::string& header : reply.headers) head += header + "\r\n";
    head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n";
    if (!send_all(fd, head)) return false;
    if (request.method == "HEAD") return true;
    const size_t first = std::min({reply.hold_after, reply.cut_after, reply.body.size()});
    if (!send_all(fd, reply.body.substr(0, first))) return false;
    if (reply.cut_after <= first) return false;
    if (reply.hold_after <= first) {
      std::unique_lock guard(hold_mutex_);
      held_ = true;
      held_changed_.notify_all();
      held_changed_.wait(guard, [this] { return released_; });
    }
    return send_all(fd, reply.body.substr(first));
  }

  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  bool stopping_ = false;
  Hook hook_;
  std::map<std::string, Repository> repositories_;
  std::vector<Request> requests_;
  std::set<int> connections_;
  std::vector<std::thread> threads_;
  std::mutex hold_mutex_;
  std::condition_variable held_changed_;
  bool held_ = false, released_ = false;
};

}  // namespace skald::test
