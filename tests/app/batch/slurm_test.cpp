// scripts/slurm: the tasks of a job array, or of one job on several nodes, together give the output
// of a single run. Stand-ins take the place of srun and scontrol.
#include <stdlib.h>

#include "tests/app/batch/files.h"
#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

int shell(const std::string& command) {
  const int status = std::system((command + " > /dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// What the command prints, and its exit code.
std::string shell_text(const std::string& command) {
  FILE* const pipe = popen(("{ " + command + "; } 2>&1; echo -n $?").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  pclose(pipe);
  return text;
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

void put_program(const fs::path& path, const std::string& lines) {
  put_file(path, "#!/bin/bash\n" + lines + "\n");
  fs::permissions(path, fs::perms::owner_all);
}

// Runs the command once for each task, and ends with the highest exit code, as srun does.
void put_srun(const fs::path& folder) {
  put_program(folder / "srun",
              "while [[ $1 == --* ]]; do shift; done\ncode=0\n"
              "for ((i = 0; i < ${SLURM_NTASKS:-1}; ++i)); do\n"
              "  SLURM_PROCID=$i \"$@\"; last=$?\n"
              "  ((last <= code)) || code=$last\ndone\nexit $code");
}

TEST_CASE("the tasks of one job on several nodes give the output of one run") {
  const BatchFiles files(
      "{\"id\":1,\"prompt\":\"a\"}\nbad\n{\"prompt\":\"b\"}\n{\"prompt\":\"c\"}\n");
  const fs::path folder = files.folder.path();
  const std::string output = (folder / "nodes.jsonl").string();
  put_srun(folder / "bin");
  // Slurm runs a copy of the script in a folder of its own.
  const fs::path scripts = source_dir() / "scripts" / "slurm";
  fs::create_directories(folder / "spool");
  fs::copy_file(scripts / "batch_nodes", folder / "spool/slurm_script");
  put_program(folder / "bin/scontrol", "[[ \"$*\" == \"show job 7\" ]] && echo '   Command=" +
                                           (scripts / "batch_nodes").string() + " model in out'");
  const auto job = [&](const std::string& variables) {
    return shell("PATH='" + (folder / "bin").string() +
                 "':$PATH CUDA_VISIBLE_DEVICES= SLURM_JOB_ID=7 " + "SLURM_NTASKS=3 " + variables +
                 (folder / "spool/slurm_script").string() + " " + files.model + " " + files.in +
                 " " + output + " -q --ignore-eos -n 4");
  };
  CHECK(files.run({"--ignore-eos", "-n", "4"}).code == 5);
  CHECK(job("SKALD=/bin/false ") == 1);  // no part is done, so nothing is joined
  CHECK(!fs::exists(output));
  const std::string skald = "SKALD='" + built_program().string() + "' ";
  CHECK(job(skald) == 5);
  CHECK(read_file(output) == files.text());
  CHECK(job(skald) == 2);  // the output exists already
}

TEST_CASE("the tasks of a job compute one model together") {
  const TempFolder folder;
  const fs::path bin = folder.path() / "bin";
  put_program(bin / "srun",
              "while [[ $1 == --* ]]; do shift; done\nexport SLURM_JOB_ID=7 SLURM_NTASKS=2\n"
              "export SLURM_STEP_NODELIST=127.0.0.1\n"
              "SLURM_PROCID=1 \"$@\" & SLURM_PROCID=0 \"$@\" && wait $!");
  const auto job = [&](const std::string& arguments) {
    return shell_text("PATH='" + bin.string() + "':$PATH CUDA_VISIBLE_DEVICES= SKALD='" +
                      built_program().string() + "' " +
                      (source_dir() / "scripts/slurm/one_model").string() + " " + arguments);
  };
  const Outcome alone =
      skald({"run", "-n", "8", "-s", "1", "--device", "cpu", "--tp", "2", "Once"});
  CHECK(job("run -t 1 -n 8 -s 1 Once") == alone.out + "0");
  CHECK(has(job(""), "usage: sbatch "));
}

TEST_CASE("a job on one GPU ends at once where the GPU cannot be used, and says why") {
  const TempFolder folder;
  const fs::path bin = folder.path() / "bin";
  put_srun(bin);
  put_program(
      bin / "skald",
      "if [[ $1 == doctor ]]; then echo 'problem: no driver'; [[ -z ${BROKEN-} ]]; exit; fi\n"
      "echo \"ran $*\"");
  const auto job = [&](const std::string& variables, const std::string& arguments) {
    return shell_text("PATH='" + bin.string() + "':$PATH " + variables + " " +
                      (source_dir() / "scripts/slurm/one_gpu").string() + " " + arguments);
  };
  CHECK(job("", "run model -n 3") == "ran run model -n 3\n0");
  CHECK(job("BROKEN=1", "run model -n 3") == "problem: no driver\n1");
  CHECK(has(job("", ""), "usage: sbatch "));
}

}  // namespace
}  // namespace skald::test
