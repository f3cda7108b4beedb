// skald plan, and the flags that limit memory.
#include <nlohmann/json.hpp>

#include <cstdint>
#include <sstream>

#include "app/model/memory_flags.h"
#include "tests/hostile.h"
#include "tests/program_output.h"
#include "tests/small_models.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

Json plan_json(std::vector<std::string> arguments, int code = 0) {
  arguments.insert(arguments.begin(), "plan");
  arguments.push_back("--json");
  const Outcome outcome = skald(arguments);
  CAPTURE(outcome.err);
  CHECK(outcome.code == code);
  return Json::parse(outcome.out);
}

int64_t part(const Json& plan, const std::string& name) {
  for (const Json& each : plan["parts"]) {
    if (each["name"] == name) return each["bytes"];
  }
  return -1;
}

}  // namespace

TEST_CASE("a size is a number with a unit and nothing else") {
  const struct {
    const char* text;
    int64_t bytes;
  } good[] = {{"1K", 1024},
              {"500M", int64_t{500} << 20},
              {"12G", int64_t{12} << 30},
              {"1.5G", int64_t{3} << 29},
              {"0.5K", 512},
              {"2T", int64_t{2} << 40},
              {"80GB", int64_t{80} << 30},
              {"80GiB", int64_t{80} << 30}};
  for (const auto& [text, bytes] : good) {
    CAPTURE(text);
    CHECK(parse_size(text, "--x") == bytes);
  }
  for (const char* bad :
       {"",    "G",   "12",  "-1G", "0G", "1e3G", "0x10G", "nanG",   "infG",        " 1G",
        "1G ", "1 G", "12g", "1GG", "1P", "1B",   "iB",    "1e400G", "9999999999T", "1,5G"}) {
    CAPTURE(bad);
    const std::string message = error_text([&] { parse_size(bad, "--x"); }, Exit::Usage);
    CHECK(has(message, "--x '"));
    CHECK(has(message, "12G"));
  }
}

TEST_CASE("a limit is a size or a percentage") {
  CHECK(parse_memory_cap("12G").bytes == int64_t{12} << 30);
  CHECK(parse_memory_cap("12G").share == 0);
  CHECK(parse_memory_cap("80%").share == 0.8);
  CHECK(parse_memory_cap("80%").bytes == 0);
  CHECK(parse_memory_cap("100%").share == 1);
  CHECK(parse_memory_cap("0.5%").share == 0.005);
  for (const char* bad : {"%", "0%", "-5%", "101%", "1e1%", "80 %", "nan%", "80%%", "12"}) {
    CAPTURE(bad);
    CHECK(has(error_text([&] { parse_memory_cap(bad); }, Exit::Usage), "--vram '"));
  }
}

TEST_CASE("layers on the GPU are a number, auto or all") {
  CHECK(!parse_gpu_layers("auto"));
  CHECK(parse_gpu_layers("0") == 0);
  CHECK(parse_gpu_layers("32") == 32);
  CHECK(parse_gpu_layers("all") == kAllLayers);
  CHECK(*parse_gpu_layers("2147483647") < kAllLayers);
  for (const char* bad : {"", "-1", "3.5", "ALL", "1x", " 1", "2147483648"}) {
    CAPTURE(bad);
    CHECK(has(error_text([&] { parse_gpu_layers(bad); }, Exit::Usage),
              "expected a number of layers, auto or all"));
  }
}

TEST_CASE("a wrong --gpu or --arch-limit is refused") {
  CHECK(parse_arch_limit("sm_75") == 75);
  CHECK(parse_arch_limit("sm_90") == 90);
  for (const char* bad : {"", "75", "sm_", "sm_70", "sm_86", "sm_90a", "SM_80", "sm_080 "}) {
    CAPTURE(bad);
    CHECK(has(error_text([&] { parse_arch_limit(bad); }, Exit::Usage), "sm_75, sm_80 or sm_90"));
  }
  const cuda::DeviceInfo gpu = parse_gpu("sm_90:132:141G");
  CHECK(gpu.compute_capability == 90);
  CHECK(gpu.multiprocessors == 132);
  CHECK(gpu.total_bytes == int64_t{141} << 30);
  CHECK(gpu.free_bytes == gpu.total_bytes);
  CHECK(gpu.host_bytes == 0);
  CHECK(parse_gpu("sm_90:132:24G:64G").total_bytes == int64_t{24} << 30);
  CHECK(parse_gpu("sm_90:132:24G:64G").host_bytes == int64_t{64} << 30);
  for (const char* bad :
       {"", ":", "::", "sm_90", "sm_90:132", "sm_90:132:", "sm_90:0:1G", "sm_70:80:16G",
        "90:132:141G", "sm_90:-1:1G", "sm_90:132:141", "sm_90:99999:1G", "sm_90:132:141G:1",
        "sm_90:132:141G:", "sm_90:132:24G:64G:1G"}) {
    CAPTURE(bad);
    CHECK(has(error_text([&] { parse_gpu(bad); }, Exit::Usage), "--gpu"));
  }
}

