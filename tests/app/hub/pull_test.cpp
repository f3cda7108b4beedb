// Downloads from the tests' own hub (hub_server.h), within the tests' process.
#include "app/hub/pull.h"

#include <atomic>
#include <set>
#include <thread>

#include "app/hub/cache.h"
#include "app/hub/file_lock.h"
#include "tests/app/hub/hub_server.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/small_models.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;
using Reply = HubServer::Reply;
using Request = HubServer::Request;

constexpr const char* kRepository = "acme/tiny-GGUF";

// Bytes without a period, so that a part in a wrong place changes the hash.
std::string noise(size_t size) {
  std::string text = "GGUF";
  uint32_t state = 1;
  while (text.size() < size) {
    state = state * 1664525 + 1013904223;
    text += static_cast<char>(state >> 24);
  }
  return text;
}

struct Hub {
  HubServer server;
  TempFolder folder;
  HubSettings settings;
  CachedRepository cached;
  const std::string content = noise(20'000);

  Hub() : cached(folder.path(), kRepository) {
    ::setenv("no_proxy", "127.0.0.1,localhost", 1);  // whatever the tests' user has set
    settings.endpoint = server.endpoint();
    settings.cache = folder.path();
    settings.first_pause = std::chrono::milliseconds(1);
    settings.part_bytes = 1000;
    settings.attempts = 3;
    server.add(kRepository, "tiny-Q4_K_M.gguf", content);
    server.add(kRepository, "tiny-Q8_0.gguf", noise(3000));
    server.add(kRepository, "README.md", "text", false);
  }

  PulledModel pull(const std::string& name = kRepository) const {
    PullOptions options;
    options.quiet = true;
    return skald::pull(settings, remote_reference(name), options);
  }
  std::string pull_error(Exit code, const std::string& name = kRepository) const {
    return error_text([&] { pull(name); }, code);
  }
  std::string etag() const { return sha256_hex(content); }

  // The first `count` requests for the file's bytes are answered by `reply`.
  void answer_first(int count, const Reply& reply) {
    server.set_hook([count, reply](const Request& request) mutable -> std::optional<Reply> {
      if (request.path.starts_with("/api/") || count-- <= 0) return {};
      return reply;
    });
  }
};

TEST_CASE("a pulled GGUF lies in the cache as other tools put it there") {
  const Hub hub;
  const PulledModel pulled = hub.pull();
  CHECK(pulled.name == "acme/tiny-GGUF:Q4_K_M");
  CHECK(pulled.bytes == 20'000);
  CHECK(pulled.fetched == 20'000);
  const fs::path link = hub.cached.folder() / "snapshots" / HubServer::kCommit / "tiny-Q4_K_M.gguf";
  CHECK(pulled.path == link);
  CHECK(fs::read_symlink(link) == "../../blobs/" + hub.etag());
  CHECK(read_file(link) == hub.content);
  CHECK(read_file(hub.cached.folder() / "refs/main") == HubServer::kCommit);
  CHECK(hub.cached.blobs().size() == 1);  // nothing incomplete, and no other file
  CHECK(find_in_cache(hub.settings.cache, kRepository) == link);
}

TEST_CASE("what is there is not fetched again") {
  const Hub hub;
  hub.pull();
  const size_t before = hub.server.file_requests().size();
  CHECK(hub.pull().fetched == 0);
  CHECK(hub.server.file_requests().size() == before);
  CHECK(hub.pull("acme/tiny-GGUF:q8_0").fetched == 3000);
}

TEST_CASE("a large file is fetched by ranges over several connections") {
  const Hub hub;
  hub.pull();
  std::set<std::string> ranges;
  for (const Request& request : hub.server.file_requests()) ranges.insert(request.header("range"));
  CHECK(ranges.size() == 20);
  CHECK(ranges.count("bytes=0-999") == 1);
  CHECK(ranges.count("bytes=19000-19999") == 1);
}

TEST_CASE("a folder of safetensors is pulled without copies in other formats") {
  Hub hub;
  for (const char* file : {"config.json", "tokenizer.json", "model.safetensors.index.json"}) {
    hub.server.add("acme/folder", file, std::string("{}") + file, false);
  }
  for (const char* file : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                           "pytorch_model.bin", "onnx/model.onnx"}) {
    hub.server.add("acme/folder", file, noise(1500) + file);
  }
  const PulledModel pulled = hub.pull("acme/folder");
  CHECK(pulled.name == "acme/folder");
  CHECK(files_below(pulled.path) ==
        std::vector<std::string>{"config.json", "model-00001-of-00002.safetensors",
                                 "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                                 "tokenizer.json"});
  CHECK(read_file(pulled.path / "config.json") == "{}config.json");
  CHECK(has(hub.pull_error(Exit::Model, "acme/folder:Q4_0"),
            "acme/folder: has no GGUF files; pull acme/folder without a type"));
}

TEST_CASE("all parts of a split GGUF are pulled, also by the name of one") {
  Hub hub;
  hub.server.add("acme/split", "q/x-Q8_0-00001-of-00002.gguf", noise(2500));
  hub.server.add("acme/split", "q/x-Q8_0-00002-of-00002.gguf", noise(2600));
  hub.server.add("acme/split", "x-F16.gguf", noise(100));
  const PulledModel pulled = hub.pull("acme/split/q/x-Q8_0-00002-of-00002.gguf");
  CHECK(pulled.path.filename() == "x-Q8_0-00001-of-00002.gguf");
  CHECK(pulled.bytes == 5100);
  CHECK(is_whole(pulled.path));
  CHECK(has(hub.pull_error(Exit::Model, "acme/split/x-F15.gguf"), "did you mean x-F16.gguf?"));
}

TEST_CASE("the token goes to the hub alone, not to the host of a redirect") {
  Hub hub;
  hub.settings.token = "hf_secret";
  hub.server.add(kRepository, "tiny-Q2_K.gguf", noise(3000));
  hub.pull("acme/tiny-GGUF:Q2_K");
  int to_hub = 0, to_other = 0;
  for (const Request& request : hub.server.requests()) {
    CAPTURE(request.path, request.header("host"));
    const bool other = request.to_localhost();
    (other ? to_other : to_hub)++;
    CHECK(request.header("authorization") == (other ? "" : "Bearer hf_secret"));
  }
  CHECK(to_hub > 1);
  CHECK(to_other > 0);
}

TEST_CASE("a redirect to another host and back does not get the token either") {
  Hub hub;
  hub.settings.token = "hf_secret";
  hub.settings.part_bytes = 1 << 20;
  hub.server.set_hook([&](const Request& request) -> std::optional<Reply> {
    if (request.path == "/away")
      return Reply{302, {"Location: " + hub.server.endpoint() + "/back"}};
    if (request.path == "/back") return Reply{206, {}, hub.content};
    if (!request.path.starts_with("/acme/")) return {};
    return Reply{302, {"Location: " + hub.server.other_host() + "/away"}};
  });
  hub.pull();
  bool came_back = false;
  for (const Request& request : hub.server.requests()) {
    if (request.path != "/back") continue;
    came_back = true;
    CHECK(request.header("authorization") == "");
  }
  CHECK(came_back);
}

TEST_CASE("redirects that do not end, and those to other protocols, are refused") {
  Hub hub;
  hub.answer_first(1000, {302, {"Location: " + hub.server.endpoint() + "/acme/again"}});
  CHECK(has(hub.pull_error(Exit::Failed), "more than 10 redirects"));
  hub.answer_first(1000, {302, {"Location: file:///etc/passwd"}});
  CHECK(hub.pull_error(Exit::Failed) != "");
}

TEST_CASE("a cut connection goes on from the byte where it was cut") {
  Hub hub;
  hub.settings.part_bytes = 1 << 20;
  hub.settings.connections = 1;
  hub.server.set_hook([&](const Request& request) -> std::optional<Reply> {
    if (!request.path.starts_with("/cdn/")) return {};
    Reply reply = hub.server.answer(request);
    reply.cut_after = 7000;
    return reply;
  });
  CHECK(read_file(hub.pull().path) == hub.content);
  std::vector<std::string> ranges;
  for (const Request& request : hub.server.requests()) {
    if (request.path.starts_with("/cdn/")) ranges.push_back(request.header("range"));
  }
  CHECK(ranges ==
        std::vector<std::string>{"bytes=0-19999", "bytes=7000-19999", "bytes=14000-19999"});
}

TEST_CASE("a download goes on with what an earlier one left") {
  const Hub hub;
  hub.cached.make_folders();
  put_file(hub.cached.incomplete(hub.etag()), hub.content.substr(0, 15'500));
  const PulledModel pulled = hub.pull();
  CHECK(pulled.fetched == 4500);
  CHECK(read_file(pulled.path) == hub.content);
  std::set<std::string> ranges;
  for (const Request& request : hub.server.file_requests()) ranges.insert(request.header("range"));
  CHECK(ranges.count("bytes=15500-16499") == 1);
  CHECK(ranges.size() == 5);
}

TEST_CASE("wrong bytes of an earlier download are found and fetched again") {
  const Hub hub;
  hub.cached.make_folders();
  put_file(hub.cached.incomplete(hub.etag()), std::string(15'500, 'x'));
  CHECK(read_file(hub.pull().path) == hub.content);
  // One that is too long is no beginning at all.
  const std::string other = sha256_hex(noise(3000));
  put_file(hub.cached.incomplete(other), std::string(4000, 'x'));
  CHECK(read_file(hub.pull("acme/tiny-GGUF:Q8_0").path) == noise(3000));
}

TEST_CASE("bytes with a wrong hash are an error, and are not kept") {
  Hub hub;
  hub.server.set_hook([&](const Request& request) -> std::optional<Reply> {
    if (!request.path.starts_with("/cdn/")) return {};
    Reply reply = hub.server.answer(request);
    reply.body[reply.body.size() / 2] ^= 1;
    return reply;
  });
  CHECK(has(
      hub.pull_error(Exit::Model),
      "tiny-Q4_K_M.gguf: what arrived is not what the hub lists: expected SHA-256 " + hub.etag()));
  CHECK(hub.cached.blobs().empty());
  CHECK(!find_in_cache(hub.settings.cache, kRepository));
}

TEST_CASE("small files are checked too, by git's hash") {
  Hub hub;
  hub.server.add("acme/folder", "config.json", "{}", false);
  hub.server.add("acme/folder", "model.safetensors", noise(100));
  hub.server.set_hook([&](const Request& request) -> std::optional<Reply> {
    if (!request.path.ends_with("config.json")) return {};
    Reply reply = hub.server.answer(request);
    reply.body = "[]";
    return reply;
  });
  CHECK(has(hub.pull_error(Exit::Model, "acme/folder"), "config.json: what arrived is not what"));
}

TEST_CASE("a server that ignores ranges sends the file once") {
  Hub hub;
  hub.server.set_hook([&](const Request& request) -> std::optional<Reply> {
    if (!request.path.starts_with("/cdn/")) return {};
    return Reply{200, {}, hub.content};
  });
  CHECK(read_file(hub.pull().path) == hub.content);
  fs::remove_all(hub.cached.folder());
  hub.cached.make_folders();
  put_file(hub.cached.incomplete(hub.etag()), hub.content.substr(0, 5000));
  CHECK(read_file(hub.pull().path) == hub.content);
}

TEST_CASE("passing failures of the server are tried again") {
  for (const int status : {429, 500, 502, 503}) {
    CAPTURE(status);
    Hub hub;
    hub.settings.connections = 1;
    hub.answer_first(2, {status, {}, "no"});
    CHECK(read_file(hub.pull().path) == hub.content);
    hub.server.set_hook([count = 2, status](const Request&) mutable -> std::optional<Reply> {
      return count-- > 0 ? std::optional(Reply{status}) : std::nullopt;
    });
    CHECK(hub.pull().fetched == 0);  // the list of files is asked for again, too
  }
}

TEST_CASE("failures that stay are errors that say what to do") {
  Hub hub;
  hub.settings.connections = 1;
  hub.answer_first(1000, {500});
  CHECK(has(hub.pull_error(Exit::Failed),
            "tiny-Q4_K_M.gguf: the server answers with status 500 after 3 attempts"));
  hub.answer_first(1000, {429});
  CHECK(has(hub.pull_error(Exit::Failed), "too many requests: wait some minutes, or set HF_TOKEN"));
  hub.answer_first(1000, {429, {"Retry-After: 3600"}});
  CHECK(has(hub.pull_error(Exit::Failed), "the server asks to come back in 60 minutes"));
  hub.answer_first(1000, {403});
  CHECK(has(hub.pull_error(Exit::Model), "a licence may have to be accepted at "));
  hub.answer_first(1000, {404, {"X-Error-Code: EntryNotFound"}});
  CHECK(has(hub.pull_error(Exit::Model), "acme/tiny-GGUF: the file is missing on 127.0.0.1"));
}

TEST_CASE("Retry-After is waited for") {
  Hub hub;
  hub.settings.connections = 1;
  hub.settings.longest_pause = std::chrono::milliseconds(999);
  hub.answer_first(1, {429, {"Retry-After: 0"}});
  CHECK(hub.pull().fetched == 20'000);
  hub.answer_first(1, {429, {"Retry-After: 1"}});
  CHECK(has(hub.pull_error(Exit::Failed, "acme/tiny-GGUF:Q8_0"), "asks to come back"));
}

TEST_CASE("a missing, private or gated repository is one clear error") {
  Hub hub;
  CHECK(has(hub.pull_error(Exit::Model, "acme/none"),
            "acme/none: is not on 127.0.0.1:" +
                hub.server.endpoint().substr(hub.server.endpoint().rfind(':') + 1) +
                ", or is private (status 404); check the name; for a private one, set HF_TOKEN"));
  CHECK(
      has(hub.pull_error(Exit::Model, "Qwen/Qwen3-9B-GGUF"), "did you mean 'Qwen/Qwen3-8B-GGUF'?"));
  hub.server.set_hook([](const Request&) { return Reply{401}; });
  CHECK(has(hub.pull_error(Exit::Model), "or is private (status 401)"));
  for (const int status : {401, 403}) {
    hub.server.set_hook([status](const Request&) {
      return Reply{status, {"X-Error-Code: GatedRepo"}};
    });
    CHECK(has(hub.pull_error(Exit::Model),
              "acme/tiny-GGUF: its owner asks to accept a licence first (status " +
                  std::to_string(status) + "): accept it at " + hub.server.endpoint() +
                  "/acme/tiny-GGUF, then set HF_TOKEN to your token"));
  }
  hub.server.set_hook([](const Request&) {
    return Reply{404, {"X-Error-Code: RevisionNotFound"}};
  });
  CHECK(has(hub.pull_error(Exit::Model, "acme/tiny-GGUF@v9"), "has no revision 'v9'"));
}

TEST_CASE("what is no hub is found out before anything is downloaded") {
  Hub hub;
  hub.server.set_hook([](const Request&) { return Reply{200, {}, "<html>log in</html>"}; });
  CHECK(has(hub.pull_error(Exit::Failed), "the answer is no list of a repository's files"));
  hub.settings.endpoint = "http://127.0.0.1:1";
  CHECK(has(hub.pull_error(Exit::Failed), "127.0.0.1:1: "));
  hub.settings.endpoint = "http://no-such-host.invalid";
  CHECK(has(hub.pull_error(Exit::Failed), "is this machine online?"));
  hub.settings.endpoint = "https://127.0.0.1" + hub.server.endpoint().substr(16);
  CHECK(has(hub.pull_error(Exit::Failed), "SSL_CERT_FILE"));
}

TEST_CASE("a list of files cannot write outside the cache") {
  for (const char* name : {"../evil.gguf", "/evil.gguf", "a/../../evil.gguf", "a//b.gguf"}) {
    Hub hub;
    hub.server.add("acme/evil", name, noise(100));
    CHECK(has(hub.pull_error(Exit::Failed, "acme/evil"), "would lead out of the cache"));
  }
}

TEST_CASE("models that skald cannot read are refused before they are downloaded") {
  Hub hub;
  hub.server.set_more(kRepository, R"(, "gguf": {"architecture": "mamba"})");
  CHECK(has(hub.pull_error(Exit::Model), "mamba"));
  hub.server.add("acme/folder", "config.json", "{}", false);
  hub.server.add("acme/folder", "model.safetensors", noise(100));
  hub.server.set_more("acme/folder", R"(, "config": {"model_type": "whisper"})");
  CHECK(has(hub.pull_error(Exit::Model, "acme/folder"), "whisper"));
  hub.server.add("acme/torch", "pytorch_model.bin", noise(100));
  CHECK(has(hub.pull_error(Exit::Model, "acme/torch"),
            "acme/torch: has no GGUF and no safetensors files, which skald reads"));
  CHECK(hub.server.file_requests().empty());
}

TEST_CASE("a file that changed after it was listed is listed and fetched again") {
  Hub hub;
  const std::string changed = noise(20'000) + "new";
  // Until the first request for the file, the hub lists an older version of it.
  hub.server.add(kRepository, "tiny-Q4_K_M.gguf", changed);
  hub.server.set_hook([&, listed = 0](const Request& request) mutable -> std::optional<Reply> {
    if (!request.path.starts_with("/api/") || listed++ > 0) return {};
    Reply reply = hub.server.answer(request);
    const std::string now = sha256_hex(changed);
    reply.body.replace(reply.body.find(now), now.size(), hub.etag());
    return reply;
  });
  CHECK(read_file(hub.pull().path) == changed);
  CHECK(fs::exists(hub.cached.blob(sha256_hex(changed))));
  CHECK(!fs::exists(hub.cached.blob(hub.etag())));
}

TEST_CASE("a hub that always sends another version than it lists is an error") {
  Hub hub;
  hub.server.set_hook([&](const Request& request) -> std::optional<Reply> {
    if (!request.path.starts_with("/acme/")) return {};
    Reply reply = hub.server.answer(request);
    for (std::string& header : reply.headers) {
      if (header.starts_with("X-Linked-Etag")) header = "X-Linked-Etag: " + std::string(64, 'a');
    }
    return reply;
  });
  CHECK(has(hub.pull_error(Exit::Failed), "the hub sends another version than it lists"));
  int lists = 0;
  for (const Request& request : hub.server.requests()) lists += request.path.starts_with("/api/");
  CHECK(lists == 3);
}

TEST_CASE("a mirror whose list has no hashes is asked for each file's hash") {
  Hub hub;
  hub.server.set_hook([&](const Request& request) -> std::optional<Reply> {
    if (!request.path.starts_with("/api/")) return {};
    return Reply{200,
                 {},
                 std::string(R"({"sha": ")") + HubServer::kCommit +
                     R"(", "siblings": [{"rfilename": "tiny-Q4_K_M.gguf"}]})"};
  });
  const PulledModel pulled = hub.pull();
  CHECK(read_file(pulled.path) == hub.content);
  CHECK(hub.cached.blobs() == std::vector<fs::path>{hub.cached.blob(hub.etag())});
}

TEST_CASE("a new commit shares the blobs that did not change") {
  Hub hub;
  hub.pull();
  const std::string commit(40, 'b');
  hub.server.set_commit(kRepository, commit);
  const PulledModel pulled = hub.pull();
  CHECK(pulled.fetched == 0);
  CHECK(pulled.path == hub.cached.snapshot(commit) / "tiny-Q4_K_M.gguf");
  CHECK(read_file(pulled.path) == hub.content);
  CHECK(read_file(hub.cached.ref("main")) == commit);
  hub.pull("acme/tiny-GGUF@v1");
  CHECK(read_file(hub.cached.ref("v1")) == commit);
}

TEST_CASE("two pulls of the same file at once fetch its bytes once") {
  Hub hub;
  // The first is held in the middle of the file until the other has read the list.
  hub.server.set_hook([&, held = false](const Request& request) mutable -> std::optional<Reply> {
    if (!request.path.starts_with("/cdn/") || held) return {};
    held = true;
    Reply reply = hub.server.answer(request);
    reply.hold_after = 100;
    return reply;
  });
  const auto lists = [&] {
    const auto all = hub.server.requests();
    return std::count_if(all.begin(), all.end(),
                         [](const Request& one) { return one.path.starts_with("/api/"); });
  };
  PulledModel one, two;
  std::thread first([&] { one = hub.pull(); });
  hub.server.wait_until_held();
  std::thread second([&] { two = hub.pull(); });
  while (lists() < 2) std::this_thread::yield();
  hub.server.release();
  first.join();
  second.join();
  CHECK(read_file(one.path) == hub.content);
  CHECK(one.path == two.path);
  std::multiset<std::string> ranges;
  for (const Request& request : hub.server.requests()) {
    if (request.path.starts_with("/cdn/")) ranges.insert(request.header("range"));
  }
  for (const std::string& range : ranges) {
    CAPTURE(range);
    CHECK(ranges.count(range) == 1);
  }
}

TEST_CASE("another process's download is waited for, and its result is used") {
  Hub hub;
  hub.cached.make_folders();
  auto lock = FileLock::try_take(hub.cached.lock(hub.etag()));
  REQUIRE(lock);
  PulledModel pulled;
  std::thread waiting([&] { pulled = hub.pull(); });
  while (hub.server.requests().empty()) std::this_thread::yield();
  put_file(hub.cached.blob(hub.etag()), hub.content);
  lock.reset();
  waiting.join();
  CHECK(read_file(pulled.path) == hub.content);
  CHECK(hub.server.file_requests().empty());
}

TEST_CASE("offline, nothing is asked") {
  Hub hub;
  hub.settings.offline = true;
  CHECK(has(hub.pull_error(Exit::Model), "HF_HUB_OFFLINE or --offline forbids connections"));
  CHECK(hub.server.requests().empty());
}

TEST_CASE("more than 1 GB is not downloaded without yes where nobody can be asked") {
  Hub hub;
  const auto list = [](int64_t size) {
    return std::string(R"({"sha": ")") + HubServer::kCommit +
           R"(", "siblings": [{"rfilename": "x-Q4_0.gguf", "size": 1, "lfs": {"sha256": ")" +
           std::string(64, 'a') + R"(", "size": )" + std::to_string(size) + "}}]}";
  };
  hub.server.set_hook([&](const Request&) { return Reply{200, {}, list(1'000'000'001)}; });
  CHECK(
      hub.pull_error(Exit::Usage) ==
      "acme/tiny-GGUF:Q4_0: 953.7 MiB are to be downloaded, and a script gets more than 1 GB only "
      "with -y: skald pull -y acme/tiny-GGUF:Q4_0");
  // With yes, the disk is looked at first.
  hub.server.set_hook([&](const Request&) { return Reply{200, {}, list(int64_t{1} << 60)}; });
  PullOptions yes;
  yes.yes = yes.quiet = true;
  const std::string text =
      error_text([&] { pull(hub.settings, remote_reference(kRepository), yes); }, Exit::Failed);
  CHECK(has(text, "the download needs 1073741824.00 GiB, and "));
  CHECK(has(text, "set HF_HOME to a folder on a larger disk"));
  CHECK(hub.server.file_requests().empty());
}

}  // namespace
}  // namespace skald::test
