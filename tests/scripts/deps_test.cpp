// scripts/deps and scripts/toolkit: packages and a CUDA toolkit without root. Doubles stand for
// apt-get, pip and nvidia-smi, so nothing is downloaded.
#include <sys/utsname.h>

#include "engine/base/error.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/scripts/shell.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

// Debian's name for this machine's folder of libraries.
std::string triplet() {
  utsname machine = {};
  uname(&machine);
  return concat(machine.machine, "-linux-gnu");
}

// An apt-get whose download is a package with a command, a library, a library of an installed
// package that a link names, and a .pc file.
void put_apt(const Shell& shell) {
  const fs::path package = shell.root() / "package";
  put_file(package / "DEBIAN/control",
           "Package: made-up-dev\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\n"
           "Description: x\n");
  put_file(package / "usr/bin/made-up-command", "#!/bin/sh\necho \"$LD_LIBRARY_PATH $1\"\n");
  fs::permissions(package / "usr/bin/made-up-command", fs::perms(0755));
  put_file(package / "usr/share/pkgconfig/made-up.pc", "prefix=/usr\nName: x\n");
  put_file(package / "usr/lib" / triplet() / "libmade-up.so.1");
  shell.stand_in(
      "apt-get",
      "echo \"${@: -2}\" >>'" + (shell.root() / "apt.log").string() + "'\n" + "[[ ! -e '" +
          (shell.root() / "refuse").string() +
          "' ]] || { echo no mirror >&2; exit 100; }\n"
          "for word; do [[ $word == Dir::Cache::Archives=* ]] && archives=${word#*=}; done\n"
          "[[ ${*: -1} == update ]] || dpkg-deb --build '" +
          package.string() + "' \"$archives/made-up-dev.deb\" >/dev/null");
}

bool have_dpkg() {
  if (std::system("dpkg-deb --version > /dev/null 2>&1") == 0) return true;
  std::fprintf(stderr, "skipped: dpkg-deb is not here\n");
  return false;
}

TEST_CASE("packages without root are unpacked once into the cache, with all that a build needs") {
  if (!have_dpkg()) return;
  const Shell shell;
  put_apt(shell);
  const Outcome run = shell.run(
      "unset LD_LIBRARY_PATH; scripts/deps made-up-dev && folder=$(scripts/deps --folder) && "
      "source $folder/env && "
      "made-up-command word && cat $folder/usr/share/pkgconfig/made-up.pc && "
      "echo \"$CMAKE_PREFIX_PATH $LDFLAGS [${CXX-}]\"");
  INFO(run.err);
  CHECK(run.code == 0);
  const std::string folder = shell.run("scripts/deps --folder").out;
  const std::string usr = folder.substr(0, folder.size() - 1) + "/usr";
  CHECK(folder.starts_with(shell.cache().string() + "/deps/"));
  CHECK(has(run.out, "-linux-gnu word\nprefix=" + usr + "\n"));
  CHECK(has(run.out, "\n" + usr + " -Wl,-rpath," + usr + "/lib/"));
  CHECK(has(run.out, "--disable-new-dtags  []\n"));
  CHECK(!fs::exists(fs::path(usr).parent_path() / "archives"));  // 90 MB in earnest
  const std::string log = read_file(shell.root() / "apt.log");
  CHECK(has(log, "--download-only made-up-dev\n"));

  // The second time there is nothing to do; another package joins the first one.
  CHECK(shell.run("scripts/deps made-up-dev").err == "");
  CHECK(read_file(shell.root() / "apt.log") == log);
  CHECK(shell.run("scripts/deps another").code == 0);
  CHECK(read_file(shell.root() / "apt.log").ends_with("another made-up-dev\n"));
}