TEST_CASE("plan shows parts, context and whether the model fits, as text and as JSON") {
  const Outcome outcome = skald({"plan", small_gguf()});
  CHECK(outcome.code == 0);
  CHECK(outcome.err == "");
  for (const char* text : {"kq256.q8_0.gguf, 852.7 K parameters", "device     cpu, ",
                           "512 tokens, the model's own", "weights (from the file)", "total  ",
                           "fits       yes; the largest context that fits is 512"}) {
    CAPTURE(outcome.out, text);
    CHECK(has(outcome.out, text));
  }
  const Json plan = plan_json({small_gguf()});
  CHECK(plan["context"] == 512);
  CHECK(plan["context_by"] == "model");
  CHECK(plan["fits"] == true);
  CHECK(plan["sequences"] == 1);
  CHECK(plan["largest_context_by_sequences"].size() == 5);
  int64_t sum = 0;
  for (const Json& each : plan["parts"]) sum += each["bytes"].get<int64_t>();
  CHECK(plan["needed_bytes"] == sum);
  CHECK(plan["mapped_bytes"] == part(plan, "weights"));
  CHECK(!plan.contains("kernels"));
  // The cache grows in proportion to context and sequences.
  const Json two = plan_json({small_gguf(), "-c", "128", "--sequences", "3"});
  CHECK(two["context_by"] == "asked");
  CHECK(part(two, "cache") * 512 == part(plan, "cache") * 128 * 3);
  const Json exact = plan_json({small_gguf(), "--exact"});
  CHECK(part(exact, "cache") == 2 * part(plan, "cache"));
}

TEST_CASE("plan shows the weights of a model that is larger than the GPU") {
  const std::vector<std::string> shape = {"--shape", "llama-3.1-8b", "--type",
                                          "bf16",    "--gpu",        "sm_90:132:8G"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), shape.begin(), shape.end());
    return more;
  };
  std::vector<std::string> text = with({});
  text.insert(text.begin(), "plan");
  const Outcome outcome = skald(text);
  CHECK(outcome.code == 0);
  for (const char* part :
       {"weights on the host", "(of the machine)", "fits       yes, with weights on the host;\n",
        "4096 of the model's 131072 tokens, which leaves memory for weights",
        "host       a prompt's step copies ", "           a token reads ", "type that fits"}) {
    CAPTURE(outcome.out, part);
    CHECK(has(outcome.out, part));
  }
  const Json plan = plan_json(with({}));
  CHECK(plan["fits"] == true);
  CHECK(plan["context_by"] == "weights");
  CHECK(plan["host_bytes"] == part(plan, "weights on the host"));
  CHECK(plan["needed_bytes"] <= plan["available_bytes"]);
  CHECK(plan["host_bytes_of_a_token"] < plan["host_bytes"]);
  // Seven of 32 layers on the GPU leave more to copy; all of them do not fit.
  const Json seven = plan_json(with({"-ngl", "7"}));
  CHECK(seven["host_bytes_of_a_token"] > plan["host_bytes_of_a_token"]);
  CHECK(plan_json(with({"-ngl", "all"}), 4)["host_bytes"] == 0);
  const Json kernels = plan_json(with({"--kernels"}));
  CHECK(has(kernels["kernels"].dump(), "copy + "));
}

