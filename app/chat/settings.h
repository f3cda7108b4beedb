// What /set shows and changes: the sampling values, with the names, meanings and limits that their
// flags have on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "app/generate/sampling_flags.h"

namespace skald {

struct ChatSettings {
  SamplingFlags sampling;
  int64_t most_tokens = -1;  // of an answer; -1: to its end
};

// The flags: -n and all of sampling_flags.h.
void add_chat_settings(CLI::App& command, ChatSettings& settings);

struct ChatSetting {
  std::string name, value, description;
};
std::vector<ChatSetting> list_settings(const ChatSettings& settings);

// As list_settings() has it: "-n" is "n-predict", "top_k" is "top-k". Throws Error(Exit::Usage)
// where there is no such setting.
std::string setting_name(std::string typed);

// Throws Error(Exit::Usage), changing nothing, for a name that is none or a value out of its
// limits. `vocab` is the model's.
void change_setting(ChatSettings& settings, const std::string& name, const std::string& value,
                    int64_t vocab);

// A seed where none was given: one for the whole dialogue, so that it can be had again.
void draw_seed(ChatSettings& settings);

}  // namespace skald
