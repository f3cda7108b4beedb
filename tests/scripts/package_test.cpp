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
