// Every row of the table of sampling parameters arrives everywhere: a parameter that is forgotten
// in one place fails here.
#include "app/generate/sampling_flags.h"

#include "app/batch/flags.h"
#include "app/batch/request.h"
#include "app/chat/settings.h"
#include "app/files/json.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "tests/catch.h"
#include "tests/engine/sampling/changed_parameters.h"

namespace skald::test {
namespace {

constexpr int64_t kVocab = 100;

bool same(const SamplingParameter& row, const SamplingParams& a, const SamplingParams& b) {
  return std::visit([&](auto member) { return a.*member == b.*member; }, row.member);
}

// The value as a person types it after a flag.
std::string typed_value(const SamplingParameter& row, const SamplingParams& params) {
  if (std::holds_alternative<LogitBias SamplingParams::*>(row.member)) {
    const auto& [id, bias] = params.logit_bias.front();
    return std::to_string(id) + "+" + dump(Json(bias));
  }
  return dump(sampling_json(params)[std::string(row.field)]);
}

// The value as a line of a batch has it.
Json field_value(const SamplingParameter& row, const SamplingParams& params) {
  if (std::holds_alternative<LogitBias SamplingParams::*>(row.member)) {
    const auto& [id, bias] = params.logit_bias.front();
    return {{std::to_string(id), bias}};
  }
  if (row.flags.empty()) return params.*std::get<int SamplingParams::*>(row.member);
  return sampling_json(params)[std::string(row.field)];
}

// "-s,--seed" is "--seed".
std::string long_flag(const SamplingParameter& row) {
  return std::string(row.flags.substr(row.flags.find("--")));
}

template <class Function>
void for_each_change(Function function) {
  for (const SamplingParameter& row : sampling_parameters()) {
    const std::vector<SamplingParams> all = changed_parameters(row, SamplingParams());
    REQUIRE(!all.empty());
    for (const SamplingParams& params : all) function(row, params);
  }
}

TEST_CASE("run, chat and batch have a flag with help for every sampling parameter") {
  Command program("skald", "");
  add_run(program);
  add_chat(program);
  add_batch(program);
  for (const SamplingParameter& row : sampling_parameters()) {
    if (row.flags.empty()) continue;  // only a request can set it
    for (const char* name : {"run", "chat", "batch"}) {
      CAPTURE(name, row.field);
      const Option option = program.find_command(name)->find_flag(long_flag(row));
      REQUIRE(option);
      CHECK(option.help() == row.help);
      CHECK(!row.help.empty());
    }
  }
}

TEST_CASE("every sampling flag sets its parameter and no other") {
  for_each_change([](const SamplingParameter& row, const SamplingParams& params) {
    if (row.flags.empty()) return;
    const std::string text = long_flag(row) + "=" + typed_value(row, params);
    CAPTURE(text);
    SamplingFlags flags{.seed = 0};
    Command command;
    add_sampling_flags(command, flags);
    REQUIRE_NOTHROW(command.parse({text}));
    const SamplingParams parsed = sampling_params(flags, kVocab);
    for (const SamplingParameter& any : sampling_parameters()) {
      CAPTURE(any.field);
      CHECK(same(any, parsed, params));
    }
  });
}

TEST_CASE("chat's /set changes every sampling parameter") {
  for_each_change([](const SamplingParameter& row, const SamplingParams& params) {
    if (row.flags.empty()) return;
    ChatSettings settings{.sampling = {.seed = 0}};
    const std::string name = setting_name(long_flag(row)), value = typed_value(row, params);
    CAPTURE(name, value);
    change_setting(settings, name, value, kVocab);
    CHECK(same(row, sampling_params(settings.sampling, kVocab), params));
  });
}

TEST_CASE("a batch line can set every sampling parameter") {
  for_each_change([](const SamplingParameter& row, const SamplingParams& params) {
    for (const std::string_view name : {row.field, row.other_field}) {
      if (name.empty()) continue;
      Json line = {{"prompt", "x"}, {std::string(name), field_value(row, params)}};
      if (name == "top_logprobs") line["logprobs"] = true;
      CAPTURE(dump(line));
      std::vector<std::string> unknown;
      const BatchRequest request = read_batch_request(line, {}, unknown);
      CHECK(unknown.empty());
      CHECK(same(row, request.params, params));
    }
  });
}

TEST_CASE("every sampling parameter is part of the settings that --resume compares") {
  BatchFlags flags;
  const Json before = batch_settings(flags, SamplingParams());
  for_each_change([&](const SamplingParameter& row, const SamplingParams& params) {
    if (row.flags.empty()) return;  // only request lines can set it
    CAPTURE(row.field);
    CHECK(batch_settings(flags, params) != before);
  });
}

}  // namespace
}  // namespace skald::test
