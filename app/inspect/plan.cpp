// skald plan: says how much memory a model needs on a device and whether it fits, without loading
// it. With --kernels, lists the kernels that a GPU would use.
#include <algorithm>

#include "app/files/json.h"
#include "app/model/device.h"
#include "app/model/memory_flags.h"
#include "app/model/open.h"
#include "app/model/plan_report.h"
#include "app/model/ranks.h"
#include "app/model/smaller_type.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/cpu/executor.h"
#include "models/convert/quantized.h"
#include "models/random/random.h"

namespace skald {
namespace {

struct PlanFlags {
  ModelFlags model;
  std::string path, shape, gpu;
  bool json = false, kernels = false;
};

constexpr int kKernelRows[] = {1, 8, 32, 512, 2048};
constexpr int kSequences[] = {1, 4, 16, 64, 256};

struct Planned {
  Model model;
  std::filesystem::path path;  // empty: random weights of a shape
};

Planned open_or_describe(PlanFlags& flags, std::string& name) {
  ModelFlags& given = flags.model;
  name_model(given.model, flags.path);
  if (flags.shape.empty()) {
    given.headless = true;
    const OpenedModel opened = open_model(given);
    name = printable(std::filesystem::absolute(opened.path).lexically_normal().string());
    if (!given.type.empty()) name += " as " + given.type;
    return {opened.model, opened.path};
  }
  if (given.type.empty()) {
    fail(Exit::Usage, "--shape needs --type, as in --shape llama-3.2-1b --type bf16");
  }
  if (!given.model.empty()) fail(Exit::Usage, "give either a model or --shape, not both");
  refuse_adapters(given.lora);
  name = flags.shape + " " + given.type;
  Model model = shape_model(flags.shape, given.type);
  model.shard = {0, given.device.ranks};
  return {std::move(model), {}};
}

// The device that the plan is for: the CPU, a GPU of this machine, or a GPU described by --gpu.
struct Target {
  bool cuda = false;
  cuda::DeviceInfo gpu;
  std::string text;

