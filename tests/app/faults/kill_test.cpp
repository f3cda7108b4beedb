// kill -9 at moments that nobody chose: the same command goes on and gives the same bytes.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/app/faults/fault_tools.h"
#include "tests/app/hub/hub_server.h"
#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Starts a program whose output nobody reads.
pid_t start(const std::vector<std::string>& arguments, const std::string& input = "",
            const std::vector<std::pair<std::string, std::string>>& environment = {}) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  const int in = ::open(input.empty() ? "/dev/null" : input.c_str(), O_RDONLY);
  const int null = ::open("/dev/null", O_WRONLY);
  ::dup2(in, 0), ::dup2(null, 1), ::dup2(null, 2);
  exec_program({.arguments = arguments, .input = {}, .environment = environment});
}

struct Resumable {
  std::vector<std::string> first, again;  // the command, and the one that goes on
  fs::path file;
};

void check_kills(const Resumable& command, int kills) {
  const auto remove = [&] {
    for (const char* ending : {"", ".lock", ".manifest.json"}) {
      fs::remove(command.file.string() + ending);
    }
  };
  remove();
  const auto before = Clock::now();
  REQUIRE(skald(command.first).code == 0);
  const auto whole_time = Clock::now() - before;
  const std::string whole = read_file(command.file);
  std::mt19937 random(1);
  remove();
  for (int i = 0; i < kills; ++i) {
    if (i % 3 == 0) remove();  // three kills of one file: a run that goes on is killed too
    const auto moment = whole_time * static_cast<int64_t>(random() % 1000) / 1000;
    const pid_t child = start(fs::exists(command.file) ? command.again : command.first);
    std::this_thread::sleep_for(moment);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (i % 3 != 2) continue;
    const Outcome end = skald(fs::exists(command.file) ? command.again : command.first);
    CAPTURE(command.first, i, end.err);
    CHECK(end.code == 0);
    CHECK(read_file(command.file) == whole);
  }
}

TEST_CASE("a command that is killed at any moment goes on to the same bytes") {
  TempFolder folder;
  const std::string model = folder.write("m.gguf", flat_gguf({})).string();
  std::string lines, pairs, inputs;
  for (int i = 0; i < 40; ++i) {
    const std::string number = std::to_string(i);
    lines += "{\"prompt\":\"a" + number + "\",\"max_tokens\":8}\n";
    inputs += "{\"input\":\"a" + number + "\"}\n";
    pairs += "{\"context\":\"a" + number + "\",\"continuation\":\"b\"}\n";
  }
  const std::string prompts = folder.write("prompts", lines).string();
  const std::string scores = folder.write("scores", pairs).string();
  const std::string texts = folder.write("texts", inputs).string();
  const std::string text = folder.write("text", std::string(6000, 'a')).string();
  const auto resumed = [](std::vector<std::string> arguments) {
    arguments.push_back("--resume");
    return arguments;
  };
  const std::string a = (folder.path() / "a").string(), b = (folder.path() / "b").string(),
                    c = (folder.path() / "c").string(), d = (folder.path() / "d").string();
  const std::vector<std::string> batch = {"batch", model, "-i", prompts,      "-o", a,
                                          "-q",    "-s",  "1",  "--max-seqs", "2"};
  const std::vector<std::string> score = {"score", model, "-i", scores, "-o", b, "-q"};
  const std::vector<std::string> embed = {"embed", model, "-i", texts, "-o", d, "-q"};
  const std::vector<std::string> perplexity = {"perplexity", model,     "-f",           text,
                                               "--protocol", "gptq:64", "--checkpoint", c};
  const int kills = sweep_size("SKALD_KILLS", 6);
  check_kills({batch, resumed(batch), a}, kills);
  check_kills({score, resumed(score), b}, kills);
  check_kills({embed, resumed(embed), d}, kills);
  check_kills({perplexity, perplexity, c}, kills);
}

TEST_CASE("a dialogue that is killed keeps whole turns") {
  TempFolder folder;
  const std::string model = folder.write("m.gguf", flat_gguf({})).string();
  const std::string file = (folder.path() / "s.chat").string();
  const std::string input = folder.write("in", "a\nb\nc\nd\n").string();
  const std::vector<std::string> chat = {"chat", model, "--chat-template", "chatml", "-n", "4",
                                         "-s",   "1",   "--session",       file};
  std::mt19937 random(2);
  for (int i = 0; i < sweep_size("SKALD_KILLS", 6); ++i) {
    const pid_t child = start(chat, input);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (i % 3 != 2) continue;
    const Outcome next = skald(chat, "/tokens\n");
    CAPTURE(next.err);
    CHECK(next.code == 0);
    fs::remove(file);
  }
}

