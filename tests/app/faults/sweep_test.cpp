// Calls of the system that fail once, as SQLite tests them: the command does not crash, leaves no
// torn file, loses no memory, and ends either with the undisturbed result or with one line and a
// documented code.
#include <regex>

#include "tests/app/faults/fault_tools.h"
#include "tests/app/hub/hub_server.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

struct FaultyCommand {
  std::vector<std::string> arguments;
  std::string input;
  fs::path file;          // what the command writes; empty: nothing
  bool lines = false;     // a file of lines, which may have been begun
  bool optional = false;  // the command goes on without the file, and says so
  bool again = false;  // the command writes the file several times, whole each time, and reads it
  std::vector<std::pair<std::string, std::string>> environment = {};
};

std::string without_times(const std::string& text) {
  return std::regex_replace(text, std::regex(" in [0-9.]+ s\\b"), "");
}

// What holds however a command ends, after a call of this kind has failed.
void check_end(const Outcome& outcome, const Outcome& good, const std::string& kind) {
  CHECK(outcome.signal == 0);
  CHECK(!has(outcome.err, "LeakSanitizer"));
  if (outcome.code == 0) {
    CHECK(without_times(outcome.out) == without_times(good.out));
    return;
  }
  CHECK(outcome.code >= 1);
  CHECK(outcome.code <= 4);
  size_t errors = 0;
  for (size_t at = 0; (at = outcome.err.find("skald: error: ", at)) != std::string::npos; ++at)
    ++errors;
  CHECK(errors == 1);
  for (const char* foreign : {"std::", "what()", "exception", "basic_", "filesystem error"}) {
    CHECK(!has(outcome.err, foreign));
  }
  if (kind == "alloc") CHECK(outcome.code == static_cast<int>(Exit::Memory));
}

class Sweep {
 public:
  Sweep(const FaultShim& shim, FaultyCommand command) : shim_(shim), command_(std::move(command)) {
    remove();
    good_ = run_program(invocation());
    CAPTURE(command_.arguments, good_.err);
    REQUIRE(good_.code == 0);
    if (!command_.file.empty()) good_file_ = read_file(command_.file);
  }

  void run(int points) {
    remove();
    for (const auto& [kind, count] : shim_.counts(invocation())) {
      for (const long at : spread(count, kind == "alloc" ? 4 * points : points)) {
        remove();
        const Outcome outcome =
            shim_.run(invocation(), "SKALD_FAULT", kind + ":" + std::to_string(at));
        CAPTURE(command_.arguments, kind, at, outcome.out, outcome.err, outcome.code);
        check_end(outcome, good_, kind);
        if (!command_.file.empty()) check_file(outcome, kind);
      }
    }
  }

 private:
  Invocation invocation() const {
    return {.arguments = command_.arguments,
            .input = command_.input,
            .environment = command_.environment};
  }

  void remove() const {
    if (command_.file.empty()) return;
    std::error_code error;
    for (const char* ending : {"", ".lock", ".manifest.json", ".jsonl"}) {
      fs::remove(command_.file.string() + ending, error);
    }
    for (const fs::path& part : parts()) fs::remove(part, error);
  }

  // What AtomicFile has not removed.
  std::vector<fs::path> parts() const {
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(command_.file.parent_path())) {
      if (entry.path().extension() == ".part") found.push_back(entry.path());
    }
    return found;
  }

  void check_file(const Outcome& outcome, const std::string& kind) const {
    const std::string text = fs::exists(command_.file) ? read_file(command_.file) : "";
    if (outcome.code == 0 && !(command_.optional && !outcome.err.empty())) {
      CHECK(text == good_file_);
    } else if (command_.lines) {
      CHECK(good_file_.starts_with(text));
      CHECK((text.empty() || text.ends_with('\n')));
    } else if (command_.again && !text.empty() && text != good_file_) {
      const Outcome next = run_program(invocation());
      CAPTURE(next.err);
      CHECK(next.code == 0);
    } else {
      CHECK((text.empty() || text == good_file_));
    }
    if (kind != "folder") CHECK(parts().empty());  // else it could not be removed
  }

  const FaultShim& shim_;
  const FaultyCommand command_;
  Outcome good_;
  std::string good_file_;
};

