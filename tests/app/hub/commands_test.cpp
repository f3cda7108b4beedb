// skald pull, ls, rm and -hf as a user runs them, with the tests' own hub.
#include <signal.h>

#include <chrono>
#include <thread>

#include "app/files/json.h"
#include "app/hub/cache.h"
#include "tests/app/hub/hub_server.h"
#include "tests/program_output.h"
#include "tests/pty.h"
#include "tests/small_models.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;
using Reply = HubServer::Reply;
using Request = HubServer::Request;

struct Program {
  HubServer server;
  TempFolder home;
  const std::string model = read_file(small_gguf());

  Program() {
    server.add("acme/kq-GGUF", "kq256.Q8_0.gguf", model);
    server.add("acme/kq-GGUF", "kq256.F16.gguf", "no model");
  }

  fs::path cache() const { return home.path() / "hub"; }

  Invocation invocation(std::vector<std::string> arguments) const {
    Invocation one{std::move(arguments), ""};
    one.environment = {{"HF_ENDPOINT", server.endpoint()},
                       {"HF_HOME", home.path().string()},
                       {"no_proxy", "127.0.0.1,localhost"}};
    return one;
  }
  Outcome run(std::vector<std::string> arguments) const {
    return run_program(invocation(std::move(arguments)));
  }
  // The program's stdout; it must succeed.
  std::string output(std::vector<std::string> arguments) const {
    const Outcome outcome = run(std::move(arguments));
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    return outcome.out;
  }
};

const std::vector<std::string> kStory = {"Hi", "-n", "5", "--temp", "0"};

std::vector<std::string> with(std::vector<std::string> start) {
  start.insert(start.end(), kStory.begin(), kStory.end());
  return start;
}

TEST_CASE("a pulled model is used by its name, with and without type") {
  const Program program;
  const Outcome pulled = program.run({"pull", "acme/kq-GGUF:q8_0"});
  CAPTURE(pulled.err);
  REQUIRE(pulled.code == 0);
  const std::string path = pulled.out.substr(0, pulled.out.size() - 1);
  CHECK(read_file(path) == program.model);
  CHECK(has(pulled.err, "skald: pulling acme/kq-GGUF:Q8_0, "));
  CHECK(has(pulled.err, "skald: acme/kq-GGUF:Q8_0 is here: Llama, "));
  CHECK(has(pulled.err, "; try: skald run acme/kq-GGUF:Q8_0 \"Once upon a time\"\n"));
  CHECK(pulled.err.find('\x1b') == std::string::npos);  // a pipe gets plain lines
  CHECK(pulled.err.find('\r') == std::string::npos);

  const std::string text = skald(with({"run", "-m", small_gguf()})).out;
  CHECK(text != "");
  CHECK(program.output(with({"run", "-m", "acme/kq-GGUF:Q8_0"})) == text);
  CHECK(program.output(with({"run", "-m", "acme/kq-GGUF"})) == text);
  CHECK(program.output(with({"run", "-m", "kq-gguf"})) == text);
  CHECK(program.output(with({"run", "acme/kq-GGUF:Q8_0"})) == text);
  CHECK(program.output({"tokenize", "-m", "acme/kq-GGUF:Q8_0", "Hi"}) ==
        skald({"tokenize", small_gguf(), "Hi"}).out);
}

TEST_CASE("the flags of pull are the parts of a name") {
  const Program program;
  const std::string path = program.output({"pull", "acme/kq-GGUF", "--type", "q8_0"});
  CHECK(program.output({"pull", "acme/kq-GGUF:Q8_0", "--revision", HubServer::kCommit}) == path);
  const auto refused = [&](std::vector<std::string> arguments, const std::string& says) {
    arguments.insert(arguments.begin(), "pull");
    check_refused(program.run(std::move(arguments)), 2, says);
  };
  refused({}, "no model given; usage: skald pull NAME[:TYPE]");
  refused({"acme/kq-GGUF:Q8_0", "--type", "f16"}, "the type is given twice");
  refused({"acme/kq-GGUF@v1", "--revision", "v2"}, "the revision is given twice");
  refused({"qwen"}, "'qwen': there is no such short name");
  refused({"/tmp/x"}, "is no name of the hub");
  check_refused(program.run({"pull", "acme/none"}), 3, "acme/none: is not on 127.0.0.1");
}

