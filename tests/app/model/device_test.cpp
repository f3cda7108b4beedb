// The choice of a device, function by function; and the program's behaviour without a GPU.
#include "app/model/device.h"

#include "cuda/gpu/architectures.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/process.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

using cuda::Code;
using cuda::code_for;

const Device kAuto = {.automatic = true};
const Device kRequired = {.automatic = true, .required = true};

TEST_CASE("device names are auto, cpu, cuda and cuda:N, and nothing else") {
  CHECK(parse_device({"auto"}).automatic);
  CHECK(parse_device({}).automatic);
  CHECK(parse_device({"auto", true}).required);
  CHECK(!parse_device({"cpu"}).cuda);
  CHECK(parse_device({"cuda"}).cuda);
  CHECK(parse_device({"cuda:3"}).index == 3);
  CHECK(parse_device({"cuda:3", true}).cuda);
  for (const char* bad : {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "CUDA", "cpu:0"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_device({bad}), Error);
  }
  CHECK(has(error_text([] { parse_device({"cpu", true}); }, Exit::Usage), "contradict"));
}

TEST_CASE("--tp takes GPUs from --device on, or groups of those that --devices names") {
  DeviceFlags flags;
  flags.ranks = 2;
  CHECK(parse_device(flags).required);  // the CPU is no substitute for two GPUs
  flags.name = "cuda:2";
  CHECK(parse_device(flags).rank_gpus() == std::vector<int>{2, 3});
  flags.name = "cpu";
  CHECK(parse_device(flags).ranks == 2);
  CHECK(!parse_device(flags).cuda);
  flags.name = "auto";
  flags.list = "4,1,0,7";
  const std::vector<Device> groups = parse_devices(flags);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].rank_gpus() == std::vector<int>{4, 1});
  CHECK(groups[1].rank_gpus() == std::vector<int>{0, 7});
  CHECK(groups[1].index == 0);
  flags.list = "0,1,2";
  CHECK(error_text([&] { parse_devices(flags); }, Exit::Usage) ==
        "--devices '0,1,2' names 3 GPUs, which is no multiple of --tp 2");
  flags.list.clear();
  const GpuSearch found = {1, true, "", ""}, none = {-1, false, "no GPU", "buy one"};
  Device asked = parse_device(flags);
  CHECK(decide(asked, "", found).device.rank_gpus() == std::vector<int>{1, 2});
  CHECK(error_text([&] { decide(asked, "", none); }, Exit::Failed) == "--tp: no GPU; buy one");
}

TEST_CASE("--split says whether the GPUs of --devices share one model or have a copy each") {
  DeviceFlags flags;
  flags.list = "3,0,1";
  flags.split = "tensor";
  const std::vector<Device> one = parse_devices(flags);
  REQUIRE(one.size() == 1);
  CHECK(one[0].rank_gpus() == std::vector<int>{3, 0, 1});
  CHECK(one[0].ranks == 3);
  flags.ranks = 3;
  CHECK(parse_devices(flags).size() == 1);
  flags.ranks = 2;
  CHECK(error_text([&] { parse_devices(flags); }, Exit::Usage) ==
        "--split tensor computes one model on all 3 GPUs of --devices; leave out --tp 2");
  flags.split = "replica";
  CHECK(error_text([&] { parse_devices(flags); }, Exit::Usage) ==
        "--split replica gives each GPU the whole model; leave out --tp 2");
  flags.ranks = 0;
  CHECK(has(error_text([&] { parse_devices(flags); }, Exit::Usage), "--tp auto and --devices"));
  flags.ranks = 1;
  CHECK(parse_devices(flags).size() == 3);
  flags.list.clear();
  CHECK(error_text([&] { parse_devices(flags); }, Exit::Usage) ==
        "--split belongs to --devices; add it");
}

TEST_CASE("auto takes a usable GPU and prints nothing") {
  const Decision decision = decide(kAuto, "", {2, true, "", ""});
  CHECK(decision.device.cuda);
  CHECK(decision.device.index == 2);
  CHECK(!decision.device.automatic);
  CHECK(decision.notice == "");
  CHECK(decide(kRequired, "", {0, true, "", ""}).device.cuda);
}

TEST_CASE("auto takes the CPU, and says so only where a GPU was expected to work") {
  const Decision silent = decide(kAuto, "", {-1, false, "this machine has no NVIDIA GPU", "x"});
  CHECK(!silent.device.cuda);
  CHECK(silent.notice == "");
  const Decision broken = decide(kAuto, "", {-1, true, "the driver is too old", "install one"});
  CHECK(!broken.device.cuda);
  CHECK(broken.notice == "using the CPU: the driver is too old; run skald doctor for advice");
  const Decision quantized = decide(kAuto, "no kernel for Q4_0", {-1, true, "", ""});
  CHECK(!quantized.device.cuda);
  CHECK(quantized.notice == "using the CPU: no kernel for Q4_0");
  CHECK(decide(kAuto, "no kernel for Q4_0", {-1, false, "", ""}).notice == "");
  // A model that GPUs cannot run stays on the CPU, even beside a usable GPU.
  CHECK(!decide(kAuto, "no kernel for Q4_0", {0, true, "", ""}).device.cuda);
}

