// scripts/folders.sh: where things are kept that are fetched without root, and who else may write
// there.
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/scripts/shell.h"

namespace skald::test {
namespace {

// A usual place that not even root can make, and a spare one beside it.
const std::string kChooseCache =
    "source scripts/setup.sh\ntouch file\nchoose_cache \"$PWD/file/cache\" \"$PWD/spare\"\n";

TEST_CASE("where no cache can be made, a folder of the user serves, and a line says so") {
  const Shell shell;
  const std::string lines = kChooseCache + "make_cache\nstat -c '%n %a' \"$cache\"";
  const std::string spare = (shell.root() / "spare").string();
  for (int i = 0; i < 2; ++i) {  // the second time it is there
    const Outcome run = shell.run("umask 000\n" + lines);
    CHECK(run.out == spare + " 700\n");
    CHECK(run.err == "skald: no home that can be written: using " + spare +
                         " (XDG_CACHE_HOME names another place)\n");
  }
}

TEST_CASE("a cache that can be made, or that holds packages or a toolkit, is the place") {
  const Shell shell;
  const std::string choose =
      "source scripts/setup.sh\nchoose_cache \"$PWD/new/cache\" \"$PWD/spare\"\n";
  const std::string cache = (shell.root() / "new/cache").string();
  CHECK(shell.run(choose + "echo $cache; ls -d new").out ==
        cache + "\n");  // choosing makes nothing
  CHECK(shell.run(choose + "make_cache; ls -d $cache").out == cache + "\n");
  for (const std::string kind : {"deps", "cuda"}) {
    CAPTURE(kind);
    const Outcome run = shell.run("mkdir new/cache/" + kind + "\n" +
                                  "source scripts/setup.sh\ncan_make() { false; }\n"
                                  "choose_cache \"$PWD/new/cache\" \"$PWD/spare\"\n"
                                  "echo $cache; rmdir new/cache/" +
                                  kind);
    CHECK(run.out == cache + "\n");
  }
}

TEST_CASE("a spare folder that others can write, or a link, is refused with its owner and mode") {
  const Shell shell;
  const std::string end = ": not a folder that you alone can write)\n";
  const std::string begin = "skald: cannot write to " + (shell.root() / "file/cache").string() +
                            ": Not a directory; set XDG_CACHE_HOME to a folder that you can write "
                            "(" +
                            (shell.root() / "spare").string() + " is a ";
  const std::string make = kChooseCache + "echo $toolkit\nmake_cache";
  const Outcome open = shell.run("mkdir -m 777 spare\n" + make);
  CHECK(open.code == 1);
  CHECK(open.err.starts_with(begin + "directory of "));
  CHECK(open.err.ends_with(", mode 777" + end));
  const Outcome link = shell.run("rmdir spare; mkdir -m 700 own; ln -s own spare\n" + make);
  CHECK(link.code == 1);
  CHECK(link.err.starts_with(begin + "symbolic link of "));
  const Outcome file = shell.run("rm spare; touch spare\n" + make);
  CHECK(file.code == 1);
  CHECK(file.err.starts_with(begin + "regular empty file of "));
}

TEST_CASE("a folder that another user makes in the meantime is not used") {
  const Shell shell;
  const Outcome run = shell.run(kChooseCache + "mkdir -m 777 spare\nmake_cache");
  CHECK(run.code == 1);
  CHECK(has(run.err,
            "others can write to " + (shell.root() / "spare").string() + "; set XDG_CACHE_HOME"));
}

TEST_CASE("without a home and XDG_CACHE_HOME, nothing is looked for in a folder of all users") {
  const Outcome run =
      Shell().run("unset HOME XDG_CACHE_HOME\nsource scripts/setup.sh\necho $cache");
  CHECK((run.out == "/.cache/skald\n" || run.out.starts_with("/var/tmp/skald-")));
}

}  // namespace
}  // namespace skald::test
