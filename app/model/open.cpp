#include "app/model/open.h"

#include <algorithm>
#include <cstdio>

#include "app/hub/reference.h"
#include "app/model/cache_types.h"
#include "app/model/memory_flags.h"
#include "app/program/command.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/convert/quantized.h"
#include "models/random/random.h"

namespace skald {

namespace fs = std::filesystem;

namespace {

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::string_view name : names) text += concat(text.empty() ? "" : " ", name);
  return text;
}

std::vector<std::string> strings(const std::vector<std::string_view>& names) {
  return {names.begin(), names.end()};
}

OpenedModel open_as_it_is(const ModelFlags& flags) {
  if (!flags.model.empty()) return open_model(find_model(flags));
  const fs::path bundled = bundled_model();
  std::error_code error;
  if (!fs::exists(bundled, error)) {
    fail(
        Exit::Model, printable(bundled.string()),
        ": the bundled model is missing; copy the folder share with the program, or choose a model "
        "with -m");
  }
  return open_model(bundled);
}

}  // namespace

void add_model_flag(Command& command, ModelName& name, const std::string& group) {
  const Option model =
      command
          .option("-m,--model", name.model,
                  "Use this GGUF file, Hugging Face folder or model name [bundled model]")
          .type_name("PATH")
          .check(not_empty())
          .group(group);
  const auto take = [&name](const std::string& value) {
    name.model = value;
    name.pull = true;
  };
  const std::vector<std::string_view> names = short_names();
  command.suggest(command
                      .option("--hf-repo", take,
                              "Use, or pull, a model of Hugging Face's hub: OWNER/NAME or llama3.2")
                      .type_name("NAME[:TYPE]")
                      .check(not_empty())
                      .excludes(model)
                      .group(group),
                  {names.begin(), names.end()});
  command
      .flag("--offline", name.offline,
            "Open no connection, also with -hf; as HF_HUB_OFFLINE=1 does")
      .group(group);
}

void name_model(std::string& model, const std::string& word) {
  if (word.empty()) return;
  if (!model.empty()) {
    fail(Exit::Usage, "the model is given twice: '", printable(word), "' and -m ", printable(model),
         "; give it once");
  }
  model = word;
}

void add_run_flags(Command& command, ModelFlags& flags) {
  RunOptions& run = flags.run;
  command.flag("--exact", run.exact, "Compute in float32, with a float32 KV cache; CPU only")
      .group(kChangesOutput);
  add_cache_type_flags(command, run.cache_types);
  if (!command.find_flag("--type")) {
    command.suggest(
        command
            .option("--type", flags.type,
                    "Quantize 16-bit weights while loading: " + joined(quant_mix_names()))
            .type_name("TYPE")
            .check(not_empty())
            .group(kChangesOutput),
        strings(quant_mix_names()));
  }
  add_lora_flags(command, flags.lora);
  command
      .option("-c,--ctx-size", run.context,
              "Context in tokens; 0: the model's own, or what fits. With longrope or dynamic "
              "rope, 0 is the original one, and more changes the output")
      .type_name("N")
      .check(in_range(0, int64_t{1} << 31))
      .show_default()
      .group(kChangesSpeed);
  command.option("-t,--threads", run.threads, "CPU threads; 0: all available")
      .type_name("N")
      .check(in_range(0, kMostThreads))
      .show_default()
      .group(kChangesSpeed);
  command.option("--rows", run.rows, "Compute at most N prompt tokens in a step; 0: by the device")
      .type_name("N")
      .check(in_range(0, kMostRows))
      .show_default()
      .group(kChangesSpeed);
  add_memory_flags(command, run);
}

void add_shape_flags(Command& command, std::string& shape, ModelFlags& flags) {
  const std::string shape_help = "Use random weights in the shape of: " + joined(random_shapes());
  command.suggest(command.option("--shape", shape, shape_help).type_name("NAME").group("Model"),
                  strings(random_shapes()));
  const std::string type_help = "With --shape: the weights' format, one of " +
                                joined(random_types()) +
                                ". Without --shape: quantize 16-bit weights while loading";
  std::vector<std::string> types = strings(random_types());
  for (const std::string_view mix : quant_mix_names()) {
    if (std::find(types.begin(), types.end(), mix) == types.end()) types.emplace_back(mix);
  }
  command.suggest(command.option("--type", flags.type, type_help).type_name("TYPE").group("Model"),
                  std::move(types));
}

