// The commands of the skald program. Each add_*() declares one command with its options and its
// action (app/program/command.h). A new command needs a declaration and a row in kCommands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace skald {

class Command;

struct NamedCommand {
  std::string_view name;
  void (*add)(Command& program);
};

void add_run(Command& program);
void add_chat(Command& program);
void add_batch(Command& program);
void add_inspect(Command& program);
void add_tokenize(Command& program);
void add_template(Command& program);
void add_bench(Command& program);
void add_diff(Command& program);
void add_plan(Command& program);
void add_perplexity(Command& program);
void add_score(Command& program);
void add_embed(Command& program);
void add_imatrix(Command& program);
void add_doctor(Command& program);
void add_quantize(Command& program);
void add_selftest(Command& program);
void add_completion(Command& program);
void add_man(Command& program);
void add_pull(Command& program);
void add_ls(Command& program);
void add_rm(Command& program);

inline constexpr NamedCommand kCommands[] = {
    {"run", add_run},
    {"chat", add_chat},
    {"batch", add_batch},
    {"perplexity", add_perplexity},
    {"score", add_score},
    {"embed", add_embed},
    {"pull", add_pull},
    {"ls", add_ls},
    {"rm", add_rm},
    {"bench", add_bench},
    {"inspect", add_inspect},
    {"tokenize", add_tokenize},
    {"template", add_template},
    {"diff", add_diff},
    {"plan", add_plan},
    {"selftest", add_selftest},
    {"doctor", add_doctor},
    {"quantize", add_quantize},
    {"imatrix", add_imatrix},
    {"completion", add_completion},
    {"man", add_man},
};

// Parses the arguments, runs the command and reports errors on stderr. Returns the exit code.
int run_program(const std::vector<std::string>& arguments);

}  // namespace skald
