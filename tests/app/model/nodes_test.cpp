// One model in several processes: which rank a process has, and real processes that compute,
// are killed, hang, or do not belong together.
#include "app/model/nodes.h"

#include <sys/wait.h>

#include <chrono>
#include <map>
#include <thread>

#include "app/model/device.h"
#include "tests/app/batch/files.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/free_port.h"
#include "tests/process.h"
#include "tests/recurrent_model.h"

namespace skald::test {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(const Variables& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string rank_error(const std::string& text, const Variables& variables = {}) {
  return error_text([&] { find_rank(text, environment_of(variables)); }, Exit::Usage);
}

TEST_CASE("a rank is given by hand, with the first rank's address") {
  const auto place =
      find_rank("1/3@node7:29500", environment_of({{"SKALD_SECRET", "x"}, {"RANK", "9"}}));
  REQUIRE(place);
  CHECK(place->rank == 1);
  CHECK(place->of == 3);
  CHECK(place->address.text() == "node7:29500");
  CHECK(place->secret == "x");
  CHECK(place->timeout == 20);
  const auto other = find_rank(
      "0/2@[::1]:80", environment_of({{"SKALD_SECRET", "x"}, {"SKALD_RANK_TIMEOUT", "3"}}));
  CHECK(other->address.text() == "[::1]:80");
  CHECK(other->timeout == 3);
  CHECK(!find_rank("", environment_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}})));
  CHECK(!find_rank("0/1", environment_of({})));  // alone
}

TEST_CASE("auto takes rank, number, address and secret from srun, mpirun or torchrun") {
  const auto automatic = [](const Variables& variables) {
    return *find_rank("auto", environment_of(variables));
  };
  const RankPlace torchrun = automatic({{"RANK", "1"},
                                        {"WORLD_SIZE", "4"},
                                        {"MASTER_ADDR", "10.0.0.1"},
                                        {"MASTER_PORT", "29500"},
                                        {"TORCHELASTIC_RUN_ID", "job7"},
                                        {"SLURM_PROCID", "0"}});
  CHECK(torchrun.rank == 1);
  CHECK(torchrun.of == 4);
  CHECK(torchrun.address.text() == "10.0.0.1:29501");
  CHECK(torchrun.secret == "torchrun job7");

  Variables srun = {{"SLURM_PROCID", "3"},
                    {"SLURM_NTASKS", "8"},
                    {"SLURM_JOB_ID", "1234"},
                    {"SLURM_STEP_ID", "0"},
                    {"SLURM_STEP_NODELIST", "gpu[03-05,09],big1"}};
  CHECK(automatic(srun).rank == 3);
  CHECK(automatic(srun).of == 8);
  CHECK(automatic(srun).address.host == "gpu03");
  CHECK(automatic(srun).secret == "srun 1234.0");
  CHECK(automatic(srun).address.port >= 20000);
  const int port = automatic(srun).address.port;
  srun["SLURM_PROCID"] = "0";
  CHECK(automatic(srun).address.port == port);  // all ranks find the same one
  for (const auto& [list, host] :
       Variables{{"a1", "a1"}, {"a1,b[1-2]", "a1"}, {"rack[2,5]-n1", "rack2-n1"}, {"n[7]", "n7"}}) {
    srun["SLURM_STEP_NODELIST"] = list;
    CHECK(automatic(srun).address.host == host);
  }
  CHECK(find_rank("auto@10.1.1.1:99", environment_of(srun))->address.text() == "10.1.1.1:99");

  Variables mpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"PMIX_NAMESPACE", "prterun-1@1"},
                      {"SLURM_PROCID", "0"}};
  CHECK(automatic(mpirun).address.host == "127.0.0.1");
  CHECK(automatic(mpirun).secret == "mpirun prterun-1@1");
  mpirun["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  CHECK(rank_error("auto", mpirun) ==
        "--rank auto: the address of the first rank is missing; give auto@HOST:PORT");
}

