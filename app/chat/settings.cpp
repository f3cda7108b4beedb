#include "app/chat/settings.h"

#include <algorithm>
#include <random>

#include "app/program/command.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr const char* kBias = "logit-bias";

// Options that change these settings; their defaults are the present values.
std::vector<Option> options_of(Command& command, ChatSettings& settings) {
  add_chat_settings(command, settings);
  return command.options();
}

}  // namespace

void add_chat_settings(Command& command, ChatSettings& settings) {
  command.option("-n,--n-predict", settings.most_tokens, "Most tokens of an answer; -1: all")
      .type_name("N")
      .check(in_range(-1, int64_t{1} << 40))
      .show_default()
      .group(kChangesOutput);
  add_sampling_flags(command, settings.sampling);
}

std::vector<ChatSetting> list_settings(const ChatSettings& settings) {
  ChatSettings copy = settings;
  Command command;
  std::vector<ChatSetting> list;
  for (const Option& option : options_of(command, copy)) {
    std::string value = option.default_text();
    if (option.long_name() == kBias) {
      value.clear();
      for (const std::string& bias : copy.sampling.biases)
        value += (value.empty() ? "" : " ") + bias;
      if (value.empty()) value = "none";
    }
    list.push_back({option.long_name(), value, option.help()});
  }
  return list;
}

std::string setting_name(std::string typed) {
  const std::string shown = printable(typed, 60);
  typed.erase(0, typed.find_first_not_of('-'));
  std::replace(typed.begin(), typed.end(), '_', '-');
  ChatSettings settings;
  Command command;
  std::vector<std::string> names;
  for (const Option& option : options_of(command, settings)) {
    names.push_back(option.long_name());
    for (const std::string& flag : option.names()) {
      if (typed == flag.substr(flag.find_first_not_of('-'))) return names.back();
    }
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view meant = nearest(typed, views);
  fail(Exit::Usage, "there is no setting '", shown, "'",
       meant.empty() ? "; /set shows all" : concat(", did you mean '", meant, "'?"));
}

void change_setting(ChatSettings& settings, const std::string& name, const std::string& value,
                    int64_t vocab) {
  ChatSettings changed = settings;
  Command command;
  options_of(command, changed);
  const std::string wanted = setting_name(name);
  if (wanted == kBias && value == "none") {
    changed.sampling.biases.clear();
  } else {
    try {
      command.parse(std::vector<std::string>{"--" + wanted + "=" + value});
    } catch (const Error& problem) {
      std::string message = problem.what();
      if (message.starts_with("--")) message.erase(0, 2);
      fail(Exit::Usage, message);
    }
  }
  sampling_params(changed.sampling, vocab);  // throws where a value is out of range
  settings = std::move(changed);
  draw_seed(settings);
}

void draw_seed(ChatSettings& settings) {
  if (settings.sampling.seed < 0) settings.sampling.seed = std::random_device{}();
}

}  // namespace skald
