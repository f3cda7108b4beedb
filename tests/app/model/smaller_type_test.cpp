// What is said about a model that fits nowhere: the largest --type that would fit.
#include "app/model/smaller_type.h"

#include "cuda/cuda.h"
#include "models/convert/quantized.h"
#include "models/random/random.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"
#include "tests/program_output.h"

namespace skald::test {
namespace {

// A machine whose GPU has 24 GiB, and whose memory holds so many for weights.
PlanModel machine_with(int64_t host_gibibytes) {
  cuda::DeviceInfo gpu;
  gpu.compute_capability = 90;
  gpu.multiprocessors = 132;
  gpu.total_bytes = gpu.free_bytes = int64_t{24} << 30;
  gpu.host_bytes = host_gibibytes << 30;
  return [gpu](const Model& model) {
    RunOptions options;
    options.context = 4096;
    return cuda::plan_memory(model, options, gpu);
  };
}

}  // namespace

TEST_CASE("the type that is named fits, and all larger types do not") {
  const Model model = shape_model("llama-3.1-70b", "bf16");
  for (const int64_t host : {20, 40, 60}) {
    const PlanModel plan = machine_with(host);
    CHECK(!plan(model).fits());
    const std::string advice = smaller_advice(model, plan);
    std::string_view named;
    int64_t bytes = 0;
    const auto size = [&](std::string_view type) {
      const MemoryPlan memory = plan(quantized_model(model, find_quant_mix(type)));
      return std::pair(memory.fits(), memory.needed() + memory.host());
    };
    for (const std::string_view type : quant_mix_names()) {
      if (advice == concat("use --type ", type, ", the largest that fits")) named = type;
    }
    CAPTURE(host, advice);
    REQUIRE(!named.empty());
    CHECK(size(named).first);
    bytes = size(named).second;
    for (const std::string_view type : quant_mix_names()) {
      CAPTURE(type);
      if (size(type).second > bytes) CHECK(!size(type).first);
    }
    CHECK(has(error_text([&] { check_fits(model, plan, "cuda:0"); }, Exit::Memory),
              concat("may be used; ", advice)));
  }
  CHECK(smaller_advice(model, machine_with(1)) == "use a smaller model: no --type is small enough");
  CHECK(has(smaller_advice(shape_model("llama-3.1-70b", "q8_0"), machine_with(20)),
            "quantized already: use a smaller file"));
  check_fits(model, machine_with(256), "cuda:0");  // it fits
}

TEST_CASE("a model that --type describes is described anew by another type") {
  const Model model = random_llama({.type = DType::BF16});
  const auto types = [](const Model& each) {
    std::string text;
    for (const Tensor& tensor : each.weights->tensors()) {
      text += concat(tensor.name, " ", name(tensor.view.type), " ", name(tensor.source.type), "\n");
    }
    return text;
  };
  const Model direct = quantized_model(model, find_quant_mix("q4_0"));
  const Model again =
      quantized_model(quantized_model(model, find_quant_mix("q8_0")), find_quant_mix("q4_0"));
  CHECK(types(again) == types(direct));
  CHECK(types(again) != types(model));
}

TEST_CASE("plan names the type that would fit") {
  const auto plan = [](const std::string& type) {
    return skald({"plan", "--shape", "llama-3.1-70b", "--type", type, "--gpu", "sm_90:132:24G:40G",
                  "-c", "4096"});
  };
  const Outcome outcome = plan("bf16");
  CHECK(outcome.code == 4);
  CAPTURE(outcome.err);
  CHECK(has(outcome.err, "the GPU has no room for "));
  CHECK(has(outcome.err, "40.00 GiB may be used; use --type q"));
  CHECK(has(outcome.err, ", the largest that fits\n"));
  CHECK(has(plan("q8_0").err, "quantized already: use a smaller file of this model"));
}

}  // namespace skald::test
