// How a command declares its flags and words, and how an argument list is read. The parser behind
// these classes is CLI11; command.cpp alone includes it, because its templates take seconds in
// every file that does.
//
//   void add_greet(Command& program) {
//     Command& command = program.add_command("greet", "Greets NAME.", {"skald greet Ada"});
//     auto flags = std::make_shared<GreetFlags>();
//     command.word("name", "[NAME]", flags->name).check(not_empty());
//     command.option("-n,--times", flags->times, "Greet N times").type_name("N")
//         .check(in_range(1, 100)).show_default().group("Output");
//     command.flag("--loud", flags->loud, "Use capitals").group("Output");
//     command.action([=] { return greet(*flags); });
//   }
//
// parse() writes to the variables that were declared, so they live as long as the command. The
// action keeps them alive: it holds a copy of the shared pointer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace skald {

// Groups of flags: users see which flags change the output and which only speed and memory.
inline constexpr const char* kChangesOutput = "Changes the output";
inline constexpr const char* kChangesSpeed = "Changes only speed and memory";
inline constexpr const char* kOther = "Other";

// Returns what is wrong with a value, "" if it is good. May rewrite the value.
using Check = std::function<std::string(std::string& value)>;

// Numbers are decimal: no 0x10, no nan, no spaces.
Check in_range(int64_t least, int64_t most);  // a whole number; leading zeros are removed
// A finite number that is `good`; `expected` describes it in the error.
Check number_where(std::function<bool(double)> good, std::string expected);
Check not_empty();  // catches an empty variable in a script

// A flag or a word of a command. Copies stand for the same option. Valid as long as its command.
class Option {
 public:
  Option() = default;  // none
  explicit Option(CLI::Option* option) : option_(option) {}
  explicit operator bool() const { return option_ != nullptr; }

  Option type_name(const std::string& text) const;  // what --help calls the value: "FILE"
  Option group(const std::string& name) const;      // the heading in --help
  Option show_default() const;                      // --help shows the variable's present value
  Option check(Check check) const;                  // looks at each value
  Option one_of(std::vector<std::string> values) const;
  Option excludes(Option other) const;  // both together are an error

  // For lists. Without these, a list takes all words up to the next flag, as in `--merge a b`, so
  // that no word of the command may follow.
  Option repeatable() const;                  // one word after each flag: "--stop a --stop b"
  Option separated_by(char separator) const;  // the same, with several values in a word: "1,8,32"

  bool given() const;  // by the argument list that was parsed last

  // What was declared.
  std::vector<std::string> names() const;  // a flag's names: "-m", "--model"
  std::string long_name() const;           // "model"; empty if the flag has only a letter
  bool is_word() const;                    // else a flag
  std::string text() const;                // a word's text: "[MODEL]"
  std::string type_name() const;
  std::string help() const;
  std::string group() const;
  std::string default_text() const;  // the value that show_default() has kept
  bool takes_value() const;
  bool is_repeatable() const;

 private:
  friend class Command;  // knows options by their pointers

  CLI::Option* option_ = nullptr;
};

using Action = std::function<int()>;  // returns an exit code

class Command {
 public:
  // What an argument list asks for.
  struct Request {
    enum class Kind { Action, Help, Version, Unexpected };
    Kind kind = Kind::Action;
    const Command* command = nullptr;  // the command that was given, or else the program
    std::string unexpected;            // the first argument that the command does not know
  };

  Command();  // options alone: no name, no --help
  Command(const std::string& name, const std::string& description);  // a program, with --help
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command();

  // The new command has --help and lives as long as the program. `examples` are whole command
  // lines.
  Command& add_command(const std::string& name, const std::string& description,
                       std::vector<std::string> examples);

  // `names` are separated by commas: "-m,--model". An option takes a value, a flag none.
  Option option(const std::string& names, std::string& value, const std::string& help);
  Option option(const std::string& names, int& value, const std::string& help);
  Option option(const std::string& names, int64_t& value, const std::string& help);
  Option option(const std::string& names, uint64_t& value, const std::string& help);
  Option option(const std::string& names, float& value, const std::string& help);
  Option option(const std::string& names, double& value, const std::string& help);
  Option option(const std::string& names, std::optional<int>& value, const std::string& help);
  Option option(const std::string& names, std::vector<std::string>& values,
                const std::string& help);
  Option option(const std::string& names, std::vector<int64_t>& values, const std::string& help);
  // `set` may throw Error.
  Option option(const std::string& names, std::function<void(const std::string& value)> set,
                const std::string& help);
  // For a repeatable() option: all values at once.
  Option option(const std::string& names,
                std::function<void(const std::vector<std::string>& values)> set,
                const std::string& help);
  Option flag(const std::string& names, bool& value, const std::string& help);
  Option flag(const std::string& names, std::function<void()> set, const std::string& help);
  // A positional argument, which may be missing. `name` stands in errors, `text` in --help.
  Option word(const std::string& name, const std::string& text, std::string& value);
  void version(const std::string& help);  // --version, which parse() reports as Kind::Version
  void footer(const std::string& text);   // the end of --help in place of examples
  // Values for the shell's completion to offer; others stay allowed.
  void suggest(Option option, std::vector<std::string> values);

  void action(Action action) { action_ = std::move(action); }  // what the command does

  // Writes the values. Throws Error(Exit::Usage) for a wrong value.
  Request parse(std::vector<std::string> arguments);

  // What was declared, in this order.
  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const std::string& footer() const { return footer_; }
  const std::vector<std::string>& examples() const { return examples_; }
  const Action& action() const { return action_; }
  std::vector<const Command*> commands() const;
  const Command* find_command(std::string_view name) const;  // null: none
  std::vector<Option> options() const;
  Option find_flag(const std::string& name) const;  // "-m" or "--model"; none if there is none
  std::vector<std::string> suggestions(Option option) const;

 private:
  Command(const std::string& name, const std::string& description, std::shared_ptr<CLI::App> app);

  std::string name_, description_, footer_;
  std::vector<std::string> examples_;
  Action action_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::map<const CLI::Option*, std::vector<std::string>> suggestions_;
  std::shared_ptr<CLI::App> app_;
};

// Two words of a command. Each is an option of its own, because a list would split the value
// "[a, b]" into two.
struct Words {
  std::string values[2];
  Option options[2];

  std::vector<std::string> given() const;
};
void add_words(Command& command, Words& words, const std::string& first, const std::string& second);

}  // namespace skald