  MemoryPlan plan(const Model& model, const RunOptions& options) const {
    return cuda ? cuda::plan_memory(model, options, gpu) : cpu::plan_memory(model, options);
  }
};

Target choose_target(const PlanFlags& flags, const Model& model) {
  Target target;
  if (!flags.gpu.empty()) {
    target.gpu = parse_gpu(flags.gpu);
    target.cuda = true;
  } else {
    const Device device = choose_device(parse_device(flags.model.device), model, flags.model.run);
    target.cuda = device.cuda;
    if (device.cuda) target.gpu = describe_gpu(device);
  }
  if (!target.cuda) {
    const int threads = flags.model.run.threads;
    target.text =
        concat("cpu, ", counted(threads > 0 ? threads : cpu::available_threads(), "thread"));
    return target;
  }
  if (flags.model.run.exact) {
    fail(Exit::Usage,
         "--exact runs on the CPU only; leave out --exact, or --device cuda and --gpu");
  }
  target.text = concat(flags.gpu.empty() ? concat("cuda:", target.gpu.index, ", ") : "",
                       printable(target.gpu.name), ", sm_", target.gpu.compute_capability, ", ",
                       target.gpu.multiprocessors, " multiprocessors");
  return target;
}

int64_t weight_bytes(const MemoryPlan& plan) {
  const auto found = std::find_if(plan.parts.begin(), plan.parts.end(),
                                  [](const MemoryPart& part) { return part.name == "weights"; });
  return found == plan.parts.end() ? 0 : found->bytes;
}

// The same model in another type. Throws Error(Exit::Usage) if it is quantized already.
Model in_type(const PlanFlags& flags, const Planned& planned, std::string_view type) {
  Model model = planned.path.empty()
                    ? shape_model(flags.shape, type)
                    : quantized_model(open_model(planned.path).model, find_quant_mix(type));
  model.shard = planned.model.shard;
  model.adapters = planned.model.adapters;
  return model;
}

// The types that make the model fit, the largest weights first: in memory, or, if none does so and
// the model itself does not `fit` at all, with weights on the host. Empty if none does, or if the
// model's weights are quantized already.
std::vector<FittingType> fitting_types(const PlanFlags& flags, const Planned& planned,
                                       const Target& target, const RunOptions& options, bool fits) {
  std::vector<FittingType> in_memory, on_host;
  for (const std::string_view type : planned.path.empty() ? random_types() : quant_mix_names()) {
    try {
      const MemoryPlan plan = target.plan(in_type(flags, planned, type), options);
      if (!plan.fits()) continue;
      (fits_in_memory(plan) ? in_memory : on_host)
          .push_back({std::string(type), weight_bytes(plan), plan.needed(), plan.most_context,
                      plan.host()});
    } catch (const Error& error) {
      if (error.code() != Exit::Usage) throw;
    }
  }
  std::vector<FittingType>& all = in_memory.empty() && !fits ? on_host : in_memory;
  std::stable_sort(all.begin(), all.end(), [](const FittingType& a, const FittingType& b) {
    return a.weights + a.host > b.weights + b.host;
  });
  return std::move(all);
}

int plan(PlanFlags& flags) {
  RunOptions options = flags.model.run;
  PlanReport report;
  const bool choose = asked_ranks(flags.model.device) == 0;  // --tp auto
  if (choose) flags.model.device.ranks = 1;
  Planned planned = open_or_describe(flags, report.model);
  Model& model = planned.model;
  check_context(flags.model, model.config);
  const Target target = choose_target(flags, model);
  if (options.rows == 0) {
    options.rows = default_rows(model, options, target.cuda ? &target.gpu : nullptr);
  }
  const int gpus = !target.cuda         ? 0
                   : !flags.gpu.empty() ? cuda::kMostGroupGpus
                                        : gpus_from({.cuda = true, .index = target.gpu.index});
  const PlanModel each_rank = [&](const Model& each) { return target.plan(each, options); };
  if (choose) model.shard.of = auto_ranks(model, each_rank, gpus);
  check_divisible(model);
  report.device = target.text;
  if (model.shard.of > 1) report.device += concat("; one of ", model.shard.of);
  report.rows = options.rows;
  report.shows_cache = options.cache_types.any();
  for (const Tensor& tensor : model.weights->tensors()) {
    report.parameters += tensor.view.rows * tensor.view.cols;
  }
  report.memory = target.plan(model, options);
  report.cpu_helps = !options.gpu_alone && !options.reproducible &&
                     options.host_memory != HostMemoryKind::Pageable;
  if (!fits_in_memory(report.memory)) {
    report.types = fitting_types(flags, planned, target, options, report.memory.fits());
    report.fitting_ranks = fitting_ranks(model, each_rank, gpus);
  }
  if (flags.kernels) {
    if (!target.cuda) fail(Exit::Usage, "--kernels needs a GPU; add --device cuda or --gpu");
    report.kernel_rows.assign(std::begin(kKernelRows), std::end(kKernelRows));
    report.kernels = cuda::list_kernels(model, options, target.gpu, kKernelRows);
    report.edges = cuda::list_edges(model, options, target.gpu, kKernelRows);
  }
  options.context = 0;
  // All rows of the table plan in one way.
  const bool all_fit = report.memory.host() == report.memory.host_by_rule;
  if (target.cuda && all_fit) options.gpu_layers = kAllLayers;
  for (int sequences : kSequences) {
    options.sequences = sequences;
    const MemoryPlan some = target.plan(model, options);
    report.by_sequences.push_back({sequences, some.most_context, some.most_tokens(sequences)});
  }
  StandardOutput().write(flags.json ? dump(to_json(report), 2) + "\n" : to_text(report));
  if (report.memory.fits()) return 0;
  if (!report.memory.fits_host()) {
    options = flags.model.run;
    options.rows = report.rows;
    check_fits(
        model, [&](const Model& each) { return target.plan(each, options); }, "the GPU");
  }
  const bool never = report.memory.most_context == 0;
  fail(Exit::Memory, target.cuda ? "the GPU" : "this machine", " does not hold this model with ",
       never ? "any context" : concat("a context of ", report.memory.context));
}

}  // namespace

void add_plan(Command& program) {
  Command& command = program.add_command(
      "plan",
      "Says how much memory a model needs and whether it fits. Loads nothing. Exit code 4: it "
      "does\n"
      "not fit. Works for a GPU that this machine does not have: --gpu describes it.",
      {"skald plan model.gguf -c 8192 --sequences 4", "skald plan folder/ --device cuda --kernels",
       "skald plan --shape llama-3.1-70b --type bf16 --gpu sm_90:132:141G --json | jq .fits"});
  auto flags = std::make_shared<PlanFlags>();
  command.word("path", "[MODEL]", flags->path).check(not_empty());
  add_model_flag(command, flags->model);
  add_shape_flags(command, flags->shape, flags->model);
  command.option("--sequences", flags->model.run.sequences, "Plan for N sequences at a time")
      .type_name("N")
      .check(in_range(1, kMostSequences))
      .show_default()
      .group(kChangesSpeed);
  add_run_flags(command, flags->model);
  add_device_flag(command, flags->model);
  command
      .option("--gpu", flags->gpu,
              "Plan for this GPU: architecture, multiprocessors, memory and, if it matters, the "
              "machine's "
              "memory, as in sm_90:132:24G:64G")
      .type_name("SPEC")
      .check(not_empty())
      .group(kChangesSpeed);
  command.flag("--kernels", flags->kernels, "List the GPU kernel of each op").group("Output");
  command.flag("--json", flags->json, "Print one JSON object").group("Output");
  command.action([=] { return plan(*flags); });
}

}  // namespace skald
