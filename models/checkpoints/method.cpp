#include "models/checkpoints/method.h"

#include <algorithm>
#include <span>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKey = "quantization_config";
constexpr std::string_view kOldKey = "compression_config";  // of the first compressed-tensors
constexpr int64_t kMostGroup = 1 << 20;                     // columns, also of a block

[[noreturn]] void refuse(const HfConfig& config, std::string_view key, std::string_view value,
                         std::string_view expected) {
  fail(Exit::Model, config.where(), ": '", key, "' is '", printable(value, 80), "', expected ",
       expected, "; use the original model or a GGUF");
}

// Throws unless the key is missing or has one of `values`.
void check_text(const HfConfig& config, std::string_view key,
                std::span<const std::string_view> values) {
  if (!config.has(key)) return;
  const std::string value = config.text(key);
  if (std::find(values.begin(), values.end(), value) != values.end()) return;
  std::string expected;
  for (const std::string_view each : values) expected += concat(expected.empty() ? "" : ", ", each);
  refuse(config, key, value, expected);
}

void check_text(const HfConfig& config, std::string_view key,
                std::initializer_list<std::string_view> values) {
  check_text(config, key, std::span(values.begin(), values.size()));
}

// Throws unless the key is missing or says no, as false and an empty object do.
void refuse_any(const HfConfig& config, std::string_view key) {
  if (config.says_nothing(key)) return;
  fail(Exit::Model, config.where(), ": '", key,
       "' changes the weights in a way that skald does not read; use the original model or a GGUF");
}

DType plain_type(const HfConfig& config) {
  constexpr std::string_view kText = "text_config";
  for (const std::string_view key : {"dtype", "torch_dtype"}) {
    std::string name = config.is_text(key) ? config.text(key) : "";
    if (name.empty() && config.is_object(kText) && config.object(kText).is_text(key)) {
      name = config.object(kText).text(key);
    }
    if (name == "float16") return DType::F16;
    if (name == "float32") return DType::F32;
    if (!name.empty()) break;
  }
  return DType::BF16;
}

// The keys of GPTQ and AWQ.
void read_integers(const HfConfig& config, std::string_view bits_key, std::string_view group_key,
                   QuantMethod& out) {
  out.bits = {static_cast<int>(config.integer(bits_key, 2, 8))};
  const int64_t group = config.integer_or(group_key, -1, -1, kMostGroup);
  out.group = std::max<int64_t>(group, 0);
}

// Settings of single modules. "-:" leaves modules as they are, which their tensors show.
void check_dynamic(const HfConfig& config) {
  constexpr std::string_view kDynamic = "dynamic";
  if (!config.is_object(kDynamic)) return refuse_any(config, kDynamic);
  const HfConfig modules = config.object(kDynamic);
  for (const std::string& name : modules.keys()) {
    if (!name.starts_with("-:")) refuse_any(modules, name);
  }
}

void read_gptq(const HfConfig& config, QuantMethod& out) {
  read_integers(config, "bits", "group_size", out);
  const int bits = out.bits.front();
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
    refuse(config, "bits", concat(bits), "2, 3, 4 or 8");
  }
  check_text(config, "checkpoint_format", {"gptq", "gptq_v2"});
  out.zeros_less_one = config.text_or("checkpoint_format", "gptq") == "gptq";
  out.ordered = config.boolean_or("desc_act", false) && !config.boolean_or("static_groups", false);
  check_dynamic(config);
  refuse_any(config, "is_marlin_format");
}

void read_awq(const HfConfig& config, QuantMethod& out) {
  const bool old = config.has("w_bit");
  read_integers(config, old ? "w_bit" : "bits", old ? "q_group_size" : "group_size", out);
  if (out.bits.front() != 4) refuse(config, "bits", concat(out.bits.front()), "4");
  check_text(config, "version", {"gemm", "GEMM"});
}

// Adds the number to a list of different ones.
void add_once(std::vector<int>& all, int number) {
  if (std::find(all.begin(), all.end(), number) == all.end()) all.push_back(number);
}

void read_block(const HfConfig& config, std::string_view key, QuantMethod& out) {
  if (!config.has(key)) return;
  const std::vector<int64_t> block = config.integers(key);
  const bool fits = block.size() == 2 && block[0] > 0 && block[1] > 0 && block[0] <= kMostGroup &&
                    block[1] <= kMostGroup;
  if (!fits) refuse(config, key, concat(block.size(), " numbers"), "two sizes, as [128, 128]");
  if (out.block_rows != 0 && (out.block_rows != block[0] || out.block_cols != block[1])) {
    refuse(config, key, "different in two groups", "one size of blocks");
  }
  out.block_rows = block[0];
  out.block_cols = block[1];
}

void read_groups(const HfConfig& config, QuantMethod& out) {
  if (!config.has("config_groups")) return;
  const HfConfig groups = config.object("config_groups");
  for (const std::string& name : groups.keys()) {
    const HfConfig group = groups.object(name);
    if (!group.has("weights")) continue;  // only activations or caches are quantized
    const HfConfig weights = group.object("weights");
    check_text(weights, "type", {"int", "float"});
    const std::string order = weights.is_text("actorder") ? weights.text("actorder") : "";
    out.ordered = out.ordered || order == "group" || order == "dynamic";
    add_once(out.bits, static_cast<int>(weights.integer_or("num_bits", 8, 2, 8)));
    read_block(weights, "block_structure", out);
  }
}

