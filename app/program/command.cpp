#include "app/program/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

std::string in_quotes(std::string_view text) { return "'" + printable(text, 60) + "'"; }

std::string exclusion_message(const CLI::App& app) {
  for (const CLI::Option* one : app.get_options()) {
    for (const CLI::Option* other : one->get_excludes()) {
      if (one->count() > 0 && other->count() > 0) {
        return one->get_name() + " and " + other->get_name() +
               " are given together; leave out one of them";
      }
    }
  }
  return "two flags are given that exclude each other";
}

// The message of a wrong argument list. CLI11's own words stay out of it: of its text only the name
// of the flag is taken, and what a Check of ours said.
std::string parse_message(const CLI::ParseError& problem, const CLI::App& app) {
  const std::string text = printable(problem.what(), 400);
  const std::string name = text.substr(0, text.find(':'));
  const auto says = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  if (dynamic_cast<const CLI::ValidationError*>(&problem) != nullptr) return text;
  if (dynamic_cast<const CLI::ExcludesError*>(&problem) != nullptr) return exclusion_message(app);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&problem) != nullptr) {
    return name + (says("At Most 1 ") ? " is given more than once" : " needs a value");
  }
  return "the arguments cannot be read";
}

// What every flag of a number checks, besides its own bounds: CLI11 would report a word in its own
// words.
Check any_number() {
  return number_where([](double) { return true; }, "a number");
}

}  // namespace

Check in_range(int64_t least, int64_t most) {
  return [=](std::string& text) -> std::string {
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end || value < least || value > most) {
      return in_quotes(text) + ": expected a whole number from " + std::to_string(least) + " to " +
             std::to_string(most);
    }
    text = std::to_string(value);  // CLI11 would read a leading 0 as octal
    return "";
  };
}

Check number_where(std::function<bool(double)> good, std::string expected) {
  return [good = std::move(good), expected = std::move(expected)](std::string& text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    const bool number = error == std::errc() && rest == end && std::isfinite(value);
    return number && good(value) ? std::string() : in_quotes(text) + ": expected " + expected;
  };
}

Check not_empty() {
  return [](std::string& text) { return std::string(text.empty() ? "is empty" : ""); };
}

Option Option::type_name(const std::string& text) const {
  option_->type_name(text);
  return *this;
}

Option Option::group(const std::string& name) const {
  option_->group(name);
  return *this;
}

Option Option::show_default() const {
  option_->capture_default_str();
  return *this;
}

Option Option::check(Check check) const {
  option_->transform(CLI::Validator(std::move(check), ""));
  return *this;
}

Option Option::one_of(std::vector<std::string> values) const {
  std::string listed;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) listed += i + 1 < values.size() ? ", " : " or ";
    listed += values[i];
  }
  CLI::Validator validator(CLI::IsMember(values).get_description());  // shown by --help
  validator.operation([values = std::move(values), listed](std::string& text) {
    const bool known = std::find(values.begin(), values.end(), text) != values.end();
    return known ? std::string() : in_quotes(text) + ": expected " + listed;
  });
  option_->check(std::move(validator));
  return *this;
}

