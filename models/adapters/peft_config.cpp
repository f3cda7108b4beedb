#include "models/adapters/peft_config.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/files/hf_config.h"

namespace skald {
namespace {

constexpr int64_t kMostRank = 1 << 16;

// Keys that change no result of a trained adapter, or that the tensors repeat.
constexpr std::string_view kWithoutEffect[] = {"auto_mapping",
                                               "base_model_name_or_path",
                                               "corda_config",
                                               "ensure_weight_tying",
                                               "eva_config",
                                               "exclude_modules",
                                               "inference_mode",
                                               "init_lora_weights",
                                               "layers_pattern",
                                               "layers_to_transform",
                                               "lora_alpha",
                                               "lora_dropout",
                                               "loftq_config",
                                               "lora_ga_config",
                                               "megatron_core",
                                               "peft_type",
                                               "peft_version",
                                               "qalora_group_size",
                                               "r",
                                               "rank_pattern",
                                               "alpha_pattern",
                                               "revision",
                                               "runtime_config",
                                               "target_modules",
                                               "task_type",
                                               "use_rslora"};

// Ways to begin a training that leave the model's own weights as they are.
constexpr std::string_view kHarmlessInits[] = {"gaussian", "eva", "orthogonal"};

void refuse(const HfConfig& config, std::string_view key, std::string_view why) {
  fail(Exit::Model, config.where(), ": '", printable(key, 80), "' ", why);
}

void check_keys(const HfConfig& config) {
  if (config.text("peft_type") != "LORA") {
    fail(Exit::Model, config.where(), ": 'peft_type' is '", printable(config.text("peft_type"), 80),
         "'; skald computes adapters of type LORA");
  }
  if (!config.says_nothing("use_dora"))
    refuse(config, "use_dora", "is true; DoRA is not supported");
  if (config.text_or("bias", "none") != "none") {
    refuse(config, "bias", "is not 'none'; adapters with biases are not supported");
  }
  if (!config.says_nothing("modules_to_save")) {
    refuse(config, "modules_to_save",
           "names whole matrices that replace the model's, which is not supported; merge the "
           "adapter into the model with PEFT");
  }
  if (config.is_text("init_lora_weights")) {
    const std::string init = config.text("init_lora_weights");
    if (std::find(std::begin(kHarmlessInits), std::end(kHarmlessInits), init) ==
        std::end(kHarmlessInits)) {
      fail(Exit::Model, config.where(), ": 'init_lora_weights' is '", printable(init, 80),
           "', which changes the model's own weights; convert the adapter to a plain one with "
           "PEFT");
    }
  }
  for (const std::string& key : config.keys()) {
    const bool known = std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), key) !=
                           std::end(kWithoutEffect) ||
                       key == "bias";
    if (known || config.says_nothing(key)) continue;
    refuse(config, key, "has a value, and skald does not know what it changes");
  }
}

// True if the pattern is the whole name, or its end after a point. PEFT reads patterns as regular
// expressions, in which a name stands for itself.
bool matches(std::string_view pattern, std::string_view module) {
  if (pattern.starts_with('^')) return pattern.substr(1) == module;
  if (!module.ends_with(pattern)) return false;
  const size_t before = module.size() - pattern.size();
  return before == 0 || module[before - 1] == '.';
}

}  // namespace

PeftConfig::Pattern PeftConfig::read_pattern(const HfConfig& config, std::string_view key) {
  Pattern pattern;
  if (config.says_nothing(key)) return pattern;
  const HfConfig object = config.object(key);
  for (const std::string& name : object.keys()) {
    const std::string_view plain = name.starts_with('^') ? std::string_view(name).substr(1) : name;
    const bool is_name = std::all_of(plain.begin(), plain.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-' || c == '.';
    });
    if (!is_name || plain.empty()) {
      fail(Exit::Model, object.where(), ": '", printable(name, 80),
           "' is a regular expression; skald reads names of modules and their ends");
    }
    pattern.emplace_back(name, object.number(name));
  }
  return pattern;
}

PeftConfig PeftConfig::read(const std::filesystem::path& file) {
  const HfConfig config = HfConfig::read(file);
  check_keys(config);
  PeftConfig result;
  result.where_ = config.where();
  if (config.is_text("base_model_name_or_path")) {
    result.base_ = config.text("base_model_name_or_path");
  }
  result.rank_ = static_cast<double>(config.integer("r", 1, kMostRank));
  result.alpha_ = config.number("lora_alpha");
  result.by_root_ = config.boolean_or("use_rslora", false);
  result.ranks_ = read_pattern(config, "rank_pattern");
  result.alphas_ = read_pattern(config, "alpha_pattern");
  for (const auto& [name, rank] : result.ranks_) {
    if (rank >= 1 && rank <= kMostRank && rank == std::floor(rank)) continue;
    fail(Exit::Model, result.where_, ": rank_pattern: '", printable(name, 80), "' is ", rank,
         ", expected a whole number from 1 to ", kMostRank);
  }
  return result;
}

double PeftConfig::value_of(const Pattern& pattern, std::string_view key, std::string_view module,
                            double otherwise) const {
  const std::pair<std::string, double>* found = nullptr;
  for (const auto& entry : pattern) {
    if (!matches(entry.first, module)) continue;
    if (found && found->second != entry.second) {
      fail(Exit::Model, where_, ": ", key, ": '", printable(found->first, 80), "' and '",
           printable(entry.first, 80), "' give different values to '", printable(module, 120), "'");
    }
    found = &entry;
  }
  return found ? found->second : otherwise;
}

int64_t PeftConfig::rank_of(std::string_view module) const {
  return static_cast<int64_t>(value_of(ranks_, "rank_pattern", module, rank_));
}

double PeftConfig::scale_of(std::string_view module) const {
  const double rank = value_of(ranks_, "rank_pattern", module, rank_);
  const double alpha = value_of(alphas_, "alpha_pattern", module, alpha_);
  return alpha / (by_root_ ? std::sqrt(rank) : rank);
}

}  // namespace skald
