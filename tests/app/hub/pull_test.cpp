// Downloads from the tests' own hub (hub_server.h), within the tests' process.
#include "app/hub/pull.h"

#include <set>
#include <thread>

#include "app/hub/file_lock.h"
#include "tests/app/hub/pulling.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;
using Reply = HubServer::Reply;
using Request = HubServer::Request;

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

}  // namespace
}  // namespace skald::test
