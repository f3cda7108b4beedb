#include "app/model/weight_rules.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>

#include "app/model/memory_flags.h"
#include "app/program/command.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/text/regex.h"

namespace skald {
namespace {

std::string shown_rule(const std::string& text) {
  return concat("--override-tensor '", printable(text, 60), "'");
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::optional<WeightPlace> place_named(const std::string& name) {
  const std::string known = lower(name);
  if (known == "cpu") return WeightPlace::Cpu;
  if (known == "gpu" || known == "cuda0") return WeightPlace::Gpu;
  if (known == "stream") return WeightPlace::Stream;
  return {};
}

// True if the text ends with "=WORD", so that a comma behind it begins another rule.
bool is_whole(const std::string& text) {
  const size_t equals = text.rfind('=');
  return equals != text.npos &&
         std::all_of(
             text.begin() + static_cast<std::ptrdiff_t>(equals) + 1, text.end(),
             [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); });
}

// A regex's errors name a file; here it is the user's own.
template <class Function>
auto as_usage(const std::string& rule, const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    fail(Exit::Usage, shown_rule(rule), ": ", error.what());
  }
}

WeightRule parse_rule(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == text.npos || equals == 0) {
    fail(Exit::Usage, shown_rule(text), ": expected REGEX=PLACE, as in 'ffn_.*_exps=cpu'");
  }
  const std::string name = text.substr(equals + 1), pattern = text.substr(0, equals);
  const std::optional<WeightPlace> place = place_named(name);
  if (!place) {
    fail(Exit::Usage, shown_rule(text), ": unknown place '", printable(name, 30),
         "'; expected cpu, gpu or stream");
  }
  const auto regex =
      as_usage(text, [&] { return std::make_shared<const Regex>(pattern, "the expression"); });
  const auto matches = [regex, text](std::string_view tensor) {
    return as_usage(text, [&] {
      std::vector<Span> found;
      Regex::Search(*regex).find_all(tensor, found);
      return !found.empty();
    });
  };
  return {shown_rule(text), *place, matches};
}

// The number of layers of --n-cpu-moe.
int layer_count(const std::string& text) {
  int layers = -1;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, layers);
  if (error == std::errc() && rest == end && layers >= 0) return layers;
  fail(Exit::Usage, "--n-cpu-moe '", printable(text, 60), "': expected a number of layers");
}

}  // namespace

std::vector<WeightRule> parse_weight_rules(const std::string& text) {
  std::vector<WeightRule> rules;
  std::string rule;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    rule += text.substr(at, comma - at);
    at = comma + 1;
    if (!is_whole(rule) && comma < text.size()) {
      rule += ',';
      continue;
    }
    rules.push_back(parse_rule(rule));
    rule.clear();
  }
  return rules;
}

WeightRule expert_rule(std::optional<int> layers) {
  const auto matches = [layers](std::string_view tensor) {
    constexpr std::string_view kLayer = "blk.";
    if (!tensor.starts_with(kLayer) || tensor.find("_exps.") == tensor.npos) return false;
    int layer = 0;
    std::from_chars(tensor.data() + kLayer.size(), tensor.data() + tensor.size(), layer);
    return !layers || layer < *layers;
  };
  return {layers ? concat("--n-cpu-moe ", *layers) : "--cpu-moe", WeightPlace::Cpu, matches};
}

void add_rule_flags(Command& command, RunOptions& run) {
  // Rules of --override-tensor, which stand before those of the other two flags.
  const auto count = std::make_shared<std::ptrdiff_t>(0);
  const Option places =
      command
          .option(
              "--override-tensor",
              [&run, count](const std::vector<std::string>& texts) {
                for (const std::string& text : texts) {
                  for (WeightRule& rule : parse_weight_rules(text)) {
                    run.weight_rules.insert(run.weight_rules.begin() + (*count)++, std::move(rule));
                  }
                }
              },
              "Place tensors by name: gpu; stream (in the machine's memory, for the GPU); cpu "
              "(there, few rows for the CPU). Several by commas")
          .repeatable()
          .type_name("REGEX=PLACE")
          .group(kWeightPlaces);
  command.suggest(places, {"_exps=cpu", "_exps=stream", "_exps=gpu"});
  command
      .flag(
          "--cpu-moe", [&run] { run.weight_rules.push_back(expert_rule({})); },
          "Keep all experts in the machine's memory, as -ot '_exps=cpu' does")
      .group(kWeightPlaces);
  command
      .option(
          "--n-cpu-moe",
          [&run](const std::string& text) {
            const int layers = layer_count(text);
            if (layers > 0) run.weight_rules.push_back(expert_rule(layers));
          },
          "The same for the first N layers")
      .type_name("N")
      .group(kWeightPlaces);
}

}  // namespace skald
