// The settings that /set shows and changes: the sampling parameters, with the names, help and
// limits of their flags.
#pragma once

#include <string>
#include <vector>

#include "app/generate/sampling_flags.h"

namespace skald {

class Command;

struct ChatSettings {
  SamplingFlags sampling;
  int64_t most_tokens = -1;  // tokens of an answer; -1: no limit
};

// The flags: -n and all of sampling_flags.h.
void add_chat_settings(Command& command, ChatSettings& settings);

struct ChatSetting {
  std::string name, value, description;
};
std::vector<ChatSetting> list_settings(const ChatSettings& settings);

// The name of a setting as list_settings() gives it: "-n" is "n-predict", "top_k" is "top-k".
// Throws Error(Exit::Usage) where there is no such setting.
std::string setting_name(std::string typed);

// Throws Error(Exit::Usage), and changes nothing, for an unknown name or a value out of range.
// `vocab` is the model's.
void change_setting(ChatSettings& settings, const std::string& name, const std::string& value,
                    int64_t vocab);

// Draws a seed if none was given: one for the whole dialogue, so that the user can repeat it.
void draw_seed(ChatSettings& settings);

}  // namespace skald
