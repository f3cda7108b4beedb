// scripts/packages: the recipes name the same libraries and version as the build;
// scripts/glibc_needed.
#include <regex>
#include <sstream>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/scripts/shell.h"

namespace skald::test {
namespace {

std::string source(const std::string& path) { return read_file(source_dir() / path); }

std::string first_match(const std::string& text, const std::string& pattern) {
  std::smatch found;
  REQUIRE(std::regex_search(text, found, std::regex(pattern)));
  return found[1];
}

TEST_CASE("every recipe names each Debian package of the build beside its own") {
  const std::string list = first_match(source("scripts/setup.sh"), "\npackages=\"([^\"]+)\"");
  for (const std::string recipe :
       {"conda/environment.yml", "conda/recipe.yaml",
        "spack/spack_repo/skald/packages/skald/package.py", "easybuild/skald-0.2.0-GCC-14.3.0.eb",
        "easybuild/skald-0.2.0-GCC-14.3.0-CUDA-13.0.2.eb"}) {
    const std::string text = source("scripts/packages/" + recipe);
    std::istringstream words(list);
    for (std::string package; words >> package;) {
      if (package == "catch2" && recipe == "conda/recipe.yaml") continue;  // it builds no tests
      CAPTURE(recipe, package);
      CHECK(has(text, " # " + package + "\n"));
    }
  }
}

TEST_CASE("the recipes have the version of the program") {
  const std::string version =
      first_match(source("CMakeLists.txt"), "project\\(skald VERSION ([0-9.]+) ");
  CHECK(has(source("scripts/packages/conda/recipe.yaml"), "version: \"" + version + "\"\n"));
  for (const std::string suffix : {"", "-CUDA-13.0.2"}) {
    CHECK(
        has(source("scripts/packages/easybuild/skald-" + version + "-GCC-14.3.0" + suffix + ".eb"),
            "\nversion = '" + version + "'\n"));
  }
}

TEST_CASE("the newest C library that a program asks for is told, and compared") {
  const Shell shell;
  const std::string script = "scripts/glibc_needed ";
  const std::string program = "'" + built_program().string() + "'";
  const Outcome run = shell.run(script + program);
  CHECK(run.code == 0);
  const int minor = std::stoi(first_match(run.out, "^needs glibc 2\\.([0-9]+) or newer"));
  const auto at_most = [&](int n) {
    return shell.run(script + "--at-most 2." + std::to_string(n) + " " + program).code;
  };
  CHECK(at_most(minor) == 0);
  CHECK(at_most(minor - 1) == 1);
  CHECK(shell.run(script + "--at-most new x").code == 2);
  const Outcome text = shell.run(script + "scripts/setup.sh");
  CHECK(text.code == 1);
  CHECK(has(text.err, "scripts/setup.sh is no program and no library"));
}

TEST_CASE("a tarball's programs and libraries are looked at, wherever they lie in it") {
  const Shell shell;
  const Outcome run = shell.run(
      "mkdir -p skald/bin skald/lib && cp '" + built_program().string() +
      "' skald/bin/skald && tar -czf skald.tar.gz skald && scripts/glibc_needed skald.tar.gz");
  CHECK(has(run.out, "(skald/bin/skald)\n"));
}

// A complete conda environment whose compiler builds for glibc 2.`minor`, and doubles of the tools
// that build: their tarball holds the built skald.
std::string put_portable(const Shell& shell, const std::string& minor) {
  shell.stand_in("cmake", "mkdir -p build/portable; touch build/portable/build.ninja");
  shell.stand_in("ninja", "");
  shell.stand_in("cpack",
                 "folder=${!#}; mkdir -p $folder/skald/bin; cp '" + built_program().string() +
                     "' $folder/skald/bin/\n"
                     "tar -C $folder -czf $folder/skald.tar.gz skald; rm -r $folder/skald");
  return "export SKALD_CPU=1 CONDA_PREFIX=$PWD/conda CONDA_DEFAULT_ENV=work\nmkdir -p "
         "conda/conda-meta\n"
         "for name in $(sed '1,/^dependencies:/d; s/^ *- *//; s/[^a-z0-9_-].*//' "
         "scripts/packages/conda/environment.yml) sysroot_linux-$(uname -m | sed 's/x86_64/64/'); "
         "do touch conda/conda-meta/$name-2." +
         minor + "-h0_0.json; done\n";
}

TEST_CASE("a tarball for an old C library needs a conda environment that builds for it") {
  const Shell shell;
  const Outcome none = shell.run("scripts/package tarball --glibc 2.28");
  CHECK(none.code == 1);
  CHECK(has(none.err, "conda env create --file "));
  const Outcome newer =
      shell.run(put_portable(shell, "34") + "scripts/package tarball --glibc 2.28");
  CHECK(newer.code == 1);
  CHECK(has(newer.err,
            "the conda environment work builds for glibc 2.34; run: conda install --prefix " +
                (shell.root() / "conda").string() + " --channel conda-forge sysroot_linux-"));
  CHECK(newer.err.ends_with("=2.28\n"));
  for (const std::string wrong :
       {"deb --glibc 2.28", "tarball --glibc", "tarball --glibc 3", "tarball --glibc 2.28 more"}) {
    CAPTURE(wrong);
    CHECK(shell.run("scripts/package " + wrong).code == 2);
  }
}

TEST_CASE("a tarball for an old C library is made where the program runs with it, else removed") {
  const Shell shell;
  const std::string conda = put_portable(shell, "0");
  const Outcome made = shell.run(conda + "scripts/package tarball --glibc 2.99");
  INFO(made.err);
  CHECK(made.code == 0);
  CHECK(has(made.err, "wrote build/portable/packages/skald.tar.gz\n"));
  CHECK(std::filesystem::exists(shell.root() / "build/portable/packages/skald.tar.gz"));
  const Outcome newer = shell.run(conda + "scripts/package tarball --glibc 2.1");
  CHECK(newer.code == 1);
  CHECK(has(newer.out, "needs glibc 2."));
  CHECK(has(newer.err, "removed build/portable/packages/skald.tar.gz, which would not run"));
  CHECK(!std::filesystem::exists(shell.root() / "build/portable/packages/skald.tar.gz"));
}

TEST_CASE("packages bring the certificates that downloads are checked with") {
  CHECK(has(source("scripts/packages/cpack.cmake"),
            "\nset(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)"));
  CHECK(has(source("scripts/packages/apptainer/skald.def"),
            "--no-install-recommends /skald.deb ca-certificates\n"));
}

TEST_CASE("scripts/package without a kind says which there are") {
  const Outcome run = Shell().run("scripts/package rpm");
  CHECK(run.code == 2);
  CHECK(has(run.err, "scripts/package deb "));
}

}  // namespace
}  // namespace skald::test