TEST_CASE("a pulled file that is no model is an error that says how to remove it") {
  const Program program;
  const Outcome outcome = program.run({"pull", "acme/kq-GGUF:F16"});
  CHECK(outcome.code == 3);
  CHECK(has(outcome.err, "pulled, but cannot be used: "));
  CHECK(has(outcome.err, "; to remove it: skald rm acme/kq-GGUF:F16"));
  CHECK(program.output({"rm", "-y", "acme/kq-GGUF:F16"}) == "");
}

TEST_CASE("-hf pulls what is not there, once") {
  const Program program;
  const std::string text = skald(with({"run", "-m", small_gguf()})).out;
  CHECK(program.output(with({"run", "-hf", "acme/kq-GGUF:Q8_0"})) == text);
  const size_t asked = program.server.requests().size();
  CHECK(asked > 0);
  CHECK(program.output(with({"run", "-hf", "acme/kq-GGUF:Q8_0"})) == text);
  CHECK(program.output({"tokenize", "--hf-repo", "acme/kq-GGUF:Q8_0", "Hi"}) != "");
  CHECK(has(program.output({"inspect", "-hf", "acme/kq-GGUF:Q8_0"}), "llama"));
  const std::string gguf = (program.home.path() / "out.gguf").string();
  program.output({"quantize", "-hf", "acme/kq-GGUF:Q8_0", gguf, "--type", "q4_0", "--requantize"});
  CHECK(fs::exists(gguf));
  CHECK(program.server.requests().size() == asked);  // found in the cache, without a question
  check_refused(program.run({"run", "-hf", "acme/kq-GGUF", "-m", "x", "Hi"}), 2, "--model");
  check_refused(program.run({"run", "-hf", "./x.gguf", "Hi"}), 2, "is no name of the hub");
}

TEST_CASE("offline, -hf is an error with the command to run elsewhere") {
  const Program program;
  check_refused(program.run({"run", "--offline", "-hf", "acme/kq-GGUF", "Hi"}), 3,
                "forbids to download it; where a connection is allowed: skald pull acme/kq-GGUF");
  check_refused(program.run({"pull", "--offline", "acme/kq-GGUF"}), 3, "forbids connections");
  Invocation variable = program.invocation({"run", "-hf", "acme/kq-GGUF", "Hi"});
  variable.environment.emplace_back("HF_HUB_OFFLINE", "1");
  check_refused(run_program(variable), 3, "HF_HUB_OFFLINE or --offline forbids");
  CHECK(program.server.requests().empty());
}

TEST_CASE("in a script, -m of a model that is not there says how to get it") {
  const Program program;
  check_refused(program.run({"run", "-m", "acme/kq-GGUF:Q8_0", "Hi"}), 3,
                "to download it: skald pull acme/kq-GGUF:Q8_0\n");
  check_refused(program.run({"run", "-m", "llama3.2:1b", "Hi"}), 3,
                "to download it: skald pull llama3.2:1b\n");
  for (const char* path : {"models/x.gguf", "./acme/x", "x.gguf", "no-owner"}) {
    CAPTURE(path);
    CHECK(!has(program.run({"run", "-m", path, "Hi"}).err, "skald pull"));
  }
  CHECK(program.server.requests().empty());
}

TEST_CASE("on a terminal, -m of a model that is not there asks, and y pulls it") {
  const Program program;
  {
    Terminal terminal(program.invocation(with({"run", "-m", "acme/kq-GGUF:Q8_0"})));
    CHECK(terminal.wait_for("acme/kq-GGUF:Q8_0 is not on this machine. Pull it from 127.0.0.1"));
    CHECK(terminal.wait_for("[Y/n]"));
    terminal.type("n\n");
    const Outcome outcome = terminal.finish();
    CHECK(outcome.code == 3);
    CHECK(has(outcome.out, "skald pull acme/kq-GGUF:Q8_0"));
  }
  {
    Terminal terminal(program.invocation(with({"run", "-m", "acme/kq-GGUF:Q8_0"})));
    CHECK(terminal.wait_for("[Y/n]"));
    terminal.type("\x03");
    CHECK(terminal.finish().code == 130);
  }
  CHECK(program.server.requests().empty());
  Terminal terminal(program.invocation(with({"run", "-m", "acme/kq-GGUF:Q8_0"})));
  CHECK(terminal.wait_for("[Y/n]"));
  terminal.type("y\n");
  CHECK(terminal.finish().code == 0);
  CHECK(!program.server.requests().empty());
}