Option Option::excludes(Option other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Option::repeatable() const {
  option_->expected(1)->allow_extra_args(false)->take_all();
  return *this;
}

Option Option::separated_by(char separator) const {
  option_->delimiter(separator);
  return repeatable();
}

bool Option::given() const { return option_->count() > 0; }

std::vector<std::string> Option::names() const {
  std::vector<std::string> names;
  for (const std::string& letter : option_->get_snames()) names.push_back("-" + letter);
  for (const std::string& name : option_->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string Option::long_name() const {
  const std::vector<std::string>& names = option_->get_lnames();
  return names.empty() ? "" : names.front();
}

bool Option::is_word() const { return option_->get_positional(); }
std::string Option::text() const { return option_->get_option_text(); }
std::string Option::type_name() const { return option_->get_type_name(); }
std::string Option::help() const { return option_->get_description(); }
std::string Option::group() const { return option_->get_group(); }
std::string Option::default_text() const { return option_->get_default_str(); }
bool Option::takes_value() const { return option_->get_items_expected_max() > 0; }

bool Option::is_repeatable() const {
  return option_->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
}

Command::Command(const std::string& name, const std::string& description,
                 std::shared_ptr<CLI::App> app)
    : name_(name), description_(description), app_(std::move(app)) {
  app_->set_help_flag("-h,--help", "Show this and exit")->group(kOther);
}

Command::Command(const std::string& name, const std::string& description)
    : Command(name, description, std::make_shared<CLI::App>(description, name)) {
  // At most one command: CLI11 then reads the prompt "bench" of `skald run bench` as a word.
  app_->require_subcommand(0, 1);
}

Command::Command() : Command("", "") { app_->set_help_flag(); }

Command::~Command() = default;

Command& Command::add_command(const std::string& name, const std::string& description,
                              std::vector<std::string> examples) {
  // CLI11's program owns its commands: the new pointer shares the program's ownership.
  std::shared_ptr<CLI::App> app(app_, app_->add_subcommand(name, description));
  commands_.push_back(std::unique_ptr<Command>(new Command(name, description, std::move(app))));
  commands_.back()->examples_ = std::move(examples);
  return *commands_.back();
}

Option Command::option(const std::string& names, std::string& value, const std::string& help) {
  return Option(app_->add_option(names, value, help));
}

Option Command::option(const std::string& names, int& value, const std::string& help) {
  return Option(app_->add_option(names, value, help)).check(in_range(INT32_MIN, INT32_MAX));
}

Option Command::option(const std::string& names, int64_t& value, const std::string& help) {
  return Option(app_->add_option(names, value, help)).check(in_range(INT64_MIN, INT64_MAX));
}

Option Command::option(const std::string& names, uint64_t& value, const std::string& help) {
  return Option(app_->add_option(names, value, help)).check(in_range(0, INT64_MAX));
}

Option Command::option(const std::string& names, float& value, const std::string& help) {
  return Option(app_->add_option(names, value, help)).check(any_number());
}

Option Command::option(const std::string& names, double& value, const std::string& help) {
  return Option(app_->add_option(names, value, help)).check(any_number());
}

Option Command::option(const std::string& names, std::optional<int>& value,
                       const std::string& help) {
  return Option(app_->add_option(names, value, help)).check(in_range(INT32_MIN, INT32_MAX));
}

Option Command::option(const std::string& names, std::vector<std::string>& values,
                       const std::string& help) {
  return Option(app_->add_option(names, values, help));
}

Option Command::option(const std::string& names, std::vector<int64_t>& values,
                       const std::string& help) {
  return Option(app_->add_option(names, values, help)).check(in_range(INT64_MIN, INT64_MAX));
}

Option Command::option(const std::string& names, std::function<void(const std::string& value)> set,
                       const std::string& help) {
  return Option(app_->add_option_function<std::string>(names, set, help));
}

Option Command::option(const std::string& names,
                       std::function<void(const std::vector<std::string>& values)> set,
                       const std::string& help) {
  return Option(app_->add_option_function<std::vector<std::string>>(names, set, help));
}

Option Command::flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_->add_flag(names, value, help));
}

Option Command::flag(const std::string& names, std::function<void()> set, const std::string& help) {
  return Option(app_->add_flag_callback(names, set, help));
}

Option Command::word(const std::string& name, const std::string& text, std::string& value) {
  return Option(app_->add_option(name, value, "")->option_text(text));
}

void Command::version(const std::string& help) {
  app_->set_version_flag("--version", "", help)->group(kOther);
}

void Command::footer(const std::string& text) { footer_ = text; }

void Command::suggest(Option option, std::vector<std::string> values) {
  suggestions_[option.option_] = std::move(values);
}

Command::Request Command::parse(std::vector<std::string> arguments) {
  Request request;
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes the last argument first
  try {
    app_->parse(arguments);
  } catch (const CLI::CallForHelp&) {
    request.kind = Request::Kind::Help;
  } catch (const CLI::CallForVersion&) {
    request.kind = Request::Kind::Version;
  } catch (const CLI::ExtrasError&) {
    request.kind = Request::Kind::Unexpected;
  } catch (const CLI::ParseError& problem) {
    const std::vector<CLI::App*> chosen = app_->get_subcommands();
    fail(Exit::Usage, parse_message(problem, chosen.empty() ? *app_ : *chosen.front()));
  }
  const std::vector<CLI::App*> given = app_->get_subcommands();
  request.command = given.empty() ? this : find_command(given.front()->get_name());
  if (request.kind == Request::Kind::Unexpected) {
    std::vector<std::string> unknown = request.command->app_->remaining();
    if (unknown.empty()) {  // the argument stands before the command, or after `--`
      request.command = this;
      unknown = app_->remaining();
    }
    request.unexpected = unknown.front();
  }
  return request;
}

std::vector<const Command*> Command::commands() const {
  std::vector<const Command*> all;
  for (const auto& command : commands_) all.push_back(command.get());
  return all;
}

const Command* Command::find_command(std::string_view name) const {
  for (const auto& command : commands_) {
    if (command->name_ == name) return command.get();
  }
  return nullptr;
}

std::vector<Option> Command::options() const {
  std::vector<Option> all;
  for (CLI::Option* option : app_->get_options()) all.emplace_back(option);
  return all;
}

Option Command::find_flag(const std::string& name) const {
  // Not by get_option_no_throw(), which ends the program where there is no memory for a name.
  for (CLI::Option* option : app_->get_options()) {
    if (option->check_name(name)) return option->get_positional() ? Option() : Option(option);
  }
  return {};
}

std::vector<std::string> Command::suggestions(Option option) const {
  const auto found = suggestions_.find(option.option_);
  return found == suggestions_.end() ? std::vector<std::string>() : found->second;
}

std::vector<std::string> Words::given() const {
  std::vector<std::string> all;
  for (int i = 0; i < 2; ++i) {
    if (options[i].given()) all.push_back(values[i]);
  }
  return all;
}

void add_words(Command& command, Words& words, const std::string& first,
               const std::string& second) {
  const std::string names[] = {first, second};
  for (int i = 0; i < 2; ++i) {
    words.options[i] = command.word(names[i], "[" + names[i] + "]", words.values[i]);
  }
}

}  // namespace skald
