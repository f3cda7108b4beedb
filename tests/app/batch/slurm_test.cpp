// scripts/slurm: the tasks of a job array together give the output of a single run.
#include <stdlib.h>

#include "tests/app/batch/files.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

int shell(const std::string& command) {
  const int status = std::system((command + " > /dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("the outputs of a job array's tasks merge into the output of one run") {
  const BatchFiles files(
      "{\"id\":1,\"prompt\":\"a\"}\n\n{\"prompt\":\"b\"}\nbad\n{\"id\":2,\"prompt\":\"c\"}\n"
      "{\"prompt\":\"d\"}");
  const std::string scripts = (source_dir() / "scripts" / "slurm").string();
  const std::string output = (files.folder.path() / "array.jsonl").string();
  const auto task = [&](int index, int count) {
    return shell("SKALD='" + built_program().string() +
                 "' CUDA_VISIBLE_DEVICES= " + "SLURM_ARRAY_TASK_ID=" + std::to_string(index + 10) +
                 " SLURM_ARRAY_TASK_MIN=10 SLURM_ARRAY_TASK_COUNT=" + std::to_string(count) + " " +
                 scripts + "/batch_array " + files.model + " " + files.in + " " + output +
                 " -q --ignore-eos -n 4");
  };
  const std::string merge = scripts + "/batch_merge " + output;
  CHECK(files.run({"--ignore-eos", "-n", "4"}).code == 5);
  for (const int count : {3, 8}) {
    const int with_bad_line = count == 3 ? 1 : 5;
    for (int i = 0; i + 1 < count; ++i) CHECK(task(i, count) == (i == with_bad_line ? 5 : 0));
    CHECK(shell(merge) == 1);  // the last part is missing
    CHECK(task(count - 1, count) == 0);
    CHECK(shell(merge) == 5);
    CHECK(read_file(output) == files.text());
    CHECK(shell(merge) == 2);  // the output exists already
    shell("rm " + output + "*");
  }
}

}  // namespace
}  // namespace skald::test