TEST_CASE("a download that is killed goes on to the same bytes") {
  HubServer server;
  TempFolder home;
  std::string model = flat_gguf({});
  model.resize(size_t{40} << 20, 'x');  // several ranges
  server.add("acme/m-GGUF", "m.Q8_0.gguf", model);
  const Invocation pull{.arguments = {"pull", "acme/m-GGUF"},
                        .input = "",
                        .environment = {{"HF_ENDPOINT", server.endpoint()},
                                        {"HF_HOME", home.path().string()},
                                        {"no_proxy", "127.0.0.1,localhost"}}};
  const auto before = Clock::now();
  REQUIRE(run_program(pull).code == 0);
  const auto whole_time = Clock::now() - before;
  std::mt19937 random(3);
  for (int i = 0; i < sweep_size("SKALD_KILLS", 6); ++i) {
    if (i % 3 == 0) fs::remove_all(home.path() / "hub");
    const auto moment = whole_time * static_cast<int64_t>(random() % 1000) / 1000;
    const pid_t child = start(pull.arguments, "", pull.environment);
    std::this_thread::sleep_for(moment);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (i % 3 != 2) continue;
    const Outcome end = run_program(pull);
    CAPTURE(i, end.err);
    CHECK(end.code == 0);
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(home.path() / "hub")) {
      if (entry.path().filename() != "m.Q8_0.gguf") continue;
      ++files;
      CHECK((read_file(entry.path()) == model));
    }
    CHECK(files == 1);
  }
}

// The resident memory of a process, in KiB.
long resident(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmRSS:")) return std::atol(line.c_str() + 6);
  }
  return 0;
}

// Resident memory in KiB: after a quarter of the lines, and the most since.
struct Soak {
  long early = 0, late = 0;
};

// Lines of different prompts through one batch.
Soak soak(const std::string& model, long lines) {
  int input[2], output[2];
  REQUIRE(::pipe2(input, O_CLOEXEC) == 0);
  REQUIRE(::pipe2(output, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(input[0], 0), ::dup2(output[1], 1), ::dup2(null, 2);
    exec_program({.arguments = {"batch", model, "-q", "--plain", "-s", "1"}, .input = {}});
  }
  ::close(input[0]), ::close(output[1]);
  std::thread writer([&] {
    for (long i = 0; i < lines; ++i) {
      write_all(input[1], "{\"prompt\":\"" + std::to_string(i) + "\",\"max_tokens\":1}\n");
    }
    ::close(input[1]);
  });
  Soak memory;
  long done = 0;
  char part[1 << 16];
  for (ssize_t count; (count = ::read(output[0], part, sizeof part)) > 0;) {
    done += std::count(part, part + count, '\n');
    if (memory.early == 0 && done >= lines / 4) memory.early = resident(child);
    if (done < lines) memory.late = std::max(memory.late, resident(child));
  }
  writer.join();
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(output[0]);
  CHECK(status == 0);
  CHECK(done == lines);
  return memory;
}

// The ids that were seen take 20 to 30 bytes each; the rest is the allocator's play.
// AddressSanitizer keeps what was freed.
void check_flat(const Soak& memory) {
  CAPTURE(memory.early, memory.late);
  if (!sanitized()) CHECK(memory.late - memory.early < 5000);
}

TEST_CASE("a long batch needs no more memory than a short one") {
  TempFolder folder;
  const std::string model = folder.write("m.gguf", flat_gguf({})).string();
  check_flat(soak(model, sweep_size("SKALD_SOAK", 3000)));
}

TEST_CASE("a long batch of a trained model needs no more memory than a short one", "[.soak]") {
  if (!have_shared("goldens/stories260K")) return;
  const long lines = sweep_size("SKALD_SOAK", 3000);
  const auto begin = Clock::now();
  const Soak memory = soak((shared_dir() / "goldens" / "stories260K").string(), lines);
  const std::chrono::duration<double> time = Clock::now() - begin;
  std::printf("%ld lines in %.0f s; %ld KiB after a quarter of them, then at most %ld\n", lines,
              time.count(), memory.early, memory.late);
  check_flat(memory);
}

}  // namespace
}  // namespace skald::test
