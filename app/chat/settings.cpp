#include "app/chat/settings.h"

#include <algorithm>
#include <random>

#include "app/program/help.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr const char* kBias = "logit-bias";

std::string long_name(const CLI::Option& option) { return option.get_lnames().front(); }

// Options that change these settings; their defaults are the present values.
std::vector<CLI::Option*> options_of(CLI::App& command, ChatSettings& settings) {
  command.set_help_flag();
  add_chat_settings(command, settings);
  return command.get_options();
}

}  // namespace

void add_chat_settings(CLI::App& command, ChatSettings& settings) {
  command.add_option("-n,--n-predict", settings.most_tokens, "Most tokens of an answer; -1: all")
      ->type_name("N")
      ->transform(in_range(-1, int64_t{1} << 40))
      ->capture_default_str()
      ->group(kChangesOutput);
  add_sampling_flags(command, settings.sampling);
}

std::vector<ChatSetting> list_settings(const ChatSettings& settings) {
  ChatSettings copy = settings;
  CLI::App command;
  std::vector<ChatSetting> list;
  for (const CLI::Option* option : options_of(command, copy)) {
    std::string value = option->get_default_str();
    if (long_name(*option) == kBias) {
      value.clear();
      for (const std::string& bias : copy.sampling.biases)
        value += (value.empty() ? "" : " ") + bias;
      if (value.empty()) value = "none";
    }
    list.push_back({long_name(*option), value, option->get_description()});
  }
  return list;
}

std::string setting_name(std::string typed) {
  const std::string shown = printable(typed, 60);
  typed.erase(0, typed.find_first_not_of('-'));
  std::replace(typed.begin(), typed.end(), '_', '-');
  ChatSettings settings;
  CLI::App command;
  std::vector<std::string> names;
  for (const CLI::Option* option : options_of(command, settings)) {
    names.push_back(long_name(*option));
    const std::vector<std::string>& letters = option->get_snames();
    if (typed == names.back() ||
        std::find(letters.begin(), letters.end(), typed) != letters.end()) {
      return names.back();
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
  CLI::App command;
  options_of(command, changed);
  const std::string wanted = setting_name(name);
  if (wanted == kBias && value == "none") {
    changed.sampling.biases.clear();
  } else {
    try {
      command.parse(std::vector<std::string>{"--" + wanted + "=" + value});
    } catch (const CLI::ParseError& problem) {
      std::string message = printable(problem.what(), 400);
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
