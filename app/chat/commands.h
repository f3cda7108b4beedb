// The commands of skald chat: lines that begin with a slash and a letter.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace skald {

class ChatProgram;

struct ChatCommand {
  std::string_view name, argument, help;
  void (*run)(ChatProgram& program, const std::string& argument);  // "": no argument
};

std::span<const ChatCommand> chat_commands();

// Throws Error: Exit::Usage where there is no such command or its argument is missing.
void run_chat_command(ChatProgram& program, const std::string& line);

// What /help shows, in lines of at most `columns`.
std::string chat_help(int columns);

}  // namespace skald