TEST_CASE("with a compiler in the folder, it is the one of the build") {
  if (!have_dpkg()) return;
  const Shell shell;
  put_apt(shell);
  const Outcome run = shell.run(
      "scripts/deps g++ && source $(scripts/deps --folder)/env && "
      "echo \"${CXX#$(scripts/deps --folder)}\"");
  CHECK(run.out == "/bin/g++\n");
  if (std::system("dpkg-query -L libc6 > /dev/null 2>&1") != 0) return;
  // The linker looks for what libraries need in the folder alone.
  const std::string folder = shell.run("scripts/deps --folder").out;
  const fs::path libraries = fs::path(folder.substr(0, folder.size() - 1)) / "usr/lib" / triplet();
  CHECK(fs::exists(libraries / "libresolv.so.2"));
  CHECK(fs::exists(libraries / "libmade-up.so.1"));
}

TEST_CASE("without internet, scripts/deps says what to copy where, and then uses it") {
  if (!have_dpkg()) return;
  const Shell shell;
  put_apt(shell);
  put_file(shell.root() / "refuse");
  const Outcome refused = shell.run("scripts/deps made-up-dev");
  const std::string folder = shell.run("scripts/deps --folder").out;
  const std::string archives = folder.substr(0, folder.size() - 1) + "/archives";
  CHECK(refused.code == 1);
  CHECK(has(refused.err, "no mirror\n"));
  CHECK(has(refused.err, "scripts/deps --download debs, copy the folder debs here as " + archives));
  CHECK(has(refused.err, "apt-get install -y made-up-dev\n"));

  CHECK(!fs::exists(archives));  // else the copy would land inside

  fs::remove(shell.root() / "refuse");  // the other machine
  CHECK(shell.run("mkdir away; cd away; ../scripts/deps --download debs").code == 0);
  fs::rename(shell.root() / "away/debs", archives);
  put_file(shell.root() / "refuse");
  CHECK(shell.run("scripts/deps made-up-dev").code == 0);
  CHECK(fs::exists(fs::path(archives).parent_path() / "usr/bin/made-up-command"));
  CHECK(fs::exists(archives));  // what the user copied stays
}

// ---- The toolkit ----

// A python3 whose pip writes its arguments to pip.log and installs a toolkit without links.
void put_pip(const Shell& shell) {
  shell.stand_in("python3",
                 "[[ $* != *--version ]] || exit 0\n"
                 "echo \"${@:4}\" >>'" +
                     (shell.root() / "pip.log").string() +
                     "'\n"
                     "while (($#)); do\n"
                     "  if [[ $1 == --target ]]; then\n"
                     "    mkdir -p $2/nvidia/cu13/{bin,lib}\n"
                     "    touch $2/nvidia/cu13/lib/lib{cudart,cublasLt}.so.13\n"
                     "    printf '#!/bin/sh\\necho release 13.0,\\n' >$2/nvidia/cu13/bin/nvcc\n"
                     "    chmod +x $2/nvidia/cu13/bin/nvcc\n"
                     "  fi\n"
                     "  shift\n"
                     "done\n"
                     "[[ ! -e '" +
                     (shell.root() / "refuse").string() + "' ]] || { echo no index >&2; exit 1; }");
}

void put_driver(const Shell& shell, const std::string& cuda) {
  shell.stand_in(
      "nvidia-smi",
      "echo '| NVIDIA-SMI 580.82.07   Driver Version: 580.82.07   CUDA Version: " + cuda + "   |'");
}

TEST_CASE("the toolkit fits the driver, has the linker's links, and is preferred from then on") {
  const Shell shell;
  put_pip(shell);
  put_driver(shell, "13.1");
  const Outcome run = shell.run("scripts/toolkit");
  INFO(run.err);
  CHECK(run.code == 0);
  CHECK(has(read_file(shell.root() / "pip.log"), "<=13.1.99"));
  CHECK(has(run.err, "installed CUDA 13.0 in "));
  const Outcome lib = shell.run("source scripts/setup.sh; cd $toolkit/lib64; readlink *.so");
  CHECK(lib.out == "libcublasLt.so.13\nlibcudart.so.13\n");
  shell.stand_in("nvcc", "exit 1");  // the system's, which does not go with its compiler
  CHECK(shell.run("source scripts/setup.sh; choose_preset; echo $preset").out == "cuda\n");
}