TEST_CASE("wrong ranks and variables are refused with the variable's name") {
  const Variables secret = {{"SKALD_SECRET", "x"}};
  CHECK(has(rank_error("1", secret), "expected auto, auto@HOST:PORT or I/N@HOST:PORT"));
  CHECK(has(rank_error("a/2@h:1", secret), "expected auto"));
  CHECK(has(rank_error("-1/2@h:1", secret), "expected auto"));
  CHECK(has(rank_error("0/2", secret), "expected auto"));
  CHECK(has(rank_error("2/2@h:1", secret), "there is no rank 2 of 2; ranks count from 0"));
  CHECK(has(rank_error("0/65@h:1", secret), "at most 64 ranks"));
  for (const char* address : {"h", "h:", ":1", "h:0", "h:65536", "h:x", "h:1x"}) {
    CHECK(has(rank_error(std::string("0/2@") + address, secret), "expected HOST:PORT"));
  }
  CHECK(has(rank_error("0/2@h:1"), "set SKALD_SECRET to the same random text"));
  CHECK(has(rank_error("auto"), "neither torchrun, mpirun nor srun started this process"));
  CHECK(rank_error("auto", {{"RANK", "3"}, {"WORLD_SIZE", "2"}}) ==
        "--rank auto: RANK is 3 and WORLD_SIZE is 2; expected a rank below the size");
  CHECK(rank_error("auto", {{"SLURM_PROCID", "x"}, {"SLURM_NTASKS", "2"}}) ==
        "--rank auto: SLURM_PROCID is 'x'; expected a number");
  CHECK(rank_error("auto", {{"SLURM_PROCID", "1"}}) ==
        "--rank auto: SLURM_NTASKS is missing; give I/N@HOST:PORT");
  CHECK(rank_error("auto", {{"SKALD_SECRET", "x"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}}) ==
        "--rank auto: the address of the first rank is missing; give auto@HOST:PORT");
  CHECK(has(rank_error("0/2@h:1", {{"SKALD_SECRET", "x"}, {"SKALD_RANK_TIMEOUT", "0"}}),
            "SKALD_RANK_TIMEOUT is '0'; expected seconds"));
}

// Processes that have a rank each. What they print goes to files.
class Ranks {
 public:
  explicit Ranks(int of, std::vector<std::pair<std::string, std::string>> environment = {})
      : of_(of), environment_(std::move(environment)), port_(free_port()) {
    environment_.emplace_back("SKALD_SECRET", "of this test");
  }
  ~Ranks() {
    for (const auto& [rank, child] : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
  }

  std::string flag(int rank) const {
    return std::to_string(rank) + "/" + std::to_string(of_) + "@127.0.0.1:" + std::to_string(port_);
  }

  void start(int rank, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--device", "cpu", "-t", "1", "--rank", flag(rank)});
    const std::string out = folder_.write(name(rank, "out"), "").string(),
                      err = folder_.write(name(rank, "err"), "").string();
    const Invocation invocation{.arguments = arguments, .input = {}, .environment = environment_};
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open("/dev/null", O_RDONLY), 0);
      ::dup2(::open(out.c_str(), O_WRONLY), 1), ::dup2(::open(err.c_str(), O_WRONLY), 2);
      exec_program(invocation);
    }
    children_[rank] = child;
  }
  void start_all(const std::vector<std::string>& arguments) {
    for (int rank = 0; rank < of_; ++rank) start(rank, arguments);
  }

  void send_signal(int rank, int signal) { ::kill(children_.at(rank), signal); }

  Outcome wait(int rank) {
    int status = 0;
    ::waitpid(children_.at(rank), &status, 0);
    children_.erase(rank);
    Outcome outcome;
    outcome.out = read_file(folder_.path() / name(rank, "out"));
    outcome.err = read_file(folder_.path() / name(rank, "err"));
    if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    return outcome;
  }

 private:
  static std::string name(int rank, const char* kind) {
    return std::string(kind) + std::to_string(rank);
  }

  int of_;
  std::vector<std::pair<std::string, std::string>> environment_;
  int port_;
  TempFolder folder_;
  std::map<int, pid_t> children_;
};

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The first rank's output is that of --tp, and the others print nothing.
void check_same(int of, const std::vector<std::string>& arguments) {
  CAPTURE(arguments);
  const Outcome expected =
      skald(joined(arguments, {"--device", "cpu", "--tp", std::to_string(of)}));
  REQUIRE(expected.code == 0);
  Ranks ranks(of);
  ranks.start_all(arguments);
  const Outcome first = ranks.wait(0);
  CAPTURE(first.err);
  CHECK(first.code == 0);
  CHECK(first.out == expected.out);
  for (int rank = 1; rank < of; ++rank) {
    const Outcome other = ranks.wait(rank);
    CHECK(other.code == 0);
    CHECK(other.out == "");
    CHECK(other.err == "");
  }
}

TEST_CASE("processes with a rank each give the output of --tp, to the last bit") {
  TempFolder folder;
  const std::string recurrent = folder.write("r.gguf", RecurrentGguf().file()).string();
  const std::string text =
      folder.write("text", std::string(600, 'a') + "Once upon a time").string();
  const auto run = [](const std::string& model) {
    return std::vector<std::string>{"run",        "-m", model, "-n", "12", "--json",
                                    "--logprobs", "2",  "-s",  "3",  "-p", "Once"};
  };
  const auto text_of = [](const Outcome& outcome) { return Json::parse(outcome.out)["tokens"]; };
  for (const std::string& model : {small_gguf(), recurrent}) {
    const Outcome expected = skald(joined(run(model), {"--device", "cpu", "--tp", "2"}));
    REQUIRE(expected.code == 0);
    Ranks ranks(2);
    ranks.start_all(run(model));
    const Outcome first = ranks.wait(0);
    CAPTURE(first.err);
    REQUIRE(first.code == 0);
    CHECK(text_of(first) == text_of(expected));
    CHECK(ranks.wait(1).code == 0);
  }
  check_same(3, {"run", "-n", "12", "-s", "3", "Once upon"});
  check_same(2, {"perplexity", "-m", small_gguf(), "-f", text, "--protocol", "gptq:64"});
}

