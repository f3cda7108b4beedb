// Ctrl-C and SIGTERM end every command within a second, whatever it waits for.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/catch.h"
#include "tests/paths.h"
#include "tests/process.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

using Clock = std::chrono::steady_clock;

const double kMost = sanitized() ? 40 : 2;  // seconds; of a busy machine

// A program whose stdin stays open, and whose output nobody reads.
struct Waiting {
  pid_t process = 0;
  int input[2];

  explicit Waiting(const std::vector<std::string>& arguments) {
    if (::pipe2(input, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    process = ::fork();
    if (process != 0) return;
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(input[0], 0), ::dup2(null, 1), ::dup2(null, 2);
    exec_program({.arguments = arguments, .input = {}});
  }
  ~Waiting() { ::close(input[0]), ::close(input[1]); }

  // Until it sleeps, or has worked for a moment. False: it has ended.
  bool settle() const {
    const auto start = Clock::now();
    const std::string file = "/proc/" + std::to_string(process) + "/";
    for (int asleep = 0; asleep < 5;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (::waitpid(process, nullptr, WNOHANG) != 0) return false;
      std::ifstream in(file + "stat");
      const std::string stat(std::istreambuf_iterator<char>(in), {});
      const size_t name = stat.rfind(')');
      const bool sleeps = name != stat.npos && stat.substr(name, 3) == ") S";
      asleep = sleeps ? asleep + 1 : 0;
      if (Clock::now() - start > std::chrono::milliseconds(400) && !sleeps) return true;
    }
    return true;
  }

  struct End {
    int code = -1;
    double seconds = 0;
  };
  End end_by(int signal) const {
    const auto start = Clock::now();
    ::kill(process, signal);
    int status = 0;
    ::waitpid(process, &status, 0);
    const std::chrono::duration<double> seconds = Clock::now() - start;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, seconds.count()};
  }
};

TEST_CASE("a signal ends every command within a second, and the exit code names the signal") {
  TempFolder folder;
  const std::string fifo = (folder.path() / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const std::string lines = folder.write("lines", "{\"prompt\": \"a\"}\n").string();
  const std::vector<std::vector<std::string>> commands = {{"score"},
                                                          {"batch"},
                                                          {"score", "-i", fifo},
                                                          {"batch", "-i", fifo},
                                                          {"batch", "-i", lines, "-o", fifo},
                                                          {"run", "-f", fifo},
                                                          {"run", "-f", "-"},
                                                          {"run", "-j", fifo, "a"},
                                                          {"perplexity", "-f", fifo},
                                                          {"perplexity", "--merge", fifo},
                                                          {"tokenize", "--jsonl"},
                                                          {"tokenize", "--check", fifo},
                                                          {"chat", "--chat-template", "chatml"},
                                                          {"selftest", "--device", "cpu"}};
  bool interrupt = false;
  for (const auto& command : commands) {
    CAPTURE(command);
    const Waiting waiting(command);
    REQUIRE(waiting.settle());
    interrupt = !interrupt;
    const Waiting::End end = waiting.end_by(interrupt ? SIGINT : SIGTERM);
    CHECK(end.code == 128 + (interrupt ? SIGINT : SIGTERM));
    CHECK(end.seconds < kMost);
  }
}

TEST_CASE("a FIFO is read and written when its other end is opened later") {
  TempFolder folder;
  const std::string fifo = (folder.path() / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::ofstream(fifo) << "{\"context\": \"The sky is\", \"continuation\": \" blue\"}\n";
  });
  const Outcome read = skald({"score", "-i", fifo});
  late.join();
  CHECK(read.code == 0);
  CHECK(read.out.find("logprob") != std::string::npos);
  std::string text;
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::ifstream in(fifo);
    text.assign(std::istreambuf_iterator<char>(in), {});
  });
  const Outcome written =
      skald({"score", "-o", fifo}, "{\"context\": \"The sky is\", \"continuation\": \" blue\"}\n");
  reader.join();
  CHECK(written.code == 0);
  CHECK(text == read.out);
}

}  // namespace
}  // namespace skald::test
