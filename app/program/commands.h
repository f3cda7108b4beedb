// The commands of the skald program. Each add_*() declares one command and its options. Parsing
// the command line then sets `chosen` to the action of the command that was given; the action
// returns an exit code. A new command needs a declaration and a row in kCommands.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace skald {

using Action = std::function<int()>;

struct Command {
  std::string_view name;
  void (*add)(CLI::App& program, Action& chosen);
};

void add_run(CLI::App& program, Action& chosen);
void add_chat(CLI::App& program, Action& chosen);
void add_batch(CLI::App& program, Action& chosen);
void add_inspect(CLI::App& program, Action& chosen);
void add_tokenize(CLI::App& program, Action& chosen);
void add_template(CLI::App& program, Action& chosen);
void add_bench(CLI::App& program, Action& chosen);
void add_diff(CLI::App& program, Action& chosen);
void add_plan(CLI::App& program, Action& chosen);
void add_perplexity(CLI::App& program, Action& chosen);
void add_score(CLI::App& program, Action& chosen);
void add_doctor(CLI::App& program, Action& chosen);
void add_quantize(CLI::App& program, Action& chosen);
void add_selftest(CLI::App& program, Action& chosen);
void add_completion(CLI::App& program, Action& chosen);
void add_man(CLI::App& program, Action& chosen);

inline constexpr Command kCommands[] = {
    {"run", add_run},
    {"chat", add_chat},
    {"batch", add_batch},
    {"perplexity", add_perplexity},
    {"score", add_score},
    {"bench", add_bench},
    {"inspect", add_inspect},
    {"tokenize", add_tokenize},
    {"template", add_template},
    {"diff", add_diff},
    {"plan", add_plan},
    {"selftest", add_selftest},
    {"doctor", add_doctor},
    {"quantize", add_quantize},
    {"completion", add_completion},
    {"man", add_man},
};

// Parses the arguments, runs the command and reports errors on stderr. Returns the exit code.
int run_program(const std::vector<std::string>& arguments);

}  // namespace skald
