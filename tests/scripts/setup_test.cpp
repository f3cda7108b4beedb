// scripts/setup.sh and scripts/conda.sh: where packages come from, and what is built.
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

TEST_CASE("a conda environment that lacks a library: the one command is said") {
  const Shell shell;
  shell.stand_in("dpkg-query", "exit 1");
  put_conda(shell, "pcre2");
  const Outcome run = shell.run("export CONDA_PREFIX=$PWD/conda CONDA_DEFAULT_ENV=work\n" +
                                kNoRoot + "ensure_packages g++");
  CHECK(run.code == 1);
  CHECK(has(run.err, "the conda environment work lacks pcre2; run: conda env update --prefix " +
                         (shell.root() / "conda").string() + " --file "));
  CHECK(has(run.err, "scripts/packages/conda/environment.yml\n"));
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
  put_file(shell.root() / "scripts/deps",
           "[[ $1 == --folder ]] && { echo \"$PWD\"; exit; }\necho \"deps $*\" >&2\n");
  put_file(shell.root() / "env", "export FOUND=folder\n");
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

// ---- What is built ----

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
