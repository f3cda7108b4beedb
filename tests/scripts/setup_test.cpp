// scripts/setup.sh and scripts/conda.sh: where packages come from, and what is built.
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/scripts/shell.h"

namespace skald::test {
namespace {

// What the scripts do where apt may not be used.
const std::string kNoRoot =
    "source scripts/setup.sh\nis_root() { false; }\nmay_sudo() { false; }\n";

void put_conda(const Shell& shell, const std::string& without = "nothing") {
  const Outcome names = shell.run(
      "sed '1,/^dependencies:/d; s/^ *- *//; s/[^a-z0-9_-].*//; /^$/d' "
      "scripts/packages/conda/environment.yml");
  std::istringstream lines(names.out);
  for (std::string name; std::getline(lines, name);) {
    if (name != without) put_file(shell.root() / "conda/conda-meta" / (name + "-1.0-h0_0.json"));
  }
}

TEST_CASE("a complete conda environment serves, and its folder is in all paths") {
  const Shell shell;
  put_conda(shell);
  const Outcome run = shell.run("export CONDA_PREFIX=$PWD/conda\n" + kNoRoot +
                                "ensure_packages g++\n"
                                "echo \"$CXX $CMAKE_PREFIX_PATH ${PATH%%:*} $LDFLAGS\"");
  const std::string conda = (shell.root() / "conda").string();
  CHECK(run.err == "");
  CHECK(run.out ==
        conda + "/bin/g++ " + conda + " " + conda + "/bin -Wl,-rpath," + conda + "/lib \n");
}

// A scripts/deps that names its packages, and whose folder is there from the first call on.
void put_deps(const Shell& shell) {
  put_file(shell.root() / "scripts/deps",
           "[[ $1 == --folder ]] && { echo \"$PWD/deps\"; exit; }\n"
           "mkdir -p deps\necho 'export FOUND=folder' >deps/env\necho \"deps $*\" >&2\n");
}

TEST_CASE(
    "a conda environment that lacks a library: the way without conda, and how to complete it") {
  const Shell shell;
  shell.stand_in("dpkg-query", "exit 1");
  put_conda(shell, "pcre2");
  put_deps(shell);
  const std::string ensure =
      "export CONDA_PREFIX=$PWD/conda CONDA_DEFAULT_ENV=work CXX=$PWD/conda/bin/c++\n"
      "export LDFLAGS=-L$PWD/conda/lib CMAKE_PREFIX_PATH=/mine PATH=$PWD/conda/bin:$PATH\n" +
      kNoRoot +
      "ensure_packages g++\necho \"$FOUND ${CXX-none} ${LDFLAGS-none} $CMAKE_PREFIX_PATH\"\n"
      "echo \"${PATH%%:*} ${PATH##*:}\"";
  const Outcome run = shell.run(ensure);
  const std::string root = shell.root().string();
  CHECK(run.code == 0);
  CHECK(has(run.err,
            "the conda environment work lacks pcre2; to build with it: conda env update "
            "--prefix " +
                root + "/conda --file "));
  CHECK(run.err.ends_with("scripts/packages/conda/environment.yml\ndeps g++\n"));
  // Nothing of the environment comes before the system's.
  CHECK(run.out == "folder none none /mine\n" + root + "/bin " + root + "/conda/bin\n");
  CHECK(shell.run(ensure).err == "deps g++\n");  // the advice comes once
}

TEST_CASE("a conda environment without CUDA serves for the CPU") {
  const Shell shell;
  put_conda(shell, "cuda-nvcc");
  const Outcome run =
      shell.run("export CONDA_PREFIX=$PWD/conda\n" + kNoRoot + "conda_is_complete && echo yes");
  CHECK(run.out == "yes\n");
}

TEST_CASE("conda's base environment, active for many, does not hide the way without conda") {
  const Shell shell;
  shell.stand_in("dpkg-query", "exit 1");
  put_file(shell.root() / "conda/conda-meta/python-3.json");
  put_deps(shell);
  const Outcome run = shell.run("export CONDA_PREFIX=$PWD/conda CONDA_DEFAULT_ENV=base\n" +
                                kNoRoot + "ensure_packages g++ cmake; echo $FOUND");
  CHECK(run.err == "deps g++ cmake\n");
  CHECK(run.out == "folder\n");
}

TEST_CASE("root installs by apt, and a refusal says the command") {
  const Shell shell;
  shell.stand_in("dpkg-query", "[[ ${!#} == cmake ]] && echo installed");
  shell.stand_in("apt-get", "echo \"$*\" >>log; [[ $1 == update || ! -e refuse ]]");
  const std::string ensure =
      "source scripts/setup.sh\nis_root() { true; }\nensure_packages g++ cmake catch2";
  CHECK(shell.run(ensure).code == 0);
  CHECK(read_file(shell.root() / "log") == "update -qq\ninstall -y -qq g++ catch2\n");
  put_file(shell.root() / "refuse");
  const Outcome refused = shell.run(ensure);
  CHECK(refused.code == 1);
  CHECK(has(refused.err, "run: apt-get update && apt-get install -y g++ catch2\n"));
}

// ---- sudo ----

// Returns a script that needs g++. Its user is not root, and has scripts/deps and a sudo that asks
// for a password.
std::string put_sudo(const Shell& shell) {
  shell.stand_in("dpkg-query", "exit 1");
  shell.stand_in("sudo", "echo \"$*\" >>'" + (shell.root() / "sudo.log").string() +
                             "'\n[[ $1 != -v ]] || echo Password: >&2\n[[ $1 != -n ]]");
  put_deps(shell);
  return "source scripts/setup.sh\nis_root() { false; }\nensure_packages g++\n";
}

TEST_CASE("before sudo asks for a password, a line says what for and how to go without") {
  if (std::system("script --version > /dev/null 2>&1") != 0) {
    std::fprintf(stderr, "skipped: script, which makes a terminal, is not here\n");
    return;
  }
  const Shell shell;
  put_file(shell.root() / "ensure", put_sudo(shell));
  const Outcome run = shell.run("script -qec 'bash ensure' /dev/null");
  CHECK(has(run.out,
            "sudo asks for your password, to install by apt: g++. With SKALD_SUDO=0 nothing needs "
            "root\r\nPassword:\r\n"));
  const std::string log = read_file(shell.root() / "sudo.log");
  CHECK(log.starts_with("-n true\n-v\napt-get update -qq\n"));
  const Outcome without = shell.run("export SKALD_SUDO=0\nscript -qec 'bash ensure' /dev/null");
  CHECK(without.out == "deps g++\r\n");
  CHECK(read_file(shell.root() / "sudo.log") == log);
}

TEST_CASE("without a terminal, a sudo that would ask for a password is left alone") {
  const Shell shell;
  const Outcome run = shell.run(put_sudo(shell));
  CHECK(run.err == "deps g++\n");
  CHECK(read_file(shell.root() / "sudo.log") == "-n true\n");
}

TEST_CASE("SKALD_SUDO is 0 or 1") {
  const Shell shell;
  const std::string ensure = put_sudo(shell);
  CHECK(shell.run("export SKALD_SUDO=1\n" + ensure).err == "deps g++\n");
  const Outcome run = shell.run("export SKALD_SUDO=no\n" + ensure);
  CHECK(run.code == 2);
  CHECK(run.err == "skald: expected SKALD_SUDO=0 (never use sudo) or SKALD_SUDO=1, found 'no'\n");
}

// ---- What is built ----

TEST_CASE("a build folder that cannot be made is one line, before anything is downloaded") {
  const Shell shell;
  shell.stand_in("dpkg-query", "exit 1");
  put_deps(shell);
  put_file(shell.root() / "build");
  const Outcome run = shell.run(kNoRoot + "prepare");
  CHECK(run.code == 1);
  CHECK(run.err == "skald: cannot write to " + (shell.root() / "build").string() +
                       ": File exists; copy skald's source folder to a place of your own, and "
                       "build there\n");
}

const std::string kChoose = "source scripts/setup.sh\nchoose_preset\necho $preset";

TEST_CASE("an nvcc that works gives a CUDA build, and SKALD_CPU=1 a CPU build") {
  const Shell shell;
  shell.stand_in("nvcc", "exit 0");
  CHECK(shell.run(kChoose).out == "cuda\n");
  CHECK(shell.run("export SKALD_CPU=1\n" + kChoose).out == "cpu\n");
}

TEST_CASE("an nvcc that does not go with the host compiler is named, and so is the way out") {
  const Shell shell;
  shell.stand_in("nvcc", "echo 'host_config.h: #error -- unsupported GNU version!' >&2; exit 1");
  shell.stand_in("nvidia-smi", "exit 9");
  const Outcome run = shell.run(kChoose);
  CHECK(run.out == "cpu\n");
  CHECK(has(run.err, "bin/nvcc does not work with this g++: host_config.h: #error -- unsupported"));
  CHECK(has(run.err, "scripts/toolkit gets a CUDA toolkit that works"));
}

TEST_CASE("a GPU without an nvcc that works gets a toolkit, and the CPU where that fails") {
  const Shell shell;
  shell.stand_in("nvcc", "exit 1");
  shell.stand_in("nvidia-smi", "echo 'GPU 0: NVIDIA H200 (UUID: GPU-0)'");
  put_file(shell.root() / "scripts/toolkit", "echo toolkit >&2; [[ ! -e refuse ]]\n");
  const Outcome run = shell.run(kChoose + "\necho ${PATH%%:*}");
  CHECK(has(run.err, "toolkit\n"));
  CHECK(has(run.out, "cuda\n" + shell.cache().string() + "/cuda/"));
  put_file(shell.root() / "refuse");
  const Outcome refused = shell.run(kChoose);
  CHECK(refused.out == "cpu\n");
  CHECK(has(refused.err, "building for the CPU alone\n"));
  // A later run does not ask the network again.
  put_file(shell.root() / "build/cpu/build.ninja");
  CHECK(!has(shell.run(kChoose).err, "toolkit\n"));
}

}  // namespace
}  // namespace skald::test
