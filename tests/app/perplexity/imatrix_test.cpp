// skald imatrix: the file that it writes makes better files.
#include <csignal>
#include <filesystem>
#include <thread>

#include "models/convert/importance.h"
#include "tests/paths.h"
#include "tests/program_output.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

std::string demo() { return (source_dir() / "models" / "demo").string(); }
std::string text() { return (data_dir() / "demo_heldout.txt").string(); }

double perplexity_of(const std::string& model) {
  const std::string json = output({"perplexity", model, "-f", text(), "--protocol", "llama.cpp:128",
                                   "--chunks", "8", "--device", "cpu", "--json"});
  const size_t at = json.find("\"perplexity\":");
  REQUIRE(at != json.npos);
  return std::stod(json.substr(json.find_first_of("0123456789", at)));
}

}  // namespace

TEST_CASE("imatrix writes importances that quantize reads, for every matrix but the embedding") {
  TempFolder folder;
  const auto at = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string said = silent_output({"imatrix", demo(), "-f", text(), "-o", at("a.gguf"), "-c",
                                          "128", "--chunks", "5", "-t", "2"});
  CHECK(has(said, " tensors from 5 chunks of 128 tokens"));
  const ImportanceFile file(at("a.gguf"));
  CHECK(file.chunks() == 5);
  CHECK(file.datasets() == std::vector<std::string>{"demo_heldout.txt"});
  // The same with another number of threads.
  output({"imatrix", demo(), "-f", text(), "-o", at("b.gguf"), "-c", "128", "--chunks", "5", "-t",
          "1"});
  CHECK(read_file(at("a.gguf")) == read_file(at("b.gguf")));

  for (const char* type : {"q2_k_s", "q4_0"}) {
    CAPTURE(type);
    output({"quantize", demo(), at("plain"), "--type", type, "--force"});
    const Outcome made = skald(
        {"quantize", demo(), at("weighed"), "--type", type, "--imatrix", at("a.gguf"), "--force"});
    CHECK(made.code == 0);
    if (std::string(type) == "q2_k_s") {
      CHECK(perplexity_of(at("weighed")) < perplexity_of(at("plain")));
    }
  }
}

TEST_CASE("wrong arguments of imatrix are named, and nothing is written") {
  TempFolder folder;
  const std::string out = (folder.path() / "a.gguf").string();
  const std::string short_text = folder.write("short.txt", "once").string();
  const auto refused = [&](std::vector<std::string> arguments, int code, const char* says) {
    arguments.insert(arguments.begin(), {"imatrix", demo()});
    check_refused(skald(arguments), code, says);
    CHECK_FALSE(fs::exists(out));
  };
  refused({"-o", out}, 2, "no text given");
  refused({"-f", text()}, 2, "no output file given");
  refused({"-f", short_text, "-o", out}, 2, "tokens, fewer than a chunk of 512");
  refused({"-f", text(), "-o", out, "-c", "0"}, 2, "-c");
  refused({"-f", text(), "-o", out, "-c", "100000"}, 2, "trained for 512 tokens");
  refused({"-f", text(), "-o", (folder.path() / "no" / "a.gguf").string()}, 1, "no");
}

TEST_CASE("an interrupted imatrix writes nothing") {
  TempFolder folder;
  const std::string out = (folder.path() / "a.gguf").string();
  std::string long_text;
  for (int i = 0; i < 40; ++i) long_text += read_file(text());
  const std::string file = folder.write("long.txt", long_text).string();
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(1), ::close(2);
    exec_program({{"imatrix", demo(), "-f", file, "-o", out, "-t", "3"}, ""});
  }
  // The threads that compute exist.
  const fs::path threads = concat("/proc/", child, "/task");
  const auto count = [&] {
    std::error_code error;
    return std::distance(fs::directory_iterator(threads, error), fs::directory_iterator());
  };
  int status = 0;
  while (count() < 3 && ::waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(child, SIGINT);
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  CHECK_FALSE(fs::exists(out));
  CHECK_FALSE(fs::exists(out + ".part"));
}

}  // namespace skald::test
