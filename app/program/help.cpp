#include "app/program/help.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <utility>

#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr size_t kDescriptionColumn = 30;
constexpr size_t kWidth = 100;  // longest line

// Wraps a text at kWidth; lines after the first begin at kDescriptionColumn.
std::string wrapped(const std::string& text) {
  std::istringstream words(text);
  std::string out, word;
  size_t column = kDescriptionColumn;
  while (words >> word) {
    const bool fits = column + 1 + word.size() <= kWidth;
    if (!out.empty()) out += fits ? " " : "\n" + std::string(kDescriptionColumn, ' ');
    column = (fits ? column + !out.empty() : kDescriptionColumn) + word.size();
    out += word;
  }
  return out;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text, 60) + "'"; }

class Style : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::ostringstream text;
    const std::vector<const CLI::App*> commands = app->get_subcommands({});
    text << usage(*app, !commands.empty()) << "\n" << app->get_description() << "\n";
    if (!commands.empty()) {
      text << "\nCommands:\n";
      for (const CLI::App* command : commands) {
        text << row(command->get_name(), first_sentence(command->get_description()));
      }
    }
    for (const std::string& group : help_groups(*app)) {
      const std::vector<const CLI::Option*> options =
          app->get_options([&](const CLI::Option* option) {
            return option->get_group() == group && !option->get_positional();
          });
      if (options.empty()) continue;
      text << "\n" << group << ":\n";
      for (const CLI::Option* option : options) text << option_row(*option);
    }
    text << "\n" << app->get_footer() << "\n";
    return text.str();
  }

 private:
  static std::string usage(const CLI::App& app, bool has_commands) {
    if (has_commands) return "usage: " + app.get_name() + " COMMAND [options]\n";
    std::string text = "usage: skald " + app.get_name();
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_positional()) text += " " + option->get_option_text();
    }
    return text + " [options]\n";
  }

  static std::string option_row(const CLI::Option& option) {
    std::string names = option.get_name(false, true);
    for (const auto& [typed, meant] : kOneDashNames) {
      if (names == meant) names = std::string(typed) + "," + names;
    }
    if (!option.get_type_name().empty()) names += " " + option.get_type_name();
    std::string description = option.get_description();
    if (!option.get_default_str().empty()) description += " [" + option.get_default_str() + "]";
    return row(names, description);
  }

  static std::string row(const std::string& left, const std::string& right) {
    std::string text = "  " + left;
    text += text.size() + 2 > kDescriptionColumn
                ? "\n" + std::string(kDescriptionColumn, ' ')
                : std::string(kDescriptionColumn - text.size(), ' ');
    return text + wrapped(right) + "\n";
  }

  static std::string first_sentence(const std::string& text) {
    return text.substr(0, text.find_first_of(".:\n"));
  }
};

}  // namespace

void set_help_style(CLI::App& app) {
  app.formatter(std::make_shared<Style>());
  app.set_help_flag("-h,--help", "Show this and exit")->group(kOther);
}

std::vector<std::string> help_groups(const CLI::App& app) {
  std::vector<std::string> groups = app.get_groups();
  std::erase(groups, "");  // the group of hidden options
  std::stable_partition(groups.begin(), groups.end(),
                        [](const std::string& group) { return group != kOther; });
  return groups;
}

CLI::App* add_command(CLI::App& program, const std::string& name, const std::string& description,
                      const std::vector<std::string>& examples) {
  CLI::App* command = program.add_subcommand(name, description);
  set_help_style(*command);
  std::string footer = "Examples:";
  for (const std::string& example : examples) footer += "\n  " + example;
  command->footer(footer);
  return command;
}

std::vector<std::string> Words::given() const {
  std::vector<std::string> all;
  for (int i = 0; i < 2; ++i) {
    if (options[i]->count() > 0) all.push_back(values[i]);
  }
  return all;
}

void add_words(CLI::App& command, Words& words, const std::string& first,
               const std::string& second) {
  const std::string names[] = {first, second};
  for (int i = 0; i < 2; ++i) {
    words.options[i] =
        command.add_option(names[i], words.values[i], "")->option_text("[" + names[i] + "]");
  }
}

CLI::Validator in_range(int64_t least, int64_t most) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        int64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data(), end, value);
        if (error != std::errc() || rest != end || value < least || value > most) {
          return in_quotes(text) + ": expected a whole number from " + std::to_string(least) +
                 " to " + std::to_string(most);
        }
        text = std::to_string(value);  // CLI11 would read a leading 0 as octal
        return "";
      },
      "");
}

CLI::Validator number_where(std::function<bool(double)> good, std::string expected) {
  return CLI::Validator(
      [good = std::move(good), expected = std::move(expected)](std::string& text) -> std::string {
        double value = 0;
        const char* end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data(), end, value);
        if (error == std::errc() && rest == end && std::isfinite(value) && good(value)) return "";
        return in_quotes(text) + ": expected " + expected;
      },
      "");
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](std::string& text) { return text.empty() ? std::string("is empty") : std::string(); }, "");
}

}  // namespace skald
