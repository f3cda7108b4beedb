// Pulls that must fail, or get over a failure of the hub.
#include "app/hub/pull.h"

#include "tests/app/hub/pulling.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

using Reply = HubServer::Reply;
using Request = HubServer::Request;

TEST_CASE("redirects that do not end, and those to other protocols, are refused") {
  Hub hub;
  hub.answer_first(1000, {302, {"Location: " + hub.server.endpoint() + "/acme/again"}});
  CHECK(has(hub.pull_error(Exit::Failed), "more than 10 redirects"));
  hub.answer_first(1000, {302, {"Location: file:///etc/passwd"}});
  CHECK(hub.pull_error(Exit::Failed) != "");
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
  CHECK(has(hub.pull_error(Exit::Failed), "no connection to 127.0.0.1:1: Connection refused; "));
  hub.settings.endpoint = "http://no-such-host.invalid";
  CHECK(has(hub.pull_error(Exit::Failed),
            "no address is known for no-such-host.invalid; is this machine online?"));
  hub.settings.endpoint = "https://127.0.0.1" + hub.server.endpoint().substr(16);
  const std::string untrusted = hub.pull_error(Exit::Failed);
  CHECK(has(untrusted, "no encrypted connection to 127.0.0.1:"));
  CHECK(has(untrusted, "SSL_CERT_FILE"));
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
