// Runs the built program as a shell does and returns its output and exit code. A time limit kills a
// program that hangs. GPUs are hidden from the program, so that the default device is the CPU on
// every machine; tests/cuda tests GPUs.
#pragma once

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/paths.h"

namespace skald::test {

struct Outcome {
  std::string out, err;
  int code = -1;   // exit code; -1 when a signal ended the program
  int signal = 0;  // the signal that ended the program; SIGKILL after the time limit
};

// Seconds. Only a program that hangs takes so long, also under sanitizers on a busy machine.
inline constexpr double kHangs = 600;

struct Invocation {
  std::vector<std::string> arguments;
  std::string input;
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to the environment
  std::string out_file = {};       // takes stdout instead of a pipe, for example "/dev/full"
  bool no_out = false;             // starts with stdout closed
  bool no_in = false;              // starts with stdin closed
  bool input_stays_open = false;   // stdin does not end after `input`
  size_t read_at_most = SIZE_MAX;  // bytes of stdout; then the test closes the pipe
  double seconds = kHangs;
  uint64_t address_space = 0;  // limit in bytes; 0: none
  uint64_t file_size = 0;      // limit in bytes of a file that the program writes; 0: none
  std::string program = {};    // path; empty: the built skald
  bool no_internet = false;    // SIGSYS kills it when it makes a socket of IPv4 or IPv6
  // The first signal is sent at the first output, the next when more output comes, and so on.
  std::vector<int> signals = {};
};

inline void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

// The system kills this process, and the program that it becomes, at socket(AF_INET, …) and
// socket(AF_INET6, …): without a socket, nothing leaves the machine, not even a question to a DNS
// server.
inline void forbid_internet() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(filter), filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    ::_exit(126);
  }
}

[[noreturn]] inline void exec_program(const Invocation& invocation) {
  std::vector<char*> argv{const_cast<char*>("skald")};
  for (const std::string& a : invocation.arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  // Settings of the user who runs the tests must not change results.
  for (const char* name :
       {"NO_COLOR", "SKALD_MODELS", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY",
        "XDG_CACHE_HOME", "XDG_STATE_HOME", "LC_CTYPE"}) {
    ::unsetenv(name);
  }
  ::setenv("HOME", "/nonexistent", 1);
  ::setenv("TERM", "xterm-256color", 1);
  ::setenv("LC_ALL", "C.UTF-8", 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  for (const auto& [name, value] : invocation.environment) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  if (invocation.address_space > 0) {
    const rlimit both = {invocation.address_space, invocation.address_space};
    ::setrlimit(RLIMIT_AS, &both);
  }
  if (invocation.file_size > 0) {
    const rlimit both = {invocation.file_size, invocation.file_size};
    ::setrlimit(RLIMIT_FSIZE, &both);
  }
  if (invocation.no_internet) forbid_internet();
  ::signal(SIGPIPE, SIG_DFL);
  const std::string program =
      invocation.program.empty() ? built_program().string() : invocation.program;
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

inline Outcome run_program(const Invocation& invocation) {
  int in[2], out[2], err[2];
  if (::pipe2(in, O_CLOEXEC) || ::pipe2(out, O_CLOEXEC) || ::pipe2(err, O_CLOEXEC)) {
    throw std::runtime_error("no pipe");
  }
  const pid_t child = ::fork();
  if (child == 0) {
    if (!invocation.out_file.empty()) {
      out[1] = ::open(invocation.out_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    }
    ::dup2(in[0], 0), ::dup2(out[1], 1), ::dup2(err[1], 2);
    if (invocation.no_out) ::close(1);
    if (invocation.no_in) ::close(0);
    exec_program(invocation);
  }
  ::close(in[0]), ::close(out[1]), ::close(err[1]);
  // Another process writes the input: a program that prints before it reads would block this one.
  const pid_t writer = ::fork();
  if (writer == 0) {
    ::close(out[0]), ::close(err[0]);
    ::signal(SIGPIPE, SIG_IGN);
    write_all(in[1], invocation.input);
    while (invocation.input_stays_open) ::pause();
    ::_exit(0);
  }
  ::close(in[1]);

  Outcome outcome;
  size_t sent = 0;
  const auto start = std::chrono::steady_clock::now();
  pollfd ready[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  std::string* texts[2] = {&outcome.out, &outcome.err};
  while (ready[0].fd >= 0 || ready[1].fd >= 0) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (elapsed.count() > invocation.seconds) ::kill(child, SIGKILL);
    ::poll(ready, 2, 100);
    for (int i = 0; i < 2; ++i) {
      if (ready[i].fd < 0 || ready[i].revents == 0) continue;
      char part[1 << 16];
      const size_t most = std::min(sizeof part, invocation.read_at_most);
      const ssize_t count = ::read(ready[i].fd, part, i == 0 ? most : sizeof part);
      if (count > 0) texts[i]->append(part, static_cast<size_t>(count));
      const bool enough = i == 0 && outcome.out.size() >= invocation.read_at_most;
      if (count <= 0 || enough) ::close(std::exchange(ready[i].fd, -1));
      if (i == 0 && count > 0 && sent < invocation.signals.size()) {
        ::kill(child, invocation.signals[sent++]);
      }
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  return outcome;
}

inline Outcome skald(std::vector<std::string> arguments, std::string input = "") {
  return run_program({std::move(arguments), std::move(input)});
}

}  // namespace skald::test
