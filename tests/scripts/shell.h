// Runs lines of bash in a copy of scripts/, with stand-ins for other programs in front of the PATH.
// The copy has its own cache and build folder, apart from those of the checkout.
#pragma once

#include <filesystem>
#include <string>

#include "tests/paths.h"
#include "tests/process.h"
#include "tests/temp_folder.h"

namespace skald::test {

class Shell {
 public:
  Shell() {
    namespace fs = std::filesystem;
    fs::create_directories(root() / "bin");
    fs::copy(source_dir() / "scripts", root() / "scripts", fs::copy_options::recursive);
  }

  std::filesystem::path root() const { return folder_.path(); }
  std::filesystem::path cache() const { return root() / "cache" / "skald"; }

  // A program of that name which the scripts find before the system's.
  void stand_in(const std::string& name, const std::string& lines) const {
    const std::filesystem::path path = root() / "bin" / name;
    put_file(path, "#!/bin/bash\n" + lines + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  // Lines of bash, run beside scripts/. Variables that change what the scripts do are not set.
  Outcome run(const std::string& lines) const {
    Invocation bash;
    bash.program = "/bin/bash";
    bash.arguments = {"-c",
                      "unset CONDA_PREFIX CONDA_DEFAULT_ENV CXX LDFLAGS CMAKE_PREFIX_PATH\n"
                      "unset PKG_CONFIG_PATH SKALD_CPU SKALD_SUDO\n"
                      "PATH=$PWD/bin:$PATH\n" +
                          lines};
    bash.environment = {{"XDG_CACHE_HOME", (root() / "cache").string()}};
    bash.arguments[1] = "cd '" + root().string() + "'\n" + bash.arguments[1];
    return run_program(bash);
  }

 private:
  TempFolder folder_;
};

}  // namespace skald::test