void read_compressed_tensors(const HfConfig& config, QuantMethod& out) {
  constexpr std::string_view kFormats[] = {
      "dense",           "pack-quantized",       "int-quantized",        "float-quantized",
      "naive-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mixed-precision"};
  check_text(config, "format", kFormats);
  constexpr std::string_view kSparsity = "sparsity_config";
  if (config.is_object(kSparsity)) {
    check_text(config.object(kSparsity), "format", {"dense"});
  } else {
    refuse_any(config, kSparsity);
  }
  refuse_any(config, "transform_config");
  read_groups(config, out);
}

void read_fp8(const HfConfig& config, QuantMethod& out) {
  check_text(config, "fmt", {"e4m3", "float8_e4m3fn"});
  check_text(config, "activation_scheme", {"dynamic", "static"});
  read_block(config, "weight_block_size", out);
}

void read_modelopt(const HfConfig& config, QuantMethod& out) {
  check_text(config, "quant_algo", {"FP8", "NVFP4"});
  read_groups(config, out);
}

void read_bits_and_bytes(const HfConfig& config, QuantMethod&) {
  const bool four =
      config.boolean_or("load_in_4bit", false) || config.boolean_or("_load_in_4bit", false);
  if (four) check_text(config, "bnb_4bit_quant_type", {"nf4", "fp4"});
}

struct Reader {
  std::string_view method;
  QuantTool tool;
  void (*read)(const HfConfig&, QuantMethod&);
};
constexpr Reader kReaders[] = {
    {"gptq", QuantTool::Gptq, read_gptq},
    {"awq", QuantTool::Awq, read_awq},
    {"compressed-tensors", QuantTool::CompressedTensors, read_compressed_tensors},
    {"fp8", QuantTool::Fp8, read_fp8},
    {"fbgemm_fp8", QuantTool::Fp8, read_fp8},
    {"modelopt", QuantTool::ModelOpt, read_modelopt},
    {"bitsandbytes", QuantTool::BitsAndBytes, read_bits_and_bytes},
};

// Text parts may hold the key that other checkpoints have at the top.
HfConfig holder(const HfConfig& config) {
  constexpr std::string_view kText = "text_config";
  const bool inner = !config.has(kKey) && config.is_object(kText);
  return inner ? config.object(kText) : config;
}

struct Found {
  HfConfig quantization;
  std::string method;
};

// Tools had files of their own for it before config.json had a place.
std::optional<Found> find_in_files(const fs::path& folder) {
  constexpr struct {
    std::string_view file, method;
  } kFiles[] = {{"hf_quant_config.json", "modelopt"},
                {"quantize_config.json", "gptq"},
                {"quant_config.json", "awq"}};
  for (const auto& [name, method] : kFiles) {
    const fs::path file = folder / name;
    if (!fs::exists(file)) continue;
    HfConfig quantization = HfConfig::read(file);
    if (method == "modelopt") {
      quantization = quantization.object("quantization");
      if (!quantization.has("quant_algo")) continue;  // only its cache is quantized
    }
    std::string said = quantization.text_or("quant_method", method);
    return Found{std::move(quantization), std::move(said)};
  }
  return std::nullopt;
}

std::string method_of(const HfConfig& quantization) {
  // The first files of bitsandbytes do not name their method.
  const bool unnamed =
      quantization.mentions("load_in_8bit") || quantization.mentions("load_in_4bit");
  return unnamed ? quantization.text_or("quant_method", "bitsandbytes")
                 : quantization.text("quant_method");
}

std::optional<Found> find_quantization(const HfConfig& config, const fs::path& folder) {
  const HfConfig outer = holder(config);
  const bool old = outer.has(kOldKey) && !outer.has(kKey);
  if (!old && !outer.has(kKey)) return find_in_files(folder);
  HfConfig quantization = outer.object(old ? kOldKey : kKey);
  std::string method = method_of(quantization);
  return Found{std::move(quantization), std::move(method)};
}

const Reader* find_reader(std::string_view method) {
  const auto* found = std::find_if(std::begin(kReaders), std::end(kReaders),
                                   [&](const Reader& each) { return each.method == method; });
  return found == std::end(kReaders) ? nullptr : found;
}

}  // namespace

std::optional<QuantMethod> read_quant_method(const HfConfig& config, const fs::path& folder,
                                             std::string_view own) {
  QuantMethod out;
  out.plain = plain_type(config);
  const std::optional<Found> found = find_quantization(config, folder);
  if (!found) return std::nullopt;
  const auto& [quantization, method] = *found;
  if (!own.empty() && method == own) return std::nullopt;
  const Reader* reader = find_reader(method);
  if (!reader) {
    std::string known;
    for (const Reader& each : kReaders) known += concat(known.empty() ? "" : ", ", each.method);
    refuse(quantization, "quant_method", method, known);
  }
  out.tool = reader->tool;
  out.name = method;
  out.where = quantization.where();
  reader->read(quantization, out);
  return out;
}

}  // namespace skald
