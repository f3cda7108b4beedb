// Runs skald with fault_shim.c, which lets calls of the system fail, and at moments that nobody
// chose. Environment variables make the sweeps longer: scripts/faults sets them.
#pragma once

#include <stdlib.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/process.h"
#include "tests/temp_folder.h"

namespace skald::test {

// The number that an environment variable sets, such as SKALD_SWEEP=50.
inline int sweep_size(const char* variable, int otherwise) {
  const char* text = ::getenv(variable);
  return text ? std::max(1, std::atoi(text)) : otherwise;
}

class FaultShim {
 public:
  FaultShim() : path_((folder_.path() / "fault_shim.so").string()) {
    if (sanitized()) {
      std::fputs("skipped: AddressSanitizer cannot be loaded beside fault_shim.c\n", stderr);
      return;
    }
    const std::string source =
        (source_dir() / "tests" / "app" / "faults" / "fault_shim.c").string();
    const std::string command =
        "cc -shared -fPIC -O1 -fexceptions -o '" + path_ + "' '" + source + "' -ldl 2> /dev/null";
    if (std::system(command.c_str()) != 0) {
      std::fputs("skipped: tests/app/faults/fault_shim.c cannot be built\n", stderr);
      return;
    }
    lsan_ = library_of_compiler("liblsan.so");
    suppressions_ = folder_.write("suppressions", "leak:^nlohmann::\n").string();
    const bool watches_leaks = !lsan_.empty() && version("SKALD_FAULT_LEAK").code == kLeaked &&
                               version("SKALD_FAULT_NONE").code == 0;
    if (!watches_leaks) {
      std::fputs("skipped: the search for leaks, which the compiler has no library for\n", stderr);
      lsan_.clear();
    }
    works_ = version("SKALD_FAULT_NONE").code == 0;
    if (!works_) {
      std::fputs("skipped: tests/app/faults/fault_shim.c cannot be loaded\n", stderr);
    }
  }

  // False: the test is skipped.
  bool works() const { return works_; }

  // A program that has lost memory ends with this, after a report of LeakSanitizer, where the
  // compiler has the library.
  static constexpr int kLeaked = 23;

  Outcome run(Invocation invocation, const std::string& variable, const std::string& value) const {
    invocation.environment.emplace_back("LD_PRELOAD", path_ + (lsan_.empty() ? "" : ":" + lsan_));
    // The JSON library loses what it has made of a value where memory ends. Only whole call stacks,
    // which take time, show where memory was taken.
    const bool whole_stacks = value.starts_with("alloc");
    invocation.environment.emplace_back("LSAN_OPTIONS",
                                        "print_suppressions=0:suppressions=" + suppressions_ +
                                            ":fast_unwind_on_malloc=" + (whole_stacks ? "0" : "1") +
                                            ":exitcode=" + std::to_string(kLeaked));
    invocation.environment.emplace_back(variable, value);
    invocation.seconds = 30;
    return run_program(invocation);
  }

  // How often an undisturbed run calls the system, by the kind of the call.
  std::map<std::string, long> counts(const Invocation& invocation) const {
    const std::string file = (folder_.path() / "counts").string();
    std::filesystem::remove(file);
    run(invocation, "SKALD_FAULT_COUNT", file);
    std::map<std::string, long> counts;
    std::istringstream in(std::filesystem::exists(file) ? read_file(file) : "");
    std::string kind;
    for (long count; in >> kind >> count;) counts[kind] = count;
    return counts;
  }

 private:
  Outcome version(const std::string& variable) const {
    return run({.arguments = {"--version"}, .input = ""}, variable, "1");
  }

  // The path of a library that comes with the compiler; empty without it.
  std::string library_of_compiler(const std::string& name) const {
    const std::string file = (folder_.path() / "path").string();
    const std::string command = "cc -print-file-name=" + name + " > '" + file + "'";
    if (std::system(command.c_str()) != 0) return "";
    std::string path = read_file(file);
    path.erase(path.find_last_not_of('\n') + 1);
    return path.starts_with('/') ? path : "";
  }

  TempFolder folder_;
  std::string path_, lsan_, suppressions_;
  bool works_ = false;
};

// `points` of the numbers from 1 to `count`, evenly spaced: all if there are not more.
inline std::vector<long> spread(long count, int points) {
  std::vector<long> all;
  for (int i = 0; i < points; ++i) {
    const long at = 1 + count * (2 * i + 1) / (2 * points);
    if (count > 0 && (all.empty() || all.back() != at)) all.push_back(std::min(at, count));
  }
  return all;
}

}  // namespace skald::test