TEST_CASE("a required GPU that cannot be used is an error with the reason") {
  const auto refusal = [](const std::string& cpu_reason, const GpuSearch& gpus) {
    return error_text([&] { decide(kRequired, cpu_reason, gpus); }, Exit::Failed);
  };
  CHECK(refusal("", {-1, true, "the driver is too old", "install one"}) ==
        "--require-gpu: the driver is too old; install one");
  CHECK(refusal("", {-1, false, "no GPU", "buy one"}) == "--require-gpu: no GPU; buy one");
  CHECK(refusal("no kernel for Q4_0", {0, true, "", ""}) ==
        "--require-gpu: no kernel for Q4_0; leave --require-gpu out to run on the CPU");
}

TEST_CASE("a device named by the user is never replaced") {
  const Device named = {.cuda = true, .index = 1};
  const Decision decision = decide(named, "no kernel for Q4_0", {-1, true, "broken", ""});
  CHECK(decision.device.cuda);
  CHECK(decision.device.index == 1);
  CHECK(decision.notice == "");
  CHECK(!decide({}, "", {0, true, "", ""}).device.cuda);
}

TEST_CASE("a build runs on a GPU by machine code, by PTX or not at all") {
  const std::string ours = "75-virtual 80-real 90a-real";
  CHECK(code_for(ours, 70) == Code::None);
  CHECK(code_for(ours, 75) == Code::Ptx);
  CHECK(code_for(ours, 80) == Code::Native);
  CHECK(code_for(ours, 86) == Code::Native);  // code for 8.0 runs on all of 8.x
  CHECK(code_for(ours, 89) == Code::Native);
  CHECK(code_for(ours, 90) == Code::Native);
  CHECK(code_for(ours, 100) == Code::Ptx);  // code for 9.0a runs on 9.0 alone
  CHECK(code_for(ours, 120) == Code::Ptx);
  CHECK(code_for("86", 86) == Code::Native);
  CHECK(code_for("86", 80) == Code::None);
  CHECK(code_for("86", 90) == Code::Ptx);
  CHECK(code_for("86-real", 90) == Code::None);
  CHECK(code_for("90a-virtual", 100) == Code::None);
  CHECK(code_for("100f-real", 103) == Code::Native);
  CHECK(code_for("80-real 75-virtual", 80) == Code::Native);
  CHECK(code_for("", 90) == Code::None);
  CHECK(code_for("native", 90) == Code::None);
}

std::vector<std::string> short_run(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"run", "-m", small_gguf(), "-p", "hi",
                                     "-n",  "3",  "--temp",     "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_CASE("without a GPU, auto takes the CPU and prints nothing") {
  const Outcome by_default = skald(short_run({}));
  CHECK(by_default.code == 0);
  CHECK(by_default.err == "");
  CHECK(skald(short_run({"--device", "auto"})).out == by_default.out);
  const Outcome cpu = skald(short_run({"--device", "cpu", "--stats"}));
  CHECK(cpu.out == by_default.out);
  CHECK(has(cpu.err, "cpu ("));
  CHECK(has(skald(short_run({"--stats"})).err, "cpu ("));
}

TEST_CASE("without a GPU, --require-gpu and --device cuda fail with a reason") {
  for (const char* command : {"run", "bench"}) {
    for (const std::vector<std::string>& device :
         {std::vector<std::string>{"--require-gpu"}, {"--device", "cuda"}}) {
      std::vector<std::string> arguments{command, "-m", small_gguf(), "-p",
                                         std::string(command) == "run" ? "hi" : "8"};
      arguments.insert(arguments.end(), device.begin(), device.end());
      const Outcome outcome = skald(arguments);
      CAPTURE(command, device.front(), outcome.err);
      CHECK(outcome.code == 1);
      CHECK(outcome.out == "");
      CHECK(has(outcome.err, "skald: error: " + device.front()));
      CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
    }
  }
  CHECK(skald(short_run({"--require-gpu", "--device", "cpu"})).code == 2);
  CHECK(skald(short_run({"--device", "gpu"})).code == 2);
}

TEST_CASE("--tp on the CPU: ranks compute together; without enough GPUs it fails") {
  const Outcome two = skald(short_run({"--device", "cpu", "--tp", "2", "--stats"}));
  CHECK(two.code == 0);
  CHECK(has(two.err, "2 ranks, the first: cpu ("));
  CHECK(skald(short_run({"--device", "cpu", "--tp", "2"})).out == two.out);
  for (const std::vector<std::string>& device :
       {std::vector<std::string>{}, {"--device", "cuda"}}) {
    std::vector<std::string> arguments = {"--tp", "2"};
    arguments.insert(arguments.end(), device.begin(), device.end());
    const Outcome outcome = skald(short_run(arguments));
    CAPTURE(outcome.err);
    CHECK(outcome.code == 1);
    CHECK(outcome.out == "");
    CHECK(has(outcome.err,
              device.empty() ? "skald: error: --tp: " : "skald: error: --device cuda: "));
  }
  const Outcome many = skald(short_run({"--device", "cpu", "--tp", "64"}));
  CHECK(many.code == 2);
  CHECK(many.err ==
        "skald: error: --tp 64: this model has no part that can be divided by 64; give another "
        "number\n");
  CHECK(skald(short_run({"--tp", "0"})).code == 2);
  CHECK(skald(short_run({"--tp", "65"})).code == 2);
}

TEST_CASE("diff accepts a GPU as a side, and fails without one") {
  const Outcome outcome = skald({"diff", "-m", small_gguf(), "-a", "cpu", "-b", "cuda,rows=1"});
  CHECK(outcome.code == 1);
  CHECK(has(outcome.err, "--device cuda: "));
  CHECK(skald({"diff", "-m", small_gguf(), "-b", "cuda:x"}).code == 2);
}

}  // namespace
}  // namespace skald::test
