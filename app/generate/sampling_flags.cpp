#include "app/generate/sampling_flags.h"

#include <charconv>
#include <random>
#include <variant>

#include "app/files/json_number.h"
#include "app/program/command.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

// Parses "15043-1", "15043+2.5" or "15043-inf".
std::pair<int32_t, float> parse_bias(const std::string& text) {
  const size_t sign = text.find_first_of("+-");
  int32_t id = -1;
  float bias = 0;
  bool good = sign != std::string::npos && sign > 0;
  if (good) {
    const char* begin = text.data();
    const auto parsed_id = std::from_chars(begin, begin + sign, id);
    const char* number = begin + sign + (text[sign] == '+');
    const auto parsed_bias = std::from_chars(number, begin + text.size(), bias);
    good = parsed_id.ec == std::errc() && parsed_id.ptr == begin + sign && id >= 0 &&
           parsed_bias.ec == std::errc() && parsed_bias.ptr == begin + text.size();
  }
  if (!good) {
    fail(Exit::Usage, "--logit-bias '", printable(text),
         "': expected a token id, a sign and a number, as in 15043-1.5 or 2-inf");
  }
  return {id, bias};
}

Json value_json(int value) { return value; }
Json value_json(uint64_t value) { return value; }
Json value_json(float value) { return float_json(value); }
Json value_json(const LogitBias& biases) {
  Json json = Json::array();
  for (const auto& [id, bias] : biases) json.push_back({id, concat(bias)});  // bias: perhaps inf
  return json;
}

// Adds the flags of a row, for each type of parameter. Values go to `flags`.
struct AddFlags {
  Command& command;
  SamplingFlags& flags;
  const SamplingParameter& row;

  void operator()(int SamplingParams::*member) const {
    const NumberRange& range = row.range;
    add(flags.params.*member, "N",
        in_range(static_cast<int64_t>(range.least), static_cast<int64_t>(range.most)));
  }

  void operator()(float SamplingParams::*member) const {
    // Rounding to float may carry a number across a bound, so both numbers must be in the range.
    const auto holds = [range = row.range](double x) {
      return range.holds(x) && range.holds(static_cast<float>(x));
    };
    add(flags.params.*member, "X", number_where(holds, row.range.expected));
  }

  void operator()(uint64_t SamplingParams::*) const {
    add(flags.seed, "N", in_range(-1, INT64_MAX));
  }

  void operator()(LogitBias SamplingParams::*) const {
    command.option(std::string(row.flags), flags.biases, std::string(row.help))
        .type_name("ID+X")
        .repeatable()
        .group(kChangesOutput);
  }

 private:
  void add(auto& value, const char* type, const Check& check) const {
    command.option(std::string(row.flags), value, std::string(row.help))
        .type_name(type)
        .check(check)
        .show_default()
        .group(kChangesOutput);
  }
};

}  // namespace

void add_sampling_flags(Command& command, SamplingFlags& flags) {
  for (const SamplingParameter& row : sampling_parameters()) {
    if (!row.flags.empty()) std::visit(AddFlags{command, flags, row}, row.member);
  }
}

SamplingParams sampling_params(const SamplingFlags& flags, int64_t vocab) {
  SamplingParams params = flags.params;
  params.seed = flags.seed >= 0 ? static_cast<uint64_t>(flags.seed) : std::random_device{}();
  for (const std::string& bias : flags.biases) params.logit_bias.push_back(parse_bias(bias));
  validate(params, vocab);
  return params;
}

Json sampling_json(const SamplingParams& params) {
  Json json = Json::object();
  for (const SamplingParameter& row : sampling_parameters()) {
    if (row.flags.empty()) continue;
    const auto to_json = [&](auto member) { return value_json(params.*member); };
    json[std::string(row.field)] = std::visit(to_json, row.member);
  }
  return json;
}

}  // namespace skald