TEST_CASE("a terminal is asked before more than 1 GB") {
  Program program;
  program.server.set_hook([](const Request&) {
    return Reply{200,
                 {},
                 std::string(R"({"sha": ")") + HubServer::kCommit +
                     R"(", "siblings": [{"rfilename": "x-Q4_0.gguf", "lfs": {"sha256": ")" +
                     std::string(64, 'a') + R"(", "size": 1100000000}}]})"};
  });
  Terminal terminal(program.invocation({"pull", "acme/big"}));
  CHECK(terminal.wait_for("acme/big:Q4_0 is 1.02 GiB to download. Go on? [Y/n]"));
  terminal.type("n\n");
  CHECK(terminal.finish().code == 1);
  check_refused(program.run({"pull", "acme/big"}), 2, "only with -y: skald pull -y acme/big:Q4_0");
  check_refused(program.run({"run", "-hf", "acme/big", "Hi"}), 2, "skald pull -y acme/big:Q4_0");
  CHECK(program.server.file_requests().empty());
}

TEST_CASE("an interrupted pull ends with 130, and the next one goes on") {
  Program program;
  program.server.set_hook(
      [&, held = false](const Request& request) mutable -> std::optional<Reply> {
        if (!request.path.starts_with("/cdn/") || held) return {};
        held = true;
        Reply reply = program.server.answer(request);
        reply.hold_after = 10'000;
        return reply;
      });
  {
    Terminal terminal(program.invocation({"pull", "acme/kq-GGUF:Q8_0"}), 40);
    program.server.wait_until_held();
    CHECK(terminal.wait_for("% of"));  // the progress
    // At any moment of a silent transfer.
    std::this_thread::sleep_for(std::chrono::milliseconds(GENERATE(0, 150, 300, 450, 700)));
    terminal.type("\x03");
    const Outcome outcome = terminal.finish();
    CHECK(outcome.code == 130);
    CHECK(has(outcome.out, "interrupted; what has arrived is kept"));
  }
  const CachedRepository cached(program.cache(), "acme/kq-GGUF");
  const fs::path incomplete = cached.incomplete(sha256_hex(program.model));
  REQUIRE(fs::exists(incomplete));
  const auto kept = fs::file_size(incomplete);
  CHECK(kept > 0);
  CHECK(kept <= 10'000);
  CHECK(has(program.run({"ls"}).err, "acme/kq-GGUF: an unfinished download of "));
  check_refused(program.run({"run", "-m", "acme/kq-GGUF:Q8_0", "Hi"}), 3, "skald pull");
  const std::string path = program.output({"pull", "acme/kq-GGUF:Q8_0"});
  CHECK(read_file(path.substr(0, path.size() - 1)) == program.model);
  bool went_on = false;
  for (const Request& request : program.server.file_requests()) {
    went_on = went_on || request.header("range").starts_with("bytes=" + std::to_string(kept) + "-");
  }
  CHECK(went_on);
  CHECK(!fs::exists(incomplete));
}

TEST_CASE("a full disk is an error with the place, and what arrived is kept") {
  Program program;
  Invocation limited = program.invocation({"pull", "acme/kq-GGUF:Q8_0"});
  limited.file_size = 4096;
  const Outcome outcome = run_program(limited);
  CHECK(outcome.code == 1);
  CHECK(has(outcome.err, ".incomplete: cannot be written: File too large"));
  CHECK(program.output({"pull", "acme/kq-GGUF:Q8_0"}) != "");
}

TEST_CASE("ls shows what is there, and rm removes it") {
  const Program program;
  const Outcome empty = program.run({"ls"});
  CHECK(empty.out == "");
  CHECK(has(empty.err, "; to get one: skald pull llama3.2:1b"));
  program.output({"pull", "acme/kq-GGUF:Q8_0"});
  const std::string table = program.output({"ls"});
  CHECK(has(table, "name"));
  CHECK(has(table, "acme/kq-GGUF:Q8_0"));
  CHECK(has(table, "Llama"));
  const Json list = parse_json(program.output({"ls", "--json"}));
  REQUIRE(list["models"].size() == 1);
  const Json& model = list["models"][0];
  CHECK(model["name"] == "acme/kq-GGUF:Q8_0");
  CHECK(model["family"] == "Llama");
  CHECK(model["type"] == "Q8_0");
  CHECK(model["bytes"] == program.model.size());
  CHECK(model["context"] > 0);
  CHECK(read_file(model["path"].get<std::string>()) == program.model);
  CHECK(has(program.output({"completion", "models"}), "acme/kq-GGUF\n"));

  check_refused(program.run({"rm", "acme/kq-GGUF"}), 2, "a script must add -y: skald rm -y");
  check_refused(program.run({"rm", "acme/kq-GGUF:Q4_0"}), 3, "did you mean 'acme/kq-GGUF:Q8_0'?");
  check_refused(program.run({"rm", "-y", "acme/other"}), 3, "'skald ls' lists what is there");
  const Outcome removed = program.run({"rm", "-y", "acme/kq-GGUF:q8_0"});
  CHECK(removed.code == 0);
  CHECK(has(removed.err, "skald: removed acme/kq-GGUF:Q8_0 ("));
  CHECK(program.output({"ls"}) == "");
  for (const auto& entry : fs::recursive_directory_iterator(program.cache())) {
    CHECK((fs::is_directory(entry) || entry.path().extension() == ".lock"));
  }
}

TEST_CASE("rm asks on a terminal") {
  const Program program;
  program.output({"pull", "acme/kq-GGUF:Q8_0"});
  Terminal no(program.invocation({"rm", "acme/kq-GGUF"}));
  CHECK(no.wait_for("Remove acme/kq-GGUF:Q8_0 ("));
  no.type("n\n");
  CHECK(no.finish().code == 0);
  CHECK(program.output({"ls"}) != "");
  Terminal yes(program.invocation({"rm", "acme/kq-GGUF"}));
  CHECK(yes.wait_for("[Y/n]"));
  yes.type("y\n");
  CHECK(yes.finish().code == 0);
  CHECK(program.output({"ls"}) == "");
}

TEST_CASE("the token comes from the variable or the file, and is never shown") {
  const Program program;
  const auto token_with = [&](const std::string& name, const std::string& value) {
    Invocation one = program.invocation({"pull", "acme/none"});
    one.environment.emplace_back(name, value);
    const Outcome outcome = run_program(one);
    CHECK(!has(outcome.err, "hf_secret"));
    return program.server.requests().back().header("authorization");
  };
  CHECK(token_with("HF_TOKEN", "hf_secret") == "Bearer hf_secret");
  CHECK(token_with("HUGGING_FACE_HUB_TOKEN", "hf_secret") == "Bearer hf_secret");
  CHECK(token_with("LC_ALL", "C.UTF-8") == "");
  put_file(program.home.path() / "other", "hf_secret2\n");
  CHECK(token_with("HF_TOKEN_PATH", (program.home.path() / "other").string()) ==
        "Bearer hf_secret2");
  put_file(program.home.path() / "token", "hf_secret3\n");
  CHECK(token_with("LC_ALL", "C.UTF-8") == "Bearer hf_secret3");
  Invocation bad = program.invocation({"pull", "acme/none"});
  bad.environment.emplace_back("HF_TOKEN", "hf_secret\nX-Evil: 1");
  const Outcome outcome = run_program(bad);
  check_refused(outcome, 1, "HF_TOKEN: the token has spaces");
  CHECK(!has(outcome.err, "hf_secret"));
}

TEST_CASE("the address of the hub must be one") {
  const Program program;
  Invocation one = program.invocation({"pull", "acme/none"});
  one.environment.emplace_back("HF_ENDPOINT", "huggingface.co");
  check_refused(run_program(one), 1,
                "HF_ENDPOINT=huggingface.co: expected an address such as https://huggingface.co");
}

}  // namespace
}  // namespace skald::test
