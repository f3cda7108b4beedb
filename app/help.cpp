#include "app/help.h"

#include <sstream>

namespace skald {
namespace {

class Style : public CLI::Formatter {
 public:
  Style() { column_width(30); }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = "usage: " + (app->get_parent() ? "skald " : std::string()) + name;
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional()) usage += " [" + option->get_name(true) + "]";
    }
    usage += app->get_subcommands({}).empty() ? " [options]" : " COMMAND [options]";
    return usage + "\n";
  }

  // Positionals are named in the usage line and explained in the description.
  std::string make_positionals(const CLI::App*) const override { return ""; }

  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text;
    if (!option->get_type_name().empty()) text += " " + option->get_type_name();
    if (!option->get_default_str().empty()) text += " [" + option->get_default_str() + "]";
    return text;
  }

  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode) const override {
    std::ostringstream text;
    text << "\ncommands:\n";
    for (const CLI::App* command : app->get_subcommands({})) {
      text << "  " << std::left << std::setw(12) << command->get_name()
           << first_sentence(command->get_description()) << "\n";
    }
    return text.str();
  }

 private:
  static std::string first_sentence(const std::string& text) {
    return text.substr(0, text.find_first_of(".\n"));
  }
};

}  // namespace

void set_help_style(CLI::App& app) {
  app.formatter(std::make_shared<Style>());
  app.set_help_flag("-h,--help", "Show this and exit")->group("Other");
}

CLI::App* add_command(CLI::App& program, const std::string& name, const std::string& description,
                      const std::vector<std::string>& examples) {
  CLI::App* command = program.add_subcommand(name, description);
  set_help_style(*command);
  std::string footer = "examples:";
  for (const std::string& example : examples) footer += "\n  " + example;
  command->footer(footer);
  return command;
}

}  // namespace skald
