// What users of llama.cpp and ollama type gets one line that says what to use.
#include "app/program/other_names.h"

#include <algorithm>
#include <regex>

#include "app/program/commands.h"
#include "tests/program_output.h"

namespace skald::test {
namespace {

bool is_command(std::string_view name) {
  return std::any_of(std::begin(kCommands), std::end(kCommands),
                     [&](const NamedCommand& one) { return one.name == name; });
}

// Every command and flag that the advice names exists.
void check_advice(std::string_view advice) {
  const std::string text(advice);
  CAPTURE(text);
  CHECK(!text.empty());
  CHECK(text.find('\n') == std::string::npos);
  const std::regex commands("'skald ([a-z]+)"), flags("(?:^| )(--[a-z-]+|-[a-z]+)");
  std::string helps =
      skald({"run", "--help"}).out + skald({"chat", "--help"}).out + skald({"--help"}).out;
  for (std::sregex_iterator at(text.begin(), text.end(), commands), end; at != end; ++at) {
    CHECK(is_command((*at)[1].str()));
    helps += skald({(*at)[1].str(), "--help"}).out;
  }
  for (std::sregex_iterator at(text.begin(), text.end(), flags), end; at != end; ++at) {
    CAPTURE((*at)[1].str());
    CHECK(std::regex_search(helps, std::regex("[ ,]" + (*at)[1].str() + "[ ,\n]")));
  }
}

TEST_CASE("a flag of llama.cpp or ollama gets advice that names real flags and commands") {
  for (const OtherName& one : other_flags()) {
    check_advice(one.advice);
    for (const std::string_view typed : one.typed) {
      const std::string name(typed);
      CAPTURE(name);
      const Outcome outcome = skald({"run", name, "1", "-p", "hi"});
      check_refused(outcome, 2, "unknown flag '" + name + "': " + std::string(one.advice));
    }
  }
  for (const char* flag : {"-fa", "-cnv", "-ub"}) {
    CHECK(advice_for(flag, other_flags()) != "");
  }
  CHECK(advice_for("-x", other_flags()) == "");
}

TEST_CASE("a command of llama.cpp or ollama gets advice that names real commands") {
  for (const OtherName& one : other_commands()) {
    check_advice(one.advice);
    for (const std::string_view typed : one.typed) {
      const std::string name(typed);
      CAPTURE(name);
      CHECK(!is_command(typed));
      check_refused(skald({name, "llama3.2"}), 2,
                    "unknown command '" + name + "': " + std::string(one.advice));
    }
  }
  for (const char* command : {"list", "show", "ps", "serve"}) {
    CHECK(advice_for(command, other_commands()) != "");
  }
}

}  // namespace
}  // namespace skald::test