void add_device_flag(Command& command, ModelFlags& flags) {
  DeviceFlags& device = flags.device;
  const char* help = "Run on auto (a GPU if one can be used), cpu, cuda, cuda:N";
  const Option option = command.option("--device", device.name, help);
  command.suggest(option.type_name("NAME").show_default().group(kChangesSpeed),
                  {"auto", "cpu", "cuda", "cuda:0", "cuda:1"});
  command
      .option(
          "--tp",
          [&device](const std::string& n) { device.ranks = n == "auto" ? 0 : std::stoi(n); },
          "Share the weights among N GPUs; auto: as few as hold them [1]")
      .type_name("N")
      .check([](std::string& n) { return n == "auto" ? "" : in_range(1, kMostRanks)(n); })
      .group(kChangesSpeed);
  command.flag("--require-gpu", device.require_gpu, "Fail if no GPU can be used")
      .group(kChangesSpeed);
}

void add_rank_flag(Command& command, DeviceFlags& flags) {
  command
      .option("--rank", flags.rank,
              "Be rank I of N processes: I/N@HOST:PORT, or auto (srun, mpirun)")
      .type_name("RANK")
      .check(not_empty())
      .group(kChangesSpeed);
}

void add_devices_flags(Command& command, DeviceFlags& flags, const std::string& help) {
  command.option("--devices", flags.list, help)
      .type_name("N,N")
      .check(not_empty())
      .group(kChangesSpeed);
  command.suggest(
      command
          .option("--split", flags.split,
                  "tensor: --devices share one model; replica: each has a copy [replica]")
          .type_name("HOW")
          .check([](const std::string& how) {
            const bool known = how == "tensor" || how == "replica";
            return known ? "" : concat("'", how, "': expected tensor or replica");
          })
          .group(kChangesSpeed),
      {"tensor", "replica"});
}

fs::path bundled_model() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path demo = fs::path("share") / "skald" / "demo";
  // Installed: PREFIX/bin/skald and PREFIX/share. In a build folder share lies beside the program.
  const fs::path installed = folder.parent_path() / demo, beside = folder / demo;
  return fs::exists(beside, error) ? beside : installed;
}

void check_head(const OpenedModel& opened) {
  if (!opened.headless) return;
  fail(Exit::Model, printable(opened.path.string()),
       ": has no head (lm_head.weight), so it gives no text; skald embed makes vectors with it");
}

OpenedModel open_model(const ModelFlags& flags) {
  OpenedModel opened = open_as_it_is(flags);
  if (!flags.headless) check_head(opened);
  if (opened.has_vision || opened.has_audio) {
    const char* parts = !opened.has_audio    ? "vision part is"
                        : !opened.has_vision ? "audio part is"
                                             : "vision and audio parts are";
    std::fprintf(stderr, "skald: the model's %s not supported; its text part is used\n", parts);
  }
  // Plans are those of the first rank.
  const int ranks = asked_ranks(flags.device);
  opened.model.shard = {0, std::max(ranks, 1)};
  add_adapters(flags.lora, opened);
  if (!flags.type.empty()) {
    opened.model = quantized_model(opened.model, find_quant_mix(flags.type));
  }
  if (ranks == 0 && flags.lora.uses.empty()) {
    opened.model.shard.of = choose_ranks(flags.device, opened.model, flags.run);
  }
  return opened;
}

std::string model_name(const OpenedModel& opened) {
  const std::filesystem::path path = std::filesystem::absolute(opened.path).lexically_normal();
  return (path.has_filename() ? path.filename() : path.parent_path().filename()).string();
}

void check_context(const ModelFlags& flags, const ModelConfig& config) {
  if (flags.run.context > config.context) {
    fail(Exit::Usage, "-c ", flags.run.context, ": the model was trained for ", config.context,
         " tokens; give at most that");
  }
}

}  // namespace skald
