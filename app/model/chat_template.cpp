#include "app/model/chat_template.h"

#include "app/files/input.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

std::string names_text() {
  std::string text;
  for (std::string_view name : builtin_template_names()) {
    text += concat(text.empty() ? "" : ", ", name);
  }
  return text;
}

std::vector<NamedTemplate> chosen_template(const std::string& chosen) {
  if (auto named = builtin_template(chosen)) return {*std::move(named)};
  std::error_code error;
  if (!fs::exists(chosen, error)) {
    fail(Exit::Usage, "--chat-template: '", printable(chosen),
         "' is neither a file nor the name of a built-in template; the names are ", names_text());
  }
  // read_text() drops one newline at the end and Jinja drops another: put one of them back.
  return {{"default", printable(chosen), read_text(chosen) + "\n"}};
}

}  // namespace

ChatTemplate open_chat_template(const fs::path& model, const std::string& chosen) {
  std::vector<NamedTemplate> templates =
      chosen.empty() ? find_chat_templates(model) : chosen_template(chosen);
  if (templates.empty()) {
    fail(Exit::Model, printable(model.string()),
         ": the model has no chat template; choose one with --chat-template FILE or NAME (",
         names_text(), ")");
  }
  return ChatTemplate(std::move(templates), special_texts(model));
}

}  // namespace skald
