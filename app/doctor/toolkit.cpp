#include "app/doctor/toolkit.h"

#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <sstream>

#include "engine/base/error.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

std::string shell_word(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

struct Said {
  std::string text;  // stdout and stderr
  bool done = false;
};

Said run_shell(const std::string& command) {
  Said said;
  FILE* const pipe = popen(concat("{ ", command, "\n} 2>&1").c_str(), "r");
  if (!pipe) return said;
  char part[4096];
  for (size_t count; (count = std::fread(part, 1, sizeof part, pipe)) > 0;) {
    said.text.append(part, count);
  }
  said.done = pclose(pipe) == 0;
  return said;
}

// True if the folder can be written, or created in the nearest existing folder above it.
bool can_make(fs::path folder) {
  std::error_code error;
  while (!fs::exists(fs::symlink_status(folder, error)) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  return access((folder / "").c_str(), W_OK | X_OK) == 0;
}

// A folder that this user alone can write, and no link to one: programs in it may be started.
bool is_own(const fs::path& folder) {
  struct stat status = {};
  return lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Chooses the same folder as scripts/folders.sh.
fs::path cache_folder(const Environment& environment, const fs::path& spare) {
  const std::string named = environment("XDG_CACHE_HOME").value_or("");
  const std::string folder = named.empty() ? environment("HOME").value_or("") + "/.cache" : named;
  fs::path usual = fs::path(folder) / "skald";
  std::error_code error;
  const bool used =
      fs::is_directory(usual / "cuda", error) || fs::is_directory(usual / "deps", error);
  return used || can_make(usual) || !is_own(spare) ? usual : spare;
}

// In the order in which scripts/setup.sh looks.
std::vector<fs::path> places(const Environment& environment, const fs::path& spare) {
  std::vector<fs::path> all;
  utsname machine = {};
  if (uname(&machine) == 0) {
    all.push_back(cache_folder(environment, spare) / "cuda" / machine.machine /
                  "nvidia/cu13/bin/nvcc");
  }
  std::istringstream path(environment("PATH").value_or(""));
  for (std::string folder; std::getline(path, folder, ':');)
    all.push_back(fs::path(folder) / "nvcc");
  all.emplace_back("/usr/local/cuda/bin/nvcc");
  return all;
}

// The first line that speaks of an error, or else the last one.
std::string error_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error") != std::string::npos) return line;
    if (!line.empty()) last = line;
  }
  return last.empty() ? "it fails without a word" : last;
}

}  // namespace

fs::path spare_cache() { return concat("/var/tmp/skald-", getuid()); }

void gather_toolkit(Facts& facts, const Environment& environment, const fs::path& spare) {
  for (const fs::path& place : places(environment, spare)) {
    if (access(place.c_str(), X_OK) != 0) continue;
    facts.nvcc = place.string();
    break;
  }
  if (facts.nvcc.empty()) return;
  const std::string nvcc = shell_word(facts.nvcc);
  const std::string version = run_shell(nvcc + " --version").text;
  const size_t at = version.find("release ");
  if (at != std::string::npos) {
    const size_t from = at + std::string_view("release ").size();
    facts.nvcc_version = version.substr(from, version.find(',', from) - from);
  }
  const Said said =
      run_shell(concat("folder=$(mktemp -d) || exit 1; : >\"$folder/empty.cu\"; timeout 60 ", nvcc,
                       " -std=c++20 -c \"$folder/empty.cu\" -o \"$folder/empty.o\"; code=$?; rm -r "
                       "\"$folder\"; exit $code"));
  if (!said.done) facts.nvcc_problem = error_line(said.text);
}

}  // namespace skald
