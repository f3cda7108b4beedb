#include "app/files/claim.h"

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "engine/base/error.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/process.h"
#include "tests/program_output.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

// Another process that has a file until it is killed.
class OtherWriter {
 public:
  explicit OtherWriter(const fs::path& file) {
    int ready[2];
    if (::pipe(ready) != 0) throw std::runtime_error("no pipe");
    child_ = ::fork();
    if (child_ == 0) {
      const FileClaim claim(file);
      if (::write(ready[1], "", 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    char byte;
    if (::read(ready[0], &byte, 1) != 1) throw std::runtime_error("no claim");
    ::close(ready[0]), ::close(ready[1]);
  }
  ~OtherWriter() { kill(); }

  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }
  std::string name() const {
    char machine[256] = {};
    ::gethostname(machine, sizeof machine - 1);
    return concat("process ", child_, " on ", machine);
  }

 private:
  pid_t child_;
};

TEST_CASE("a second claim names the process and machine that have the file") {
  TempFolder folder;
  const fs::path file = folder.write("out.jsonl", ""), link = folder.path() / "link";
  fs::create_symlink(file, link);
  OtherWriter other(file);
  for (const fs::path& path : {file, link}) {
    CHECK(has(error_text([&] { FileClaim claim(path); }, Exit::Failed),
              other.name() + " is writing to it; wait until it ends"));
  }
  other.kill();  // its lock stays, and does not block
  CHECK(fs::exists(folder.path() / "out.jsonl.lock"));
  {
    const FileClaim claim(file);
    CHECK(has(error_text([&] { FileClaim again(link); }, Exit::Usage), "is named twice"));
  }
  CHECK(!fs::exists(folder.path() / "out.jsonl.lock"));
}

TEST_CASE("devices, pipes and folders are not claimed, nor are files where no lock can be made") {
  TempFolder folder;
  for (const fs::path& path : {fs::path("/dev/null"), folder.path(), folder.path() / "no" / "x"}) {
    CHECK_NOTHROW(FileClaim(path));
  }
  CHECK(fs::is_empty(folder.path()));
  CHECK(!claim_file(""));
  CHECK(!claim_file("-"));
}

TEST_CASE("every command leaves a file alone that another process is writing to") {
  TempFolder folder;
  const std::string file = folder.write("x", "").string();
  const std::string lines = folder.write("lines", "{\"prompt\": \"a\"}\n").string();
  const std::string text = folder.write("text", std::string(2000, 'a')).string();
  const OtherWriter other(file);
  const std::vector<std::vector<std::string>> commands = {
      {"batch", "-i", lines, "-o", file},
      {"batch", "-i", lines, "-o", file, "--resume"},
      {"batch", "-i", lines, "--report", file},
      {"score", "-i", lines, "-o", file, "--resume"},
      {"embed", "-i", lines, "-o", file, "--resume"},
      {"imatrix", "-f", text, "-o", file},
      {"perplexity", "-f", text, "--checkpoint", file},
      {"perplexity", "-f", text, "--jsonl", file},
      {"perplexity", "-f", text, "--tokens", file},
      {"perplexity", "-f", text, "--save-base", file},
      {"chat", "--chat-template", "chatml", "--session", file},
      {"run", "-n", "1", "a", "--prompt-cache", file},
      {"quantize", (source_dir() / "models" / "demo").string(), file, "--type", "q8_0", "--force"}};
  for (const auto& command : commands) {
    CAPTURE(command);
    check_refused(skald(command), 1, other.name() + " is writing to it");
    CHECK(read_file(file) == "");
  }
}

TEST_CASE("an output that cannot be written has one exit code in all commands") {
  TempFolder folder;
  const std::string lines = folder.write("lines", "{\"prompt\": \"a\"}\n").string();
  const std::string text = folder.write("text", std::string(2000, 'a')).string();
  const std::string file = text + "/x";  // no folder
  const std::vector<std::vector<std::string>> commands = {
      {"batch", "-i", lines, "-o", file},
      {"score", "-i", lines, "-o", file},
      {"perplexity", "-f", text, "--checkpoint", file},
      {"perplexity", "-f", text, "--jsonl", file},
      {"perplexity", "-f", text, "--tokens", file},
      {"perplexity", "-f", text, "--plot", file},
      {"perplexity", "-f", text, "--save-base", file},
      {"perplexity", "-f", text, "--save-logits", file},
      {"chat", "--chat-template", "chatml", "--session", file},
      {"run", "-n", "1", "a", "--prompt-cache", file},
      {"completion", "-o", file},
      {"quantize", (source_dir() / "models" / "demo").string(), file, "--type", "q8_0"}};
  for (const auto& command : commands) {
    CAPTURE(command);
    const Outcome outcome = skald(command);
    CAPTURE(outcome.err);
    CHECK(outcome.code == 1);
  }
}

}  // namespace
}  // namespace skald::test