TEST_CASE("plan prints what does not fit, and ends with exit code 4") {
  const Outcome outcome =
      skald({"plan", "--shape", "llama-3.1-8b", "--type", "q8_0", "-c", "131072", "--vram", "1G"});
  CHECK(outcome.code == 4);
  CHECK(has(outcome.out, "fits       no; "));
  CHECK(outcome.err ==
        "skald: error: this machine does not hold this model with a context of 131072\n");
  CHECK(has(outcome.out, "16.00 GiB"));
  const Json plan =
      plan_json({"--shape", "llama-3.1-8b", "--type", "q8_0", "-c", "131072", "--vram", "1G"}, 4);
  CHECK(plan["fits"] == false);
  CHECK(plan["available_bytes"] == int64_t{1} << 30);
}

TEST_CASE("absurd sizes give a plan that does not fit, without overflow") {
  FlatModel model;
  model.context = 1u << 31;
  TempFolder folder;
  const std::string path = folder.write("long.gguf", flat_gguf(model)).string();
  const Json plan = plan_json({path, "-c", "2147483648", "--sequences", "65536"}, 4);
  CHECK(part(plan, "cache") == int64_t{128} << 47);
  CHECK(plan["fits"] == false);
  CHECK(plan["largest_context"] > 0);
  CHECK(plan_json({path, "--sequences", "65536", "--rows", "65536"})["fits"] == true);
}

TEST_CASE("plan --gpu plans for a GPU of another machine") {
  const std::vector<std::string> shape = {"--shape", "llama-3.1-8b", "--type", "bf16"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), shape.begin(), shape.end());
    return more;
  };
  const Json h200 = plan_json(with({"--gpu", "sm_90:132:141G"}));
  CHECK(h200["context"] == 131072);
  CHECK(h200["mapped_bytes"] == 0);
  // Bytes of a token: 2 (keys, values) * 8 heads * 128 * 2 bytes * 32 layers.
  CHECK(part(h200, "cache") == int64_t{131072} * 131072);
  CHECK(part(h200, "weights") / 1e9 == Approx(16.06).epsilon(0.001));
  for (const char* name : {"attention", "step table", "cuBLAS", "CUDA itself", "spare", "logits"}) {
    CAPTURE(name);
    CHECK(part(h200, name) > 0);
  }
  const Json small = plan_json(with({"--gpu", "sm_89:128:24G", "--rows", "512"}));
  CHECK(small["context_by"] == "memory");
  const int64_t most = small["largest_context"];
  CHECK(most % 64 == 0);
  CHECK(small["context"] == most);
  CHECK(small["needed_bytes"] <= small["available_bytes"]);
  const auto asked = [&](int64_t context, int code) {
    return plan_json(with({"--gpu", "sm_89:128:24G", "--rows", "512", "-ngl", "all", "-c",
                           std::to_string(context)}),
                     code);
  };
  CHECK(asked(most, 0)["fits"] == true);
  CHECK(asked(most + 1, 4)["fits"] == false);
  const Json capped = plan_json(with({"--gpu", "sm_90:132:141G", "--vram", "50%"}));
  CHECK(capped["available_bytes"] == h200["available_bytes"].get<int64_t>() / 2);

  const Outcome none = skald({"plan", "--gpu", "sm_75:40:16G", "--shape", "llama-3.1-70b", "--type",
                              "f16", "-ngl", "all"});
  CHECK(none.code == 4);
  CHECK(has(none.out, "fits       no, with any context"));
  CHECK(!has(none.out, "type that fits"));
  CHECK(has(none.out, "           with no other type either\n"));
}

