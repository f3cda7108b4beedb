// skald template: prints the prompt that a model's chat template makes of a list of messages.

#include "app/files/input.h"
#include "app/files/json.h"
#include "app/generate/chat_flags.h"
#include "app/model/chat_template.h"
#include "app/model/find_model.h"
#include "app/model/open.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/chat/chat_encode.h"

namespace skald {
namespace {

struct TemplateFlags : ModelName {
  std::string path, messages, tools;
  ChatFlags chat;
  bool no_generation_prompt = false, ids = false, json = false;
};

Conversation conversation_of(const TemplateFlags& flags) {
  const std::string file = flags.messages.empty() ? "-" : flags.messages;
  Conversation conversation =
      read_conversation(read_text(file), file == "-" ? "stdin" : printable(file));
  if (!flags.tools.empty()) {
    if (flags.tools == "-" && file == "-") {
      fail(Exit::Usage, "messages and tools both come from stdin; give a file for one of them");
    }
    conversation.tools = read_tools(read_text(flags.tools), printable(flags.tools));
  }
  const jinja::Dict variables = template_variables(flags.chat);
  for (const auto& entry : variables.entries()) conversation.more.set(entry.key, entry.value);
  conversation.generation_prompt = !flags.no_generation_prompt;
  return conversation;
}

int print_prompt(TemplateFlags& flags) {
  name_model(flags.model, flags.path);
  const std::filesystem::path model = flags.model.empty() ? bundled_model() : find_model(flags);
  const ChatTemplate chat = open_chat_template(model, flags.chat.chosen);
  const Conversation conversation = conversation_of(flags);
  StandardOutput out;
  if (!flags.ids && !flags.json) {
    out.write(chat.render(conversation));
    return 0;
  }
  const auto tokenizer = open_tokenizer(model);
  const std::vector<int32_t> ids = encode_chat(*tokenizer, chat, conversation);
  if (flags.json) {
    const Json report = {
        {"template", chat.source()}, {"prompt", chat.render(conversation)}, {"ids", ids}};
    out.write(dump(report) + "\n");
  } else {
    std::string text;
    for (int32_t id : ids) text += concat(text.empty() ? "" : " ", id);
    out.write(text + "\n");
  }
  return 0;
}

}  // namespace

void add_template(Command& program) {
  Command& command = program.add_command(
      "template",
      "Prints messages as a model's chat template writes them, byte for byte. MODEL is a model or "
      "a\n"
      "folder with its tokenizer only [bundled model]. The messages are a JSON list of\n"
      "{\"role\": …, \"content\": …}, or an object with \"messages\" and optional \"tools\".",
      {"skald template model.gguf -i messages.json",
       "echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | skald template folder/ --json",
       "skald template model.gguf -i - --chat-template chatml < messages.json"});
  auto flags = std::make_shared<TemplateFlags>();
  command.word("path", "[MODEL]", flags->path).check(not_empty());
  add_model_flag(command, *flags, "Input");
  command.option("-i,--input", flags->messages, "Read the messages from FILE; -: stdin [-]")
      .type_name("FILE")
      .check(not_empty())
      .group("Input");
  command.option("--tools", flags->tools, "Read tools that the model may call, a JSON list")
      .type_name("FILE")
      .check(not_empty())
      .group("Input");
  add_template_flags(command, flags->chat);
  add_effort_flag(command, flags->chat);
  command
      .flag("--no-generation-prompt", flags->no_generation_prompt,
            "End after the last message, without the beginning of an answer")
      .group(kChangesOutput);
  command
      .flag("--ids", flags->ids,
            "Print token ids; the text of a control token in a message stays text")
      .group("Output");
  command.flag("--json", flags->json, "Print prompt, ids and source as one JSON object")
      .group("Output");
  command.action([=] { return print_prompt(*flags); });
}

}  // namespace skald