// So many lines that a batch of them is not done before a test has sent a signal.
std::string many_lines(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) lines += "line " + std::to_string(i) + "\n";
  return lines;
}

std::vector<std::string> batch_of(const BatchFiles& files, const std::string& out,
                                  const std::vector<std::string>& more = {}) {
  return joined({"batch", "-m", small_gguf(), "-i", files.in, "-o", out, "-q", "--text", "-n", "20",
                 "--ignore-eos", "--max-seqs", "8", "--temp", "0"},
                more);
}

void await_lines(const BatchFiles& files) {
  for (int i = 0; i < 60000 && files.lines_written() == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_CASE("a batch whose rank is killed ends with a line that names it, and goes on later") {
  const BatchFiles files(many_lines(60));
  Ranks ranks(3);
  ranks.start_all(batch_of(files, files.out));
  await_lines(files);
  ranks.send_signal(1, SIGKILL);
  const Outcome first = ranks.wait(0), third = ranks.wait(2);
  CHECK(first.code == 1);
  CHECK(has(first.err, "rank 1 (127.0.0.1) is lost: it has ended"));
  CHECK(third.code == 1);
  CHECK(has(third.err, "rank 1 (127.0.0.1) is lost"));
  CHECK(ranks.wait(1).signal == SIGKILL);
  CHECK(files.lines_written() < 60);

  Ranks again(3);
  again.start_all(batch_of(files, files.out, {"--resume"}));
  CHECK(again.wait(0).code == 0);
  CHECK(again.wait(1).code == 0);
  const std::string alone = (files.folder.path() / "alone.jsonl").string();
  CHECK(skald(batch_of(files, alone, {"--device", "cpu", "--tp", "3"})).code == 0);
  CHECK(files.text() == read_file(alone));
}

TEST_CASE("a rank that hangs, and one whose first rank is killed, end all others in time") {
  const auto start = std::chrono::steady_clock::now();
  {
    const BatchFiles files(many_lines(5000));
    Ranks ranks(3, {{"SKALD_RANK_TIMEOUT", "2"}});
    ranks.start_all(batch_of(files, files.out));
    await_lines(files);
    ranks.send_signal(2, SIGSTOP);
    const Outcome first = ranks.wait(0), second = ranks.wait(1);
    CHECK(first.code == 1);
    CHECK(has(first.err, "rank 2 (127.0.0.1) is lost: it has not answered for 2 s"));
    CHECK(second.code == 1);
    CHECK(has(second.err, "rank 2 (127.0.0.1) is lost"));
  }
  {
    const BatchFiles files(many_lines(5000));
    Ranks ranks(2);
    ranks.start_all(batch_of(files, files.out));
    await_lines(files);
    ranks.send_signal(0, SIGKILL);
    const Outcome second = ranks.wait(1);
    CHECK(second.code == 1);
    CHECK(has(second.err, "skald: error: rank 0 (127.0.0.1) is lost: it has ended"));
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

TEST_CASE("ranks that do not belong together are refused by both sides") {
  const std::vector<std::string> run = {"run", "-n", "2", "Once"};
  {
    Ranks ranks(2);
    ranks.start(0, run);
    ranks.start(1, {"run", "-m", small_gguf(), "-n", "2", "Once"});
    const Outcome first = ranks.wait(0), second = ranks.wait(1);
    CHECK(first.code == 1);
    CHECK(has(first.err, "rank 1 (127.0.0.1): its "));
    CHECK(has(first.err, "; all ranks take the same command\n"));
    CHECK(second.code == 1);
    CHECK(has(second.err, "the group does not begin: rank 1 (127.0.0.1): its "));
  }
  {
    Ranks ranks(2, {{"SKALD_RANK_TIMEOUT", "0.1"}});
    ranks.start(0, run);
    const Outcome first = ranks.wait(0);
    CHECK(first.code == 1);
    CHECK(has(first.err, "rank 1 has not come to 127.0.0.1:"));
    ranks.start(1, run);
    CHECK(has(ranks.wait(1).err, "no rank 0 answers at 127.0.0.1:"));
  }
  const Outcome gpu = skald({"run", "--rank", "0/2@127.0.0.1:1", "-n", "2", "Once"});
  CHECK(gpu.code == 2);
  const Outcome base =
      run_program({.arguments = {"perplexity", "--rank", "0/2@127.0.0.1:1", "--device", "cpu",
                                 "--base", small_gguf(), "-m", small_gguf(), "-f", small_gguf()},
                   .input = {},
                   .environment = {{"SKALD_SECRET", "x"}}});
  CHECK(base.code == 2);
  CHECK(has(base.err, "--base: the ranks of --rank compute one model"));
}

}  // namespace
}  // namespace skald::test