TEST_CASE("without a driver the toolkit is one that every driver for CUDA 13 runs") {
  const Shell shell;
  put_pip(shell);
  shell.stand_in("nvidia-smi", "exit 9");
  CHECK(shell.run("scripts/toolkit").code == 0);
  CHECK(has(read_file(shell.root() / "pip.log"), "<=13.0.99"));
  CHECK(shell.run("scripts/toolkit 13.4").code == 0);
  CHECK(has(read_file(shell.root() / "pip.log"), "<=13.4.99"));
}

TEST_CASE("a driver for CUDA 12, for which PyPI has no nvcc, gets the other ways") {
  const Shell shell;
  put_pip(shell);
  put_driver(shell, "12.4");
  const Outcome run = shell.run("scripts/toolkit");
  CHECK(run.code == 1);
  CHECK(has(run.err, "CUDA 12.4"));
  CHECK(has(run.err, "module load cuda/12"));
  CHECK(has(run.err, "cuda-version=12.4"));
  CHECK(!fs::exists(shell.root() / "pip.log"));
}

TEST_CASE("without internet, scripts/toolkit says what to copy where, and then uses it") {
  const Shell shell;
  put_pip(shell);
  put_driver(shell, "13.0");
  put_file(shell.root() / "refuse");
  const Outcome refused = shell.run("scripts/toolkit");
  const std::string wheels = (shell.cache() / "wheels").string();
  CHECK(refused.code == 1);
  CHECK(has(refused.err, "no index\n"));
  CHECK(has(refused.err,
            "scripts/toolkit --download wheels 13.0, copy the folder wheels here as " + wheels));
  CHECK(fs::is_empty(shell.cache() / "cuda"));  // no half of a toolkit

  fs::remove(shell.root() / "refuse");
  put_file(shell.cache() / "wheels" / "a.whl");
  CHECK(shell.run("scripts/toolkit").code == 0);
  CHECK(has(read_file(shell.root() / "pip.log"), "--no-index --find-links " + wheels));
  CHECK(shell.run("scripts/toolkit --download away 13.0").code == 0);
  CHECK(has(read_file(shell.root() / "pip.log"),
            "--dest " + (shell.root() / "away").string() + " cuda-toolkit["));
}

TEST_CASE("the first python3 of the PATH that has pip installs the toolkit") {
  const Shell shell;
  put_pip(shell);
  put_driver(shell, "13.0");
  fs::create_directory(shell.root() / "other");
  fs::rename(shell.root() / "bin/python3", shell.root() / "other/python3");
  shell.stand_in("python3", "exit 1");
  CHECK(shell.run("PATH=$PWD/bin:$PWD/other:${PATH#*:} scripts/toolkit").code == 0);
  CHECK(has(read_file(shell.root() / "pip.log"), "cuda-toolkit["));
}

TEST_CASE("a cache that cannot be written is one line that says what to set") {
  if (!have_dpkg()) return;
  const Shell shell;
  put_apt(shell);
  put_pip(shell);
  put_driver(shell, "13.0");
  // A file stands where packages and toolkit would be; not even root writes there.
  put_file(shell.cache() / "deps");
  const Outcome deps = shell.run("scripts/deps made-up-dev");
  CHECK(deps.code == 1);
  CHECK(has(deps.err, "skald: cannot write to " + shell.cache().string() + "/deps/"));
  CHECK(!has(deps.err, "--download"));  // copied packages would not help
  CHECK(!has(deps.err, "mkdir"));
}

TEST_CASE("a version that is none, and a wrong flag, are wrong usage") {
  const Shell shell;
  put_pip(shell);
  CHECK(shell.run("scripts/toolkit new").code == 2);
  CHECK(has(shell.run("scripts/toolkit --help").err, "scripts/toolkit --download FOLDER"));
  CHECK(shell.run("scripts/deps").code == 2);
}

}  // namespace
}  // namespace skald::test