TEST_CASE("plan --tp counts what one of several GPUs holds") {
  // Llama 3.1 70B: matrices of a layer, which ranks divide; and a matrix of the vocabulary.
  constexpr int64_t kLayers = 80, kDim = 8192, kHidden = 28672, kKeys = 1024, kVocab = 128256;
  constexpr int64_t kLayer = 2 * kDim * kDim + 2 * kKeys * kDim + 3 * kHidden * kDim;
  constexpr int64_t kVocabulary = kVocab * kDim;
  // Keys and values of a token's eight heads, in 16 bits.
  constexpr int64_t kToken = 2 * kKeys * 2 * kLayers;
  const auto planned = [](int ranks, const char* shape, const char* type) {
    return plan_json({"--shape", shape, "--type", type, "--gpu", "sm_90:132:80G", "--tp",
                      std::to_string(ranks)});
  };
  for (const int ranks : {2, 3, 4, 8, 16}) {
    CAPTURE(ranks);
    const Json plan = planned(ranks, "llama-3.1-70b", "bf16");
    CHECK(plan["fits"] == true);
    // Each GPU has the embedding, and its part of the head. Of 16 GPUs, two share a head of keys
    // and values. Of three GPUs, the first has the larger part of heads that cannot be divided
    // evenly.
    const int shared = ranks == 16 ? 2 : 1;
    const double keys = 2.0 * kKeys * kDim * (shared - 1) / ranks;
    const double weights =
        2 * (kVocabulary + kLayers * (double{kLayer} / ranks + keys) + double{kVocabulary} / ranks);
    CHECK(part(plan, "weights") / 1e9 == Approx(weights / 1e9).epsilon(ranks == 3 ? 0.05 : 0.002));
    const int64_t heads = ranks == 3 ? 3 : ranks == 16 ? 1 : 8 / ranks;
    const int64_t context = plan["context"];
    CHECK(part(plan, "cache") == context * kToken * heads / 8);
    CHECK(part(plan, "exchange with other GPUs") > 0);
  }
  // 405 billion weights of 8.5 bits are too many for four such GPUs.
  CHECK(planned(8, "llama-3.1-405b", "q8_0")["host_bytes"] == 0);
  CHECK(planned(4, "llama-3.1-405b", "q8_0")["host_bytes"] > 0);
}

TEST_CASE("plan says how many GPUs hold a model together, and --tp auto takes so many") {
  const auto command = [](const char* shape, const char* gpu, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"--shape", shape, "--type", "bf16", "--gpu", gpu};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Json alone = plan_json(command("llama-3.1-70b", "sm_90:132:80G"));
  CHECK(alone["ranks_that_fit"] == 2);
  std::vector<std::string> words = command("llama-3.1-70b", "sm_90:132:80G");
  words.insert(words.begin(), "plan");
  CHECK(has(skald(words).out, "           2 such GPUs hold it: --tp 2\n"));
  words.insert(words.end(), {"--tp", "auto"});
  CHECK(has(skald(words).out, ", 132 multiprocessors; one of 2\n"));
  const auto with_auto = [&](const char* shape, const char* gpu) {
    return plan_json(command(shape, gpu, {"--tp", "auto"}));
  };
  const Json automatic = with_auto("llama-3.1-70b", "sm_90:132:80G");
  CHECK(automatic["parts"] ==
        plan_json(command("llama-3.1-70b", "sm_90:132:80G", {"--tp", "2"}))["parts"]);
  CHECK(!automatic.contains("ranks_that_fit"));
  CHECK(with_auto("llama-3.1-70b", "sm_90:132:24G")["host_bytes"] == 0);  // on 8 GPUs
  CHECK(with_auto("llama-3.2-1b", "sm_90:132:24G")["parts"] ==
        plan_json(command("llama-3.2-1b", "sm_90:132:24G"))["parts"]);
  // Eight GPUs are the most, and do not hold it.
  const Json large = with_auto("llama-3.1-405b", "sm_90:132:80G");
  CHECK(large["host_bytes"] > 0);
  CHECK(!large.contains("ranks_that_fit"));
}

