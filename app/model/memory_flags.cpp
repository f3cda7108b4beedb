#include "app/model/memory_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "app/model/weight_rules.h"
#include "app/program/command.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

std::string quoted(const std::string& text) { return "'" + printable(text, 60) + "'"; }

// Parses a text that is one positive decimal number.
std::optional<double> positive_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc() || rest != end || !std::isfinite(value) || value <= 0) return {};
  return value;
}

std::optional<int> positive_int(std::string_view text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value <= 0) return {};
  return value;
}

// 75 for "sm_75".
std::optional<int> architecture(std::string_view text) {
  if (!text.starts_with("sm_")) return {};
  return positive_int(text.substr(3));
}

}  // namespace

int64_t parse_size(const std::string& text, const std::string& flag) {
  constexpr std::string_view kUnits = "KMGT";
  constexpr double kMost = 0x1p60;
  std::string_view number = text;
  for (const std::string_view ending : {"iB", "B"}) {
    if (number.ends_with(ending)) {
      number.remove_suffix(ending.size());
      break;
    }
  }
  const size_t unit = number.empty() ? kUnits.npos : kUnits.find(number.back());
  if (unit != kUnits.npos) {
    number.remove_suffix(1);
    const std::optional<double> value = positive_number(number);
    const double bytes = value.value_or(0) * std::exp2(10.0 * static_cast<double>(unit + 1));
    if (bytes >= 1 && bytes <= kMost) return static_cast<int64_t>(bytes);
  }
  fail(Exit::Usage, flag, " ", quoted(text), ": expected a size such as 12G or 500M");
}

MemoryCap parse_memory_cap(const std::string& text) {
  MemoryCap cap;
  if (text.ends_with("%")) {
    const auto percent = positive_number(std::string_view(text).substr(0, text.size() - 1));
    if (!percent || *percent > 100) {
      fail(Exit::Usage, "--vram ", quoted(text), ": expected more than 0% and at most 100%");
    }
    cap.share = *percent / 100;
  } else {
    cap.bytes = parse_size(text, "--vram");
  }
  return cap;
}

std::optional<int> parse_gpu_layers(const std::string& text) {
  if (text == "auto") return {};
  if (text == "all") return kAllLayers;
  int layers = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, layers);
  if (error == std::errc() && rest == end && layers >= 0) return std::min(layers, kAllLayers - 1);
  fail(Exit::Usage, "--gpu-layers ", quoted(text), ": expected a number of layers, auto or all");
}

HostMemoryKind host_memory_named(const std::string& name) {
  if (name == "pinned") return HostMemoryKind::Pinned;
  if (name == "pageable") return HostMemoryKind::Pageable;
  return name == "mapped" ? HostMemoryKind::Mapped : HostMemoryKind::Auto;
}

int parse_arch_limit(const std::string& text) {
  const std::optional<int> limit = architecture(text);
  if (limit == 75 || limit == 80 || limit == 90) return *limit;
  fail(Exit::Usage, "--arch-limit ", quoted(text), ": expected sm_75, sm_80 or sm_90");
}

cuda::DeviceInfo parse_gpu(const std::string& text) {
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first != text.npos && second != text.npos) {
    const std::optional<int> capability = architecture(text.substr(0, first));
    const std::optional<int> multiprocessors =
        positive_int(text.substr(first + 1, second - first - 1));
    constexpr int kOldest = 75, kMostMultiprocessors = 10000;
    if (capability >= kOldest && multiprocessors && *multiprocessors <= kMostMultiprocessors) {
      cuda::DeviceInfo gpu;
      gpu.name = "a GPU as described";
      gpu.compute_capability = *capability;
      gpu.multiprocessors = *multiprocessors;
      const size_t third = std::min(text.find(':', second + 1), text.size());
      gpu.total_bytes = gpu.free_bytes =
          parse_size(text.substr(second + 1, third - second - 1), "--gpu: the memory");
      if (third < text.size()) {
        gpu.host_bytes = parse_size(text.substr(third + 1), "--gpu: the machine's memory");
      }
      return gpu;
    }
  }
  fail(Exit::Usage, "--gpu ", quoted(text),
       ": expected ARCHITECTURE:MULTIPROCESSORS:MEMORY with sm_75 or newer, such as "
       "sm_90:132:141G, and :MEMORY of the machine if that matters");
}

void add_memory_flags(Command& command, RunOptions& run) {
  command
      .option(
          "--vram", [&run](const std::string& text) { run.memory = parse_memory_cap(text); },
          "Use at most SIZE of the device's memory: 12G, 500M, 80%")
      .type_name("SIZE")
      .group(kWeightPlaces);
  const Option layers =
      command
          .option(
              "--gpu-layers",
              [&run](const std::string& text) { run.gpu_layers = parse_gpu_layers(text); },
              "Keep N layers' share on the GPU; auto: what fits; all: or fail [auto]")
          .type_name("N")
          .group(kWeightPlaces);
  command.suggest(layers, {"auto", "all"});
  add_rule_flags(command, run);
  command
      .option(
          "--host-memory",
          [&run](const std::string& text) { run.host_memory = host_memory_named(text); },
          "Keep them pinned, pageable (slower) or mapped (read in place) [auto]")
      .one_of({"auto", "pinned", "pageable", "mapped"})
      .type_name("KIND")
      .group(kWeightPlaces);
  command
      .flag("--gpu-alone", run.gpu_alone,
            "Let the CPU compute nothing: the GPU computes with all weights")
      .group(kWeightPlaces);
  const Option copy = command.option(
      "--prefill-copy",
      [&run](const std::string& text) {
        run.prefill_copy = text == "on"    ? PrefillCopy::On
                           : text == "off" ? PrefillCopy::Off
                                           : PrefillCopy::Auto;
      },
      "Keep 16-bit copies of weights on the GPU: on, off, auto [auto]");
  command.suggest(copy.check([](const std::string& text) {
                        return text == "auto" || text == "on" || text == "off"
                                   ? ""
                                   : "expected auto, on or off";
                      })
                      .type_name("WHEN")
                      .group(kChangesSpeed),
                  {"auto", "on", "off"});
  command
      .option(
          "--arch-limit",
          [&run](const std::string& text) { run.arch_limit = parse_arch_limit(text); },
          "Use the GPU kernels of at most sm_75, sm_80 or sm_90")
      .type_name("ARCH")
      .group(kChangesSpeed);
}

}  // namespace skald
