// A batch in its own temporary folder: requests, results, and a run of the built program.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "app/files/json.h"
#include "tests/json_lines.h"
#include "tests/process.h"
#include "tests/small_models.h"
#include "tests/temp_folder.h"

namespace skald::test {

struct BatchFiles {
  explicit BatchFiles(const std::string& requests) { folder.write("in.jsonl", requests); }

  std::vector<std::string> arguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"batch", "-m", model, "-i", in, "-o", out, "-q", "-t", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Outcome run(const std::vector<std::string>& more = {}) const { return skald(arguments(more)); }

  // Starts the batch, waits at most a minute for `ready`, sends the signal and waits for the end.
  Outcome run_until(const std::function<bool()>& ready, int signal,
                    const std::vector<std::string>& more = {}) const {
    return run_arguments_until(ready, signal, arguments(more));
  }

  Outcome run_arguments_until(const std::function<bool()>& ready, int signal,
                              const std::vector<std::string>& arguments) const {
    const Invocation invocation{arguments, ""};
    const std::string messages = folder.write("messages", "").string();
    const pid_t child = ::fork();
    if (child == 0) {
      const int err = ::open(messages.c_str(), O_WRONLY);
      ::dup2(err, 2);
      exec_program(invocation);
    }
    for (int i = 0; i < 60000 && !ready(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    Outcome outcome;
    outcome.err = read_file(messages);
    if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    return outcome;
  }

  std::string text() const { return read_file(out); }
  std::vector<Json> results() const { return json_lines<Json>(text()); }
  Json manifest() const { return Json::parse(read_file(out + ".manifest.json")); }
  size_t lines_written() const {
    std::error_code error;
    if (!std::filesystem::exists(out, error)) return 0;
    const std::string all = text();
    return static_cast<size_t>(std::count(all.begin(), all.end(), '\n'));
  }

  TempFolder folder;
  std::string in = (folder.path() / "in.jsonl").string();
  std::string out = (folder.path() / "out.jsonl").string();
  std::string model = small_gguf();
};

}  // namespace skald::test
