// skald selftest: tests whether this machine computes correctly. Runs every kernel on a list of
// difficult cases and compares with double precision. Then compares a text of the bundled model
// with the CPU's reference kernels; without the bundled model, that comparison is left out.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "app/files/json.h"
#include "app/files/signals.h"
#include "app/model/device.h"
#include "app/model/open.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "app/terminal/table.h"
#include "cuda/cuda.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/number_text.h"
#include "engine/base/printable.h"
#include "engine/cpu/kernels.h"
#include "engine/schedule/session.h"
#include "engine/selftest/cpu.h"

namespace skald {
namespace {

struct SelftestFlags {
  std::string device, arch_limit;
  uint64_t seed = 1;
  int threads = 0;
  bool json = false;
};

// 75 for "sm_75" or "75".
int parse_arch(const std::string& text) {
  int value = 0;
  const std::string_view digits = std::string_view(text).substr(text.starts_with("sm_") ? 3 : 0);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  constexpr int kOldest = 75, kNewest = 999;
  if (error != std::errc() || end != digits.data() + digits.size() || value < kOldest ||
      value > kNewest) {
    fail(Exit::Usage, "--arch-limit '", printable(text),
         "': expected an architecture such as sm_75, sm_80 or sm_90");
  }
  return value;
}

cuda::DeviceInfo find_gpu(const Device& device) {
  const cuda::Devices found = cuda::list_devices();
  if (found.devices.empty()) fail(Exit::Failed, "--device cuda: ", found.problem);
  if (device.index >= static_cast<int>(found.devices.size())) {
    fail(Exit::Usage, "--device cuda:", device.index,
         ": there is no such GPU; the last one is cuda:", found.devices.size() - 1);
  }
  const cuda::DeviceInfo& gpu = found.devices[static_cast<size_t>(device.index)];
  if (!gpu.problem.empty()) fail(Exit::Failed, "--device cuda:", device.index, ": ", gpu.problem);
  return gpu;
}

Device device_to_test(const std::string& name) {
  if (!name.empty() && name != "auto") return parse_device({name});
  for (const cuda::DeviceInfo& gpu : cuda::list_devices().devices) {
    if (gpu.problem.empty()) return {true, gpu.index};
  }
  return {};
}

// Tests the exchange of all GPUs that can be used, if there are several.
void test_exchange(selftest::Report& report) {
  std::vector<int> gpus;
  for (const cuda::DeviceInfo& gpu : cuda::list_devices().devices) {
    if (gpu.problem.empty() && gpus.size() < cuda::kMostGroupGpus) gpus.push_back(gpu.index);
  }
  if (gpus.size() > 1) cuda::test_exchange(gpus, report);
}

// Two texts of the bundled model at temperature 0: the device's and the reference kernels'.
struct TextResult {
  bool same = false, good = false;
  size_t tokens = 0;  // before the first difference
  double margin = 0;  // between the reference's two best logits at the first difference
};

double margin_between_best(std::span<const float> logits) {
  double best = -INFINITY, second = -INFINITY;
  for (const double x : logits) {
    if (x > best) {
      second = std::exchange(best, x);
    } else {
      second = std::max(second, x);
    }
  }
  return best - second;
}

// Returns nothing if the bundled model is not installed.
std::optional<TextResult> compare_text(const Device& device, int arch_limit, int threads) {
  if (!std::filesystem::exists(bundled_model())) return std::nullopt;
  constexpr size_t kTokens = 64;
  // 16-bit activations change logits by some hundredths. If the two best logits are closer than
  // this, either token is correct.
  constexpr double kClearMargin = 0.05;
  const OpenedModel opened = open_model(ModelFlags{});
  const auto prompt = open_tokenizer(opened).tokenizer->encode("Once upon a time");
  RunOptions options;
  options.context = static_cast<int64_t>(prompt.size() + kTokens);
  options.threads = threads;
  options.arch_limit = arch_limit;
  const auto reference = cpu::make_executor(opened.model, options, cpu::KernelSet::Reference);
  const auto tested = make_executor(opened.model, options, device);
  Session a(*reference, SamplingParams{.temperature = 0});
  Session b(*tested, SamplingParams{.temperature = 0});
  a.feed(prompt);
  b.feed(prompt);
  TextResult result;
  for (; result.tokens < kTokens; ++result.tokens) {
    const int32_t expected = a.next().token;
    if (b.next().token == expected) continue;
    result.margin = margin_between_best(reference->logits(0));
    result.good = result.margin < kClearMargin;
    return result;
  }
  result.same = result.good = true;
  return result;
}

std::string text_line(const std::optional<TextResult>& compared) {
  if (!compared) return "the bundled model is not installed: no text was compared";
  const TextResult& text = *compared;
  if (text.same)
    return concat("the bundled model's text equals the reference's, ",
                  counted(text.tokens, "token"));
  return concat("the bundled model's text equals the reference's for ",
                counted(text.tokens, "token"), "; then the reference's two best logits differ by ",
                text.margin, text.good ? ", which rounding explains" : "");
}

int selftest_command(const SelftestFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  const Device device = device_to_test(flags.device);
  if (!flags.arch_limit.empty() && !device.cuda) {
    fail(Exit::Usage, "--arch-limit needs a GPU, but this tests the CPU; leave it out");
  }
  const int limit = flags.arch_limit.empty() ? 0 : parse_arch(flags.arch_limit);
  const int threads = flags.threads > 0 ? flags.threads : cpu::available_threads();
  std::string name;
  selftest::Request request;
  request.seed = flags.seed;
  selftest::Report report;
  if (device.cuda) {
    const cuda::DeviceInfo info = find_gpu(device);
    name = concat("cuda:", info.index, " (", info.name, ", sm_", info.compute_capability, ")");
    cuda::self_test(request, device.index, limit, report);
    if (flags.device.empty() && limit == 0) test_exchange(report);
  } else {
    name = concat("cpu (", cpu::fast_kernels({.threads = threads})->description(), ")");
    selftest::test_cpu(request, cpu::KernelSet::Fast, threads, report);
  }
  if (interrupted_by()) return 128 + interrupted_by();
  const std::optional<TextResult> text = compare_text(device, limit, threads);
  const bool text_good = !text || text->good;
  const bool good = report.failed() == 0 && text_good;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  StandardOutput out;
  if (flags.json) {
    Json lines = Json::array();
    for (const selftest::Line& line : report.lines()) {
      lines.push_back({{"op", selftest::sort_name(line.sort)},
                       {"kernel", line.kernel},
                       {"type", skald::name(line.type)},
                       {"cases", line.cases},
                       {"selected", line.selected},
                       {"failed", line.failed},
                       {"error", line.error},
                       {"bound", line.bound},
                       {"worst", line.worst}});
    }
    const Json failures(
        std::vector<std::string>(report.failures().begin(), report.failures().end()));
    out.write(
        dump({{"device", name},
              {"arch_limit", limit > 0 ? Json(concat("sm_", limit)) : Json(nullptr)},
              {"seed", flags.seed},
              {"good", good},
              {"cases", report.cases()},
              {"failed", report.failed()},
              {"seconds", seconds},
              {"text", text ? Json{{"good", text->good}, {"same_tokens", text->tokens}} : Json()},
              {"kernels", lines},
              {"failures", failures}},
             2) +
        "\n");
    return static_cast<int>(good ? Exit::Done : Exit::Failed);
  }
  Table table{{"op", "kernel", "type", "cases", "selected", "error", "bound", "verdict"}, {}};
  for (const selftest::Line& line : report.lines()) {
    table.rows.push_back({std::string(selftest::sort_name(line.sort)), line.kernel,
                          std::string(skald::name(line.type)), concat(line.cases),
                          concat(line.selected), number_text(line.error, "%.1e"),
                          number_text(line.bound, "%.1e"),
                          line.failed == 0 ? "right" : concat(line.failed, " WRONG")});
  }
  out.write(concat(name, limit > 0 ? concat(", as if it were sm_", limit) : "", "\n\n"));
  out.write(to_text(table));
  out.write("\n");
  for (const std::string& failure : report.failures()) out.write(concat("wrong: ", failure, "\n"));
  out.write(text_line(text) + (text_good ? "\n" : "  WRONG\n"));
  char summary[100];
  std::snprintf(summary, sizeof summary, "%d of %d cases are right, in %.1f s\n",
                report.cases() - report.failed(), report.cases(), seconds);
  out.write(summary);
  return static_cast<int>(good ? Exit::Done : Exit::Failed);
}

}  // namespace

void add_selftest(Command& program) {
  Command& command = program.add_command(
      "selftest",
      "Tests whether this machine computes correctly. Takes seconds. Runs every kernel, also "
      "those\n"
      "that no model would use here, on difficult sizes with random numbers, and compares with\n"
      "double precision. Without --device, tests the exchange between several GPUs too. Then\n"
      "compares a text of the bundled model with that of plain loops. Exit code 1: a result is\n"
      "wrong.",
      {"skald selftest", "skald selftest --device cpu", "skald selftest --json | jq .failures"});
  auto flags = std::make_shared<SelftestFlags>();
  command.option("--device", flags->device, "Test cpu, cuda or cuda:N [a GPU if there is one]")
      .type_name("NAME")
      .group("Test");
  command
      .option("--arch-limit", flags->arch_limit,
              "Test the kernels that an older GPU, such as sm_75, would run")
      .type_name("SM")
      .group("Test");
  command.option("--seed", flags->seed, "Seed of the random numbers")
      .type_name("N")
      .show_default()
      .group("Test");
  command.option("-t,--threads", flags->threads, "CPU threads; 0: all available")
      .type_name("N")
      .check(in_range(0, kMostThreads))
      .show_default()
      .group("Test");
  command.flag("--json", flags->json, "Print one JSON object").group("Output");
  command.action([=] { return selftest_command(*flags); });
}

}  // namespace skald
