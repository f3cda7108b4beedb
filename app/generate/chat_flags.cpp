#include "app/generate/chat_flags.h"

#include "app/program/command.h"
#include "engine/base/error.h"

namespace skald {

void add_system_flag(Command& command, ChatFlags& flags) {
  command.option("--system-prompt", flags.system, "A system message before the others")
      .type_name("TEXT")
      .group("Prompt");
}

void suggest_templates(Command& command, Option option) {
  const std::vector<std::string_view> names = builtin_template_names();
  command.suggest(option, {names.begin(), names.end()});
}

void add_template_flags(Command& command, ChatFlags& flags) {
  const Option chosen = command
                            .option("--chat-template", flags.chosen,
                                    "In place of the model's own: a file, or a name such as chatml")
                            .type_name("FILE|NAME")
                            .check(not_empty())
                            .group(kChangesOutput);
  suggest_templates(command, chosen);
  add_variable_flags(command, flags);
}

void add_variable_flags(Command& command, ChatFlags& flags) {
  command
      .option("--chat-template-kwargs", flags.variables,
              "Further variables: {\"enable_thinking\": false}")
      .type_name("OBJ")
      .check(not_empty())
      .group(kChangesOutput);
}

void add_effort_flag(Command& command, ChatFlags& flags) {
  command
      .option("--reasoning-effort", flags.effort,
              "How much to think, where the template knows it: low, medium, high")
      .type_name("WORD")
      .one_of({"none", "minimal", "low", "medium", "high", "xhigh", "max"})
      .group(kChangesOutput);
}

jinja::Dict template_variables(const ChatFlags& flags) {
  jinja::Dict variables;
  if (!flags.effort.empty()) variables.set("reasoning_effort", jinja::Value::text(flags.effort));
  if (flags.variables.empty()) return variables;
  constexpr const char* kName = "--chat-template-kwargs";
  const jinja::Value value = jinja::from_json(flags.variables, kName);
  if (!value.as_dict()) fail(Exit::Usage, kName, ": expected a JSON object");
  for (const auto& entry : value.as_dict()->entries()) variables.set(entry.key, entry.value);
  return variables;
}

}  // namespace skald