TEST_CASE("a call of the system that fails leaves no torn file and one clear line") {
  const FaultShim shim;
  if (!shim.works()) return;
  TempFolder folder;
  const std::string model = folder.write("m.gguf", flat_gguf({})).string();
  const std::string out = (folder.path() / "out").string(),
                    npy = (folder.path() / "out.npy").string();
  const std::string prompts =
      folder
          .write("in", "{\"prompt\":\"a\",\"max_tokens\":2}\n{\"prompt\":\"b\",\"max_tokens\":2}\n")
          .string();
  const std::string text = folder.write("text", std::string(200, 'a')).string();
  const std::string texts = folder.write("texts", "{\"input\":\"a\"}\n").string();
  const std::string pairs =
      folder.write("pairs", "{\"context\":\"a\",\"continuation\":\"b\"}\n").string();
  const std::vector<FaultyCommand> commands = {
      {{"run", model, "-s", "1", "-n", "4", "-p", "hi"}, ""},
      {{"run", model, "-s", "1", "-n", "2", "-p", "hi", "--prompt-cache", out},
       "",
       out,
       false,
       true},
      {{"batch", model, "-i", prompts, "-o", out, "-q"}, "", out, true},
      {{"chat", model, "--chat-template", "chatml", "-s", "1", "-n", "4", "--session", out},
       "hi\n",
       out,
       false,
       false,
       true},
      {{"perplexity", model, "-f", text, "--protocol", "gptq:64", "--checkpoint", out},
       "",
       out,
       true},
      {{"quantize", model, out, "--type", "q8_0"}, "", out},
      {{"embed", model, "-i", texts, "-o", out, "-q"}, "", out, true},
      {{"embed", model, "-i", text, "--text", "-o", npy, "-q"}, "", npy},
      {{"score", model, "-i", pairs, "-o", out, "-q"}, "", out, true},
      {{"imatrix", model, "-f", text, "-c", "64", "-o", out}, "", out}};
  for (const FaultyCommand& command : commands)
    Sweep(shim, command).run(sweep_size("SKALD_SWEEP", 1));
}

TEST_CASE(
    "a call of the system that fails during a download leaves nothing in place of the model") {
  const FaultShim shim;
  if (!shim.works()) return;
  HubServer server;
  TempFolder home;
  server.add("acme/m-GGUF", "m.Q8_0.gguf", flat_gguf({}));
  const std::vector<std::pair<std::string, std::string>> environment = {
      {"HF_ENDPOINT", server.endpoint()},
      {"HF_HOME", home.path().string()},
      {"no_proxy", "127.0.0.1,localhost"}};
  const Invocation pull{
      .arguments = {"pull", "acme/m-GGUF"}, .input = "", .environment = environment};
  const Outcome good = run_program(pull);
  REQUIRE(good.code == 0);
  fs::remove_all(home.path() / "hub");
  for (const auto& [kind, count] : shim.counts(pull)) {
    for (const long at : spread(count, sweep_size("SKALD_SWEEP", 1))) {
      fs::remove_all(home.path() / "hub");
      const Outcome outcome = shim.run(pull, "SKALD_FAULT", kind + ":" + std::to_string(at));
      CAPTURE(kind, at, outcome.out, outcome.err, outcome.code);
      check_end(outcome, good, kind);
      // Whatever was left, the same command goes on from it.
      const Outcome again = run_program(pull);
      CAPTURE(again.err);
      CHECK(again.code == 0);
    }
  }
}

TEST_CASE("a file is brought to the disk before it gets its name, and then its folder") {
  const FaultShim shim;
  if (!shim.works()) return;
  TempFolder folder;
  const std::string model = folder.write("m.gguf", flat_gguf({})).string();
  const std::string out = (folder.path() / "out.gguf").string();
  const std::string log = (folder.path() / "log").string();
  const Invocation quantize{.arguments = {"quantize", model, out, "--type", "q8_0"}, .input = ""};
  CHECK(shim.run(quantize, "SKALD_FAULT_LOG", log).code == 0);
  const std::string steps = read_file(log);
  CAPTURE(steps);
  const size_t data = steps.find("sync " + out + "."), name = steps.find("rename " + out + "\n"),
               entry = steps.find("sync " + folder.path().string() + "\n");
  CHECK(entry != std::string::npos);
  CHECK(data < name);
  CHECK(name < entry);
}

TEST_CASE("where a file system has no locks, the text of the lock counts") {
  const FaultShim shim;
  if (!shim.works()) return;
  TempFolder folder;
  const std::string model = folder.write("m.gguf", flat_gguf({})).string();
  const std::string in = folder.write("in", "{\"prompt\":\"a\",\"max_tokens\":2}\n").string();
  const std::string out = (folder.path() / "out").string();
  const auto batch = [&] {
    fs::remove(out);
    const std::vector<std::string> arguments = {"batch", model, "-i", in, "-o", out, "-q"};
    return shim.run({.arguments = arguments, .input = ""}, "SKALD_FAULT_NO_LOCKS", "1");
  };
  CHECK(batch().code == 0);
  CHECK(!fs::exists(out + ".lock"));
  char machine[256] = {};
  ::gethostname(machine, sizeof machine - 1);
  // This process, which lives; one that has ended; and one of a machine of which nothing is known.
  folder.write("out.lock", std::to_string(::getpid()) + " 0 " + machine + "\n");
  Outcome held = batch();
  CHECK(held.code == 1);
  CHECK(has(held.err, "process " + std::to_string(::getpid()) + " on "));
  folder.write("out.lock", std::to_string(::getpid()) + " 1 " + machine + "\n");
  CHECK(batch().code == 0);  // another process had this id: it began at another time
  folder.write("out.lock", "99999999 5 " + std::string(machine) + "\n");
  CHECK(batch().code == 0);
  folder.write("out.lock", "7 5 elsewhere\n");
  held = batch();
  CHECK(held.code == 1);
  CHECK(has(held.err, "process 7 on elsewhere is writing to it"));
  CHECK(has(held.err, "if it has ended, remove "));
}

}  // namespace
}  // namespace skald::test