TEST_CASE("where nothing fits in memory, plan names the types that fit with weights on the host") {
  const std::vector<std::string> arguments = {"--shape", "llama-3.1-70b", "--type",
                                              "bf16",    "--gpu",         "sm_90:132:24G:64G"};
  std::vector<std::string> command{"plan"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const Outcome outcome = skald(command);
  CHECK(outcome.code == 4);
  CHECK(has(outcome.out, "fits       no, the host's memory does not hold its part"));
  CHECK(has(outcome.out, "on the host"));
  const Json plan = plan_json(arguments, 4);
  REQUIRE(plan["types_that_fit"].size() > 3);
  CHECK(plan["types_that_fit"][0]["type"] == "q8_0");  // the largest: 64 GB hold the rest
  for (const Json& type : plan["types_that_fit"]) CHECK(type["host_bytes"] > 0);
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
}

TEST_CASE("plan of a model that does not fit names the types that would, in 80 columns") {
  const std::vector<std::string> arguments = {
      "--shape",       "llama-3.1-8b", "--type", "bf16",         "--gpu",
      "sm_89:128:12G", "-c",           "8192",   "--gpu-layers", "all"};
  std::vector<std::string> command{"plan"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const Outcome outcome = skald(command);
  CHECK(outcome.code == 4);
  std::istringstream lines(outcome.out + outcome.err);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
  }
  CHECK(has(outcome.out, "type that fits"));
  CHECK(has(outcome.out, "\nq4_k_m "));
  CHECK(!has(outcome.out, "\nf16 "));
  const Json plan = plan_json(arguments, 4);
  int64_t before = INT64_MAX;
  REQUIRE(plan["types_that_fit"].size() > 3);
  for (const Json& type : plan["types_that_fit"]) {
    CHECK(type["needed_bytes"] <= plan["available_bytes"]);
    CHECK(type["largest_context"] >= 8192);
    CHECK(type["weights_bytes"] <= before);  // the best type stands first
    before = type["weights_bytes"];
  }
  CHECK(!plan_json({"--shape", "llama-3.1-8b", "--type", "q4_k_m", "--gpu", "sm_89:128:12G", "-c",
                    "8192"})
             .contains("types_that_fit"));
}

TEST_CASE(
    "on a GPU with room for it, the plan has a 16-bit copy of quantized weights for prefill") {
  const auto plan = [](const std::string& memory, const std::string& copy) {
    return plan_json({"--shape", "llama-3.1-8b", "--type", "q4_k_m", "--gpu", "sm_90:132:" + memory,
                      "-c", "8192", "--rows", "2048", "--prefill-copy", copy});
  };
  // The copy has all matrices, the embedding excepted. Without it, one matrix at a time is
  // expanded.
  const int64_t all = int64_t{2} * (8030261248 - int64_t{128256} * 4096 - 65 * 4096);
  const int64_t one = int64_t{2} * 28672 * 4096;
  for (const auto& [memory, copy, copied] : {std::tuple{"141G", "auto", true},
                                             {"141G", "off", false},
                                             {"24G", "auto", false},
                                             {"24G", "on", true}}) {
    CAPTURE(memory, copy);
    const Json json = plan(memory, copy);
    CHECK(part(json, "weights") / 1e9 == Approx(4.9).epsilon(0.03));
    CHECK(part(json, "16-bit copy") == (copied ? all : -1));
    if (!copied) CHECK(part(json, "16-bit rows") >= one);
  }
  const Json plain = plan_json({"--shape", "llama-3.2-1b", "--type", "bf16", "--gpu",
                                "sm_90:132:141G", "--prefill-copy", "on"});
  CHECK(part(plain, "16-bit copy") == -1);
  const Outcome bad = skald({"plan", "--shape", "llama-3.2-1b", "--prefill-copy", "maybe"});
  CHECK(bad.code == 2);
  CHECK(has(bad.err, "--prefill-copy"));
}

TEST_CASE("plan --kernels lists kernels by rows, and what launches leave for one another") {
  const std::vector<std::string> arguments = {"plan",           "--shape",   "llama-3.2-1b",
                                              "--type",         "bf16",      "--gpu",
                                              "sm_90:132:141G", "--kernels", "--json"};
  const Outcome outcome = skald(arguments);
  REQUIRE(outcome.code == 0);
  const Json plan = Json::parse(outcome.out);
  int attention = 0, products = 0;
  for (const Json& use : plan["kernels"]) {
    CHECK(use["by_rows"].size() == 5);
    if (use["ops"] == "2 rope + attention (decode)") attention += use["times"].get<int>();
    if (use["ops"] == "rms_norm + 2 linear + gated_act") {
      products += use["times"].get<int>();
      CHECK(use["shape"] == "[16384, 2048]");
      CHECK(use["weights"] == "ffn_gate ffn_up");
    }
  }
  CHECK(attention == 16);
  CHECK(products == 16);
  CHECK(!plan.contains("edges"));  // bf16: no launch leaves anything
  const Outcome quantized = skald({"plan", "--shape", "llama-3.2-1b", "--type", "q4_k_m", "--gpu",
                                   "sm_90:132:141G", "--kernels"});
  CHECK(has(quantized.out, "edges of a decode step"));
  CHECK(has(quantized.out, "signal"));
  CHECK(has(quantized.out, "carried rows"));
  const auto text = [](const std::string& limit) {
    return skald({"plan", "--shape", "llama-3.2-1b", "--type", "bf16", "--gpu", "sm_90:132:141G",
                  "--kernels", "--arch-limit", limit})
        .out;
  };
  CHECK(has(text("sm_90"), "attention_decode"));
  CHECK(has(text("sm_80"), "attention_decode"));
  CHECK(!has(text("sm_80"), "sm90"));
  CHECK(has(text("sm_75"), "attention_plain"));
  CHECK(!has(text("sm_75"), "attention_decode"));
}

TEST_CASE("plan counts a shape's state spaces once, and the cache of its attention by context") {
  const auto plan = [](const char* context, const char* sequences) {
    return plan_json({"--shape", "granite-4.0-h-tiny", "--type", "q4_0", "--device", "cpu",
                      "--vram", "64G", "-c", context, "--sequences", sequences});
  };
  const Json one = plan("4096", "1"), longer = plan("8192", "1"), more = plan("4096", "3");
  // 36 layers of 48 heads of 64 x 128 numbers, and 3 earlier tokens of the convolution, in float32.
  const int64_t states = 36 * 4 * (48 * 64 * 128 + 3 * (48 * 64 + 2 * 128));
  CHECK(part(one, "recurrent states") == states);
  CHECK(part(longer, "recurrent states") == states);
  CHECK(part(more, "recurrent states") == 3 * states);
  // 4 layers of 4 heads of 128 keys and values in 16 bits.
  CHECK(part(one, "cache") == 4 * 2 * 4 * 128 * 2 * 4096);
  CHECK(part(longer, "cache") == 2 * part(one, "cache"));
}

TEST_CASE("contradictory flags of plan are refused") {
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } cases[] = {
      {{"--gpu", "h200"}, "sm_90:132:141G"},
      {{"--vram", "12"}, "--vram '12'"},
      {{"--arch-limit", "sm_86"}, "sm_75, sm_80 or sm_90"},
      {{"--kernels"}, "--device cuda or --gpu"},
      {{"--shape", "llama-3.2-1b"}, "--shape needs --type"},
      {{"-m", small_gguf(), "--shape", "llama-3.2-1b", "--type", "f16"}, "not both"},
      {{"-m", small_gguf(), small_gguf()}, "given twice"},
      {{small_gguf(), "-c", "513"}, "trained for 512"},
      {{small_gguf(), "--sequences", "0"}, "--sequences"},
      {{"--gpu", "sm_90:132:141G", "--exact"}, "--exact runs on the CPU only"},
  };
  for (const auto& [more, says] : cases) {
    std::vector<std::string> arguments{"plan"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    if (more[0] == "--kernels") arguments.insert(arguments.end(), {"--device", "cpu"});
    check_refused(skald(arguments), 2, says);
  }
}

TEST_CASE("run and bench stay below a limit, and run says when the context is shorter") {
  FlatModel model;
  model.context = 1 << 20;
  TempFolder folder;
  const std::string path = folder.write("long.gguf", flat_gguf(model)).string();
  const Outcome own =
      skald({"run", "-m", path, "--device", "cpu", "-s", "1", "-n", "1", "--vram", "1G", "hi"});
  CHECK(own.code == 0);
  CHECK(own.err == "");
  const Outcome less =
      skald({"run", "-m", path, "--device", "cpu", "-s", "1", "-n", "1", "--vram", "60M", "hi"});
  CHECK(less.code == 0);
  CHECK(less.out == own.out);
  CHECK(has(less.err, "which is what fits in memory; -c sets another\n"));
  const Outcome asked = skald({"run", "-m", path, "--device", "cpu", "-s", "1", "-n", "1", "--vram",
                               "60M", "-c", "1048576", "hi"});
  CHECK(asked.code == 4);
  CHECK(asked.out == "");
  CHECK(has(asked.err, "the largest context that fits is "));
  const Outcome bench =
      skald({"bench", "-m", path, "--device", "cpu", "-p", "1000000", "-n", "0", "--vram", "60M"});
  CHECK(bench.code == 4);
}

TEST_CASE("a limit on the address space counts as the machine's memory") {
  if (sanitized()) return;
  Invocation invocation{{"plan", "--shape", "llama-3.1-8b", "--type", "q8_0", "--json"}, ""};
  invocation.address_space = uint64_t{1} << 30;
  const Outcome outcome = run_program(invocation);
  CHECK(Json::parse(outcome.out)["total_bytes"] == int64_t{1} << 30);
}

}  // namespace skald::test
